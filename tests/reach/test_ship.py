"""A program's folder on real hosts: whole, the same, and nothing of it sent twice."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from beds.host_fixtures import hosts_of_file
from beds.hosts import HostBed
from psclust.errors import StartError
from psclust.reach.fan_out import on_each
from psclust.reach.python.host_facts import HostFacts, ask_facts, gather_facts
from psclust.reach.python.host_python import start_python
from psclust.reach.python.host_pythons import HostPythons
from psclust.reach.python.on_host import store
from psclust.reach.python.on_host.store import Tree
from psclust.reach.run_to_end import run
from psclust.reach.ship.ship_folder import Shipped, ship, unship
from psclust.reach.ship.shipped_files import package_tree, program_tree
from psclust.reach.ssh.ssh_hosts import SshHosts
from psclust.rundir.folder import agent_folder
from psclust.spec.cluster import Host

pytestmark = pytest.mark.process

BARE = "/usr/bin/python3"


bed = hosts_of_file(2)


@pytest.fixture
def ssh(bed: HostBed) -> Iterator[SshHosts]:
    """Two hosts, whose stores are empty."""
    with SshHosts([Host("h1"), Host("h2")], home=bed.home) as ssh:
        on_each(ssh.names, lambda host: run(ssh, host, "rm -rf ~/.cache/psclust"))
        yield ssh


@pytest.fixture
def program(tmp_path: Path) -> Path:
    folder = tmp_path / "digits"
    (folder / "pkg").mkdir(parents=True)
    (folder / "train.py").write_text("import pkg.model\nprint(pkg.model.NAME)\n")
    (folder / "pkg" / "model.py").write_text("NAME = 'digits'\n")
    (folder / "run.sh").write_text("#!/bin/sh\nexec echo ran\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "same").write_text("NAME = 'digits'\n")
    (folder / "link").symlink_to("train.py")
    return folder


def facts(ssh: SshHosts, python: str = sys.executable) -> dict[str, HostFacts]:
    return gather_facts(ssh, python)


def send(
    ssh: SshHosts, facts: Mapping[str, HostFacts], tree: Tree | None, run: str = "digits.1"
) -> dict[str, Shipped]:
    with HostPythons(ssh, [each.executable for each in facts.values()][:1]) as pythons:
        return ship(pythons, facts, tree, run)


def tree_of(folder: Path) -> Tree:
    """Of a folder that no host has; without root hosts have all that this machine has."""
    tree = program_tree(folder)
    return tree if os.geteuid() == 0 else replace(tree, root=None)


def remove(ssh: SshHosts, host: str, *runs: str) -> list[str]:
    with start_python(ssh, host, [sys.executable]) as python:
        found = ask_facts(host, python)
        return unship(
            python,
            host,
            found.cache,
            {run: agent_folder(found.state, "digits", run, host) for run in runs},
        )


def sent(shipped: dict[str, Shipped]) -> dict[str, tuple[int, int]]:
    return {name: (found.files, found.size) for name, found in shipped.items()}


def test_a_folder_arrives_whole_and_runs_there(ssh: SshHosts, bed: HostBed, program: Path) -> None:
    shipped = send(ssh, facts(ssh), tree_of(program))
    for host in bed.hosts:
        folder = shipped[host.name].program
        assert folder is not None
        assert folder.startswith(f"{host.own_home}/.cache/psclust/folders/digits-")
        look_at_it = (
            f"cd {shlex.quote(folder)} && {sys.executable} train.py && ./run.sh && readlink link "
            "&& stat -c %a . train.py run.sh"
        )
        assert run(ssh, host.name, look_at_it).text == "digits\nran\ntrain.py\n700\n600\n700\n"


def test_an_empty_folder_arrives_too(ssh: SshHosts, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    folder = send(ssh, facts(ssh), tree_of(tmp_path / "empty"))["h1"].program
    assert run(ssh, "h1", f"cd {folder} && ls -A").code == 0
    assert folder != str(tmp_path / "empty"), "the host has no such folder"


def test_only_what_changed_is_sent_and_the_old_folder_stays_as_it_was(
    ssh: SshHosts, program: Path
) -> None:
    found = facts(ssh)
    first = send(ssh, found, tree_of(program))
    size = sum(len((program / name).read_bytes()) for name in ("train.py", "run.sh", "same"))
    assert sent(first) == dict.fromkeys(("h1", "h2"), (3, size)), (
        "two files with the same content are sent once"
    )
    again = send(ssh, found, tree_of(program))
    assert sent(again) == dict.fromkeys(("h1", "h2"), (0, 0))
    assert [again[name].program for name in again] == [first[name].program for name in first]
    (program / "pkg" / "model.py").write_text("NAME = 'other'\n")
    (program / "same").unlink()
    changed = send(ssh, found, tree_of(program))
    assert sent(changed) == dict.fromkeys(("h1", "h2"), (1, len("NAME = 'other'\n")))
    for shipped, name in ((first, "digits"), (changed, "other")):
        assert (
            run(ssh, "h1", f"cat {shipped['h1'].program}/pkg/model.py").text == f"NAME = '{name}'\n"
        )
    assert (
        run(ssh, "h1", f"ls {first['h1'].program} {changed['h1'].program}")
        .text.split()
        .count("same")
        == 1
    )


def test_a_host_that_lost_something_gets_just_that_back(ssh: SshHosts, program: Path) -> None:
    found = facts(ssh)
    folder = send(ssh, found, tree_of(program))["h2"].program
    run(ssh, "h2", f"rm {folder}/pkg/model.py; echo mine > {folder}/output")
    assert sent(send(ssh, found, tree_of(program))) == {"h1": (0, 0), "h2": (0, 0)}, (
        "it is still in the store"
    )
    assert (
        run(ssh, "h2", f"cat {folder}/pkg/model.py {folder}/output").text
        == "NAME = 'digits'\nmine\n"
    )
    run(ssh, "h2", "rm -rf ~/.cache/psclust/contents " + f"{folder}/run.sh")
    assert sent(send(ssh, found, tree_of(program)))["h2"][0] == 3


def test_psclust_goes_where_it_is_not_and_is_imported_from_there(
    ssh: SshHosts, tmp_path: Path
) -> None:
    here = facts(ssh, BARE)
    assert {found.psclust for found in here.values()} == {str(Path(__file__).parents[2])}, (
        "the bed's hosts see this checkout"
    )
    missing = {name: replace(found, psclust=None) for name, found in here.items()}
    shipped = send(ssh, missing, None)
    count = len({entry.digest for entry in package_tree().entries})
    assert [found.files for found in shipped.values()] == [count, count]
    for name, found in shipped.items():
        assert found.psclust is not None
        code = (
            "import psclust, importlib.machinery as m; print(psclust.__file__, "
            "'.so' in m.EXTENSION_SUFFIXES)"
        )
        said = run(
            ssh,
            name,
            f"cd / && PYTHONPATH={found.psclust} {BARE} -c {shlex.quote(code)}; "
            f"ls {found.psclust}/psclust/native/*.so",
        )
        assert said.text.split() == [
            f"{found.psclust}/psclust/__init__.py",
            "True",
            f"{found.psclust}/psclust/native/_kernels.so",
            f"{found.psclust}/psclust/native/_server_shim.so",
            f"{found.psclust}/psclust/native/_tls.so",
        ]
    assert sent(send(ssh, missing, None)) == dict.fromkeys(("h1", "h2"), (0, 0))


def test_a_folder_that_is_the_same_on_the_host_is_used_where_it_is(ssh: SshHosts) -> None:
    root = Path(__file__).parents[2] / "cluster_specs"
    shipped = send(ssh, facts(ssh), program_tree(root))
    assert {(found.program, found.files) for found in shipped.values()} == {(str(root), 0)}


def test_two_that_ship_at_once_do_not_disturb_each_other(ssh: SshHosts, program: Path) -> None:
    found = facts(ssh)["h1"]
    trees = {"digits": tree_of(program)}
    (program / "pkg" / "model.py").write_text("NAME = 'other'\n")
    trees["other"] = tree_of(program)
    turns = [f"{name} {turn}" for turn in range(4) for name in trees]
    shipped = on_each(
        turns, lambda turn: send(ssh, {"h1": found}, trees[turn.split()[0]])["h1"].program
    )
    assert len(set(shipped.values())) == 2
    for turn, folder in shipped.items():
        assert run(ssh, "h1", f"cat {folder}/pkg/model.py").text == f"NAME = '{turn.split()[0]}'\n"
    assert "new" not in run(ssh, "h1", "ls -A ~/.cache/psclust/folders").text


def test_a_file_that_changes_while_it_is_sent_is_refused(ssh: SshHosts, program: Path) -> None:
    tree = tree_of(program)
    (program / "train.py").write_text("print('shorter')\n")
    with pytest.raises(StartError) as caught:
        send(ssh, facts(ssh), tree)
    lines = str(caught.value).splitlines()
    assert [line.partition(": ")[0] for line in lines] == ["h1", "h2"]
    assert f"{program}/train.py changed while being sent" in lines[0]
    assert run(ssh, "h1", "ls ~/.cache/psclust/folders").text == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_full_disk_is_said_before_anything_is_sent(ssh: SshHosts, program: Path) -> None:
    on_each(
        ssh.names,
        lambda host: run(
            ssh,
            host,
            "mkdir -p ~/.cache/psclust && mount -t tmpfs -o size=64k tmpfs ~/.cache/psclust",
        ),
    )
    try:
        (program / "data").write_bytes(os.urandom(60_000))
        with pytest.raises(
            StartError,
            match=r"h1: /run/home/.cache/psclust: "
            r"[0-9,]+ bytes are needed and [0-9,]+ bytes are free. Make room",
        ):
            send(ssh, facts(ssh), tree_of(program))
    finally:
        on_each(ssh.names, lambda host: run(ssh, host, "umount ~/.cache/psclust"))


def test_what_was_sent_goes_with_the_last_run_that_used_it(ssh: SshHosts, program: Path) -> None:
    found = facts(ssh)
    first, second = (
        send(ssh, found, tree_of(program), run)["h1"].program for run in ("digits.1", "other.1")
    )
    (program / "same").write_text("changed")
    third = send(ssh, found, tree_of(program), "digits.2")["h1"].program
    assert first == second != third
    run(ssh, "h1", "mkdir -p ~/.local/state/psclust/agents/digits/digits.1/h1/logs")
    assert remove(ssh, "h1", "digits.1") == []
    assert set(folders(ssh, "h1")) == {first, third}, "the other cluster's run uses it"
    assert run(ssh, "h1", "ls -d ~/.local/state/psclust || true").text == ""
    assert remove(ssh, "h1", "digits.2") == []
    assert folders(ssh, "h1") == [first]
    # What the removed folder held is not there to be had any more, and the other's is.
    assert sent(send(ssh, found, tree_of(program), "digits.3"))["h1"][0] > 0
    assert remove(ssh, "h1", "digits.3", "other.1") == []
    assert run(ssh, "h1", "ls -d ~/.cache/psclust || true").text == ""
    assert len(folders(ssh, "h2")) == 2


def test_what_others_keep_beside_the_store_stays(ssh: SshHosts, program: Path) -> None:
    send(ssh, facts(ssh), tree_of(program))
    run(ssh, "h1", "mkdir ~/.cache/psclust/digits-v1")
    assert remove(ssh, "h1", "digits.1") == []
    assert run(ssh, "h1", "ls ~/.cache/psclust").text.split() == ["digits-v1"]


def test_what_somebody_works_in_stays_and_is_named(ssh: SshHosts, program: Path) -> None:
    folder = send(ssh, facts(ssh), tree_of(program))["h1"].program
    assert folder is not None
    line = f"cd {folder} && echo there && exec sleep 1000"
    with ssh.start("h1", line, "it worked there") as working:
        assert working.read_line(None) == b"there\n"
        assert remove(ssh, "h1", "digits.1") == [folder]
        assert folders(ssh, "h1") == [folder]
    assert len(folders(ssh, "h2")) == 1


def folders(ssh: SshHosts, host: str) -> list[str]:
    """What was shipped there."""
    return run(ssh, host, "ls -d ~/.cache/psclust/folders/*").text.split()


def test_who_purges_while_another_ships_takes_nothing_from_it(ssh: SshHosts, program: Path) -> None:
    found = {"h1": facts(ssh)["h1"]}
    trees = [tree_of(program)]

    def ship_and_purge(name: str) -> str:
        for _ in range(4):
            folder = send(ssh, found, trees[0], name)["h1"].program
            said = run(ssh, "h1", f"cat {folder}/pkg/model.py").text
            assert remove(ssh, "h1", name) == []
        return said

    runs = [f"digits.{number}" for number in range(3)]
    assert set(on_each(runs, ship_and_purge).values()) == {"NAME = 'digits'\n"}
    assert run(ssh, "h1", "ls -d ~/.cache/psclust || true").text == ""


def test_what_nobody_has_used_for_a_month_goes_unless_somebody_works_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = {
        "work": "take",
        "cache": str(tmp_path),
        "run": "digits.1.h1",
        "trees": [],
        "contents": [],
    }
    with open(os.devnull, "rb") as nothing:
        store.answer(question, nothing)
        for name in ("old", "busy", "new"):
            (tmp_path / "folders" / name).mkdir()
        (tmp_path / "contents" / "old").touch()
        (tmp_path / "runs" / "old").write_text("[]")
        for path in ("folders/old", "folders/busy", "contents/old", "runs/old"):
            os.utime(tmp_path / path, (0, 0))
        monkeypatch.chdir(tmp_path / "folders" / "busy")
        store.answer(question, nothing)
    assert sorted(path.name for path in (tmp_path / "folders").iterdir()) == ["busy", "new"]
    assert list((tmp_path / "contents").iterdir()) == []
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["digits.1.h1"]
