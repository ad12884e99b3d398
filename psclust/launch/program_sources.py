"""The sources of Python programs: the script or module that a job runs, and the modules beside it
that it imports. Sources are read, never imported: the launcher does not load TensorFlow."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from psclust.plan.cluster_layout import ClusterLayout
from psclust.plan.coordination import coordinated
from psclust.plan.job_plan import JobPlan
from psclust.plan.script_facts import ScriptFacts, imported_modules, read_facts
from psclust.spec.cluster_file import ClusterFile, ClusterText
from psclust.spec.preload_limits import is_imported
from psclust.spec.program_command import parse_program

# A large repository is not read whole.
_MOST_FILES = 50
_MOST_BYTES = 500_000


def read_scripts(
    file: ClusterFile, layout: ClusterLayout, environ: Mapping[str, str]
) -> dict[str, ScriptFacts]:
    """Job -> facts about its Python program, for programs whose source can be read."""
    facts = cache(read_facts)
    return {
        job: replace(facts(found), hides=_hidden_module(file, layout.job(job)))
        for job, found in _sources_of_jobs(file, layout, environ).items()
    }


def suited_to_script(text: ClusterText) -> tuple[ClusterText, str | None]:
    """See `psclust.plan.coordination.coordinated`."""
    name = parse_program(text.program).python_source(text.args)
    if name is None:
        return text, None
    python_path = str(text.env.get("PYTHONPATH", os.environ.get("PYTHONPATH", "")))
    return coordinated(text, name, sources_of(name, Path(text.cwd or "."), python_path))


def source_text(file: ClusterFile, layout: ClusterLayout, environ: Mapping[str, str]) -> str | None:
    """The source of all Python programs; None if none can be read."""
    found = [
        source for sources in _sources_of_jobs(file, layout, environ).values() for source in sources
    ]
    return "\n".join(dict.fromkeys(found)) if found else None


def _sources_of_jobs(
    file: ClusterFile, layout: ClusterLayout, environ: Mapping[str, str]
) -> dict[str, tuple[str, ...]]:
    """By job."""
    read = cache(sources_of)  # most jobs run the same program in the same place
    found = {}
    for entry in layout.jobs:
        program = entry.python_source(file)
        if program is None:
            continue
        env: Mapping[str, object] = {**environ, **file.env, **entry.job.env}
        folder = Path(entry.job.cwd or file.cwd or ".")
        sources = read(program, folder, str(env.get("PYTHONPATH", "")))
        if sources:
            found[entry.name] = sources
    return found


def module_file(name: str, roots: Sequence[Path]) -> Path | None:
    """The file of the module with this dotted name below the first root that has it; of a package,
    its `__init__.py`."""
    for root in roots:
        base = root.joinpath(*name.split("."))
        for path in (base.with_name(f"{base.name}.py"), base / "__init__.py"):
            if path.is_file():
                return path
    return None


def _hidden_module(file: ClusterFile, entry: JobPlan) -> str | None:
    """A file in the program's folder that hides a module which TensorFlow imports."""
    program, folder = entry.python_source(file) or "", Path(entry.job.cwd or file.cwd or ".")
    try:
        beside = sorted(_home(program, folder).iterdir())
    except OSError:
        return None
    modules = [path for path in beside if path.suffix == ".py" or (path / "__init__.py").is_file()]
    return next((path.name for path in modules if is_imported(path.stem)), None)


def _home(program: str, folder: Path) -> Path:
    """The folder of a program's own modules: the first entry of its sys.path."""
    return folder if program.startswith("-m ") else Path(os.path.realpath(folder / program)).parent


def sources_of(program: str, folder: Path, python_path: str) -> tuple[str, ...]:
    """Of a script or `-m module` in `folder`, and of the modules beside it that it imports; none if
    it cannot be read."""
    more = [folder / entry for entry in python_path.split(os.pathsep) if entry]
    if program.startswith("-m "):
        roots = [folder, *more]
        name = program.removeprefix("-m ")
        path = module_file(f"{name}.__main__", roots) or module_file(name, roots)
    else:
        path = folder / program
        roots = [_home(program, folder), *more]
    return tuple(_sources(path, roots)) if path is not None else ()


def _sources(first: Path, roots: Sequence[Path]) -> Iterator[str]:
    """Of the program, and of the modules below the roots that it imports, nearest first."""
    waiting, seen, size = [first], {first}, 0
    while waiting and len(seen) - len(waiting) < _MOST_FILES and size < _MOST_BYTES:
        path = waiting.pop(0)
        try:
            source = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        yield source
        size += len(source)
        for name in imported_modules(source):
            for found in _imported(name, path, roots):
                if found not in seen:
                    seen.add(found)
                    waiting.append(found)


def _imported(name: str, importer: Path, roots: Sequence[Path]) -> Iterator[Path]:
    """The files that an import may run: the module's, and those of the packages above it."""
    dots = len(name) - len(name.lstrip("."))
    if dots:
        roots = [importer.parents[dots - 1]] if dots <= len(importer.parents) else []
    parts = name.lstrip(".").split(".")
    for length in range(1, len(parts) + 1):
        found = module_file(".".join(parts[:length]), roots)
        if found is not None:
            yield found
