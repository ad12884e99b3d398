"""The Dockerfiles without Docker: their build context, their steps run in test folders, and the
entry point of hosts."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pathspec
import pytest
from dockerfile_parse import DockerfileParser

from beds.free_ports import free_ports
from beds.sshd import Keys, find_program, make_keys
from psclust.testing.wait import wait_until

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
PODS = ROOT / "deploy" / "kubernetes.Dockerfile"
both = pytest.mark.parametrize("dockerfile", [DOCKERFILE, PODS], ids=["host", "pod"])


@dataclass(frozen=True)
class Step:
    """One instruction of a stage (0: what builds the wheel)."""

    stage: int
    name: str
    value: str

    @property
    def words(self) -> list[str]:
        return shlex.split(self.value)


@pytest.fixture(scope="module")
def steps() -> list[Step]:
    return read_steps(DOCKERFILE)


def read_steps(dockerfile: Path) -> list[Step]:
    with dockerfile.open("rb") as file:
        entries = [
            entry
            for entry in DockerfileParser(fileobj=file).structure
            if entry["instruction"] != "COMMENT"
        ]
    starts = [index for index, entry in enumerate(entries) if entry["instruction"] == "FROM"]
    return [
        Step(sum(start <= index for start in starts) - 1, entry["instruction"], entry["value"])
        for index, entry in enumerate(entries)
    ]


def copied(steps: list[Step], stage: int) -> list[str]:
    """What comes from the checkout."""
    found = [
        step.words
        for step in steps
        if step.stage == stage and step.name == "COPY" and not step.value.startswith("--from")
    ]
    return [word for words in found for word in words[:-1]]


def run_step(steps: list[Step], command: str, places: dict[str, Path | str], home: Path) -> None:
    """Carries out the RUN that `command` is in, with other places in the stead of the image's."""
    (text,) = [step.value for step in steps if step.name == "RUN" and command in step.value]
    for place, other in places.items():
        text = text.replace(place, str(other))
    environ = {**os.environ, "HOME": str(home), "PIP_NO_BUILD_ISOLATION": "0"}
    done = subprocess.run(
        ["sh", "-c", text], env=environ, cwd=home, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr


@both
def test_all_that_it_copies_is_sent_to_the_builder_and_little_else(dockerfile: Path) -> None:
    steps = read_steps(dockerfile)
    files = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    never = [
        ".git/config",
        ".venv/bin/python",
        "psclust/native/_server_shim.abi3.so",
        "psclust/cli/__pycache__/up.pyc",
    ]
    # Of the patterns that Docker and git understand alike.
    ignored = pathspec.GitIgnoreSpec.from_lines(
        Path(f"{dockerfile}.dockerignore").read_text(encoding="utf-8").splitlines()
    )
    context = {name for name in [*files, *never] if not ignored.match_file(name)}
    for source in [*copied(steps, 0), *copied(steps, 1)]:
        assert any(name == source or name.startswith(f"{source}/") for name in context), source
    assert context.isdisjoint(never)
    assert {name.partition("/")[0] for name in context} == {
        "README.md",
        "deploy",
        "psclust",
        "pyproject.toml",
        "setup.py",
    }


@pytest.mark.long
@both
def test_its_steps_make_a_wheel_of_what_they_copy_and_install_it(
    dockerfile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = read_steps(dockerfile)
    source, wheels, installed = (tmp_path / name for name in ("src", "wheel", "psclust"))
    source.mkdir()
    for name in copied(steps, 0):
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "*.so")
            )
        else:
            shutil.copy(ROOT / name, source)
    places: dict[str, Path | str] = {
        "python3": sys.executable,
        "/src": source,
        "/wheel": wheels,
        "/opt/psclust": installed,
    }
    run_step(steps, "pip wheel", places, tmp_path)
    # All that psclust needs is more than a gigabyte.
    monkeypatch.setenv("TENSORFLOW", "==2.21.0")
    run_step(
        steps,
        "on-host install",
        {**places, "on-host": ROOT / "deploy" / "on-host", "--no-cache-dir": "--no-deps"},
        tmp_path,
    )
    (package,) = (installed / "lib").glob("python*/site-packages/psclust")
    names = {path.relative_to(ROOT / "psclust") for path in (ROOT / "psclust").rglob("*.py")}
    assert {path.relative_to(package) for path in package.rglob("*.py")} == names
    assert list((package / "native").glob("_server_shim*.so"))
    assert list((package / "native").glob("_kernels*.so"))
    # What pip was not to go beyond.
    assert (wheels / "versions").read_text(encoding="utf-8") == "tensorflow==2.21.0\n"


def test_it_ends_as_a_user_who_is_not_root_and_removes_the_keys_that_came_with_sshd(
    steps: list[Step],
) -> None:
    last = [step for step in steps if step.stage == 1]
    users = [step.value for step in last if step.name == "USER"]
    assert users == ["psclust"]
    (made,) = [step.value for step in last if "useradd" in step.value]
    assert users[0] in shlex.split(made)
    # Keys that a package makes when it is installed would be in the layer of that step.
    assert "openssh-server" in made
    assert "/etc/ssh/ssh_host_*" in made
    assert max(index for index, step in enumerate(last) if step.name == "RUN") < [
        step.name for step in last
    ].index("USER")


def test_a_pod_finds_psclust_on_its_path_is_not_root_and_may_write_beside_the_program() -> None:
    last = [step for step in read_steps(PODS) if step.stage == 1]
    found = {step.name: step.value for step in last if step.name in ("ENV", "USER", "WORKDIR")}
    assert found == {"ENV": "PATH=/opt/psclust/bin:$PATH", "USER": "1000", "WORKDIR": "/app"}
    assert any("on-host install /opt/psclust " in step.value for step in last)
    (made,) = [step.value for step in last if "useradd" in step.value]
    assert "--uid 1000 psclust" in made
    assert "install -d -o psclust /app" in made


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / ".ssh").mkdir()
    return tmp_path


@pytest.fixture
def keys(home: Path) -> Keys:
    keys = make_keys(home)
    shutil.copy(keys.user.with_suffix(".pub"), home / ".ssh" / "authorized_keys")
    return keys


@pytest.fixture
def container(steps: list[Step], home: Path) -> Iterator[str]:
    """What a container of the image runs, on a port of 127.0.0.1; the known_hosts line that it
    logs."""
    (program,) = json.loads(next(step.value for step in steps if step.name == "ENTRYPOINT"))
    assert f"deploy/{program}" in copied(steps, 1)
    if os.geteuid() == 0:
        # Of no use to anybody else; root's sshd does not start without it.
        Path("/run/sshd").mkdir(exist_ok=True)
    port, log = free_ports(1), home / "log"
    environ = {**os.environ, "HOME": str(home), "PSCLUST_SSH_PORT": str(port)}
    with log.open("w") as file:
        process = subprocess.Popen(
            [ROOT / "deploy" / program, "-o", "ListenAddress=127.0.0.1"],
            env=environ,
            stdout=file,
            stderr=file,
        )
    try:
        wait_until(
            lambda: "Server listening" in log.read_text() or process.poll() is not None, what="sshd"
        )
        assert process.poll() is None, log.read_text()
        yield next(
            line.removeprefix("known_hosts: ")
            for line in log.read_text().splitlines()
            if line.startswith("known_hosts: ")
        )
    finally:
        process.terminate()
        process.wait()


def test_who_has_the_key_is_let_in_knows_the_host_by_what_it_logs_and_finds_its_python(
    container: str, keys: Keys, home: Path
) -> None:
    place, kind, key = container.split()
    port = place.rpartition(":")[2]
    (home / "known_hosts").write_text(f"[127.0.0.1]:{port} {kind} {key}\n")
    options = {
        "UserKnownHostsFile": home / "known_hosts",
        "IdentityFile": keys.user,
        "IdentitiesOnly": "yes",
        "BatchMode": "yes",
    }
    command = [
        find_program("ssh"),
        "-F",
        "none",
        "-p",
        port,
        *(f"-o{name}={value}" for name, value in options.items()),
        "127.0.0.1",
    ]
    said = subprocess.run(
        [*command, "echo $PATH"], capture_output=True, text=True, timeout=300
    ).stdout
    assert "/opt/psclust/bin:/usr/local/bin:" in said
    (home / ".ssh" / "authorized_keys").unlink()
    refused = subprocess.run([*command, "true"], capture_output=True, text=True, timeout=300)
    assert "Permission denied" in refused.stderr
    assert (home / ".sshd" / "host_key").stat().st_mode & 0o777 == 0o600
