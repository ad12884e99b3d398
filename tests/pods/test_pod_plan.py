"""What a pod plans for its task, from the cluster file in its environment."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from psclust.errors import UsageError
from psclust.launch.pod_request import plan_in_pod
from psclust.plan.task_plan import TaskPlan
from psclust.pods.names import INDEX

PROGRAM = "name: d\njobs: {ps: 2, worker: 2}\nprogram: m:p\nargs: [--x, '{address}']\n"


def task(text: str, job: str, index: int | None = 0, **environ: str) -> TaskPlan:
    found, plan = plan_in_pod({"PSCLUST_FILE": text, **environ}, job, index, "/run")
    return plan[found]


def test_the_index_of_the_pod_chooses_the_task() -> None:
    entry = task(PROGRAM, "worker", None, **{INDEX: "1"})
    assert str(entry.task) == "worker:1"
    assert entry.address == "d-worker-0-1.d:2222"
    assert entry.argv[1:] == ("-m", "psclust.train", "m:p", "--x", "d-worker-0-1.d:2222")
    assert json.loads(entry.env["PSCLUST_CLUSTER"]) == {
        "ps": ["d-ps-0-0.d:2222", "d-ps-0-1.d:2222"],
        "worker": ["d-worker-0-0.d:2222", "d-worker-0-1.d:2222"],
    }
    assert [str(need) for need in entry.needs] == ["ps:0", "ps:1"]


def test_a_server_is_a_bare_one_and_listens_on_every_interface_of_its_pod() -> None:
    entry = task(PROGRAM, "ps")
    assert entry.argv[1:3] == ("-m", "psclust.runtime.bare_server")
    assert "PSCLUST_BIND" not in entry.env
    assert entry.env["CUDA_VISIBLE_DEVICES"] == ""


def test_names_are_looked_up_again_soon() -> None:
    options = task(PROGRAM, "worker").env["TF_GRPC_DEFAULT_OPTIONS"].split(",")
    assert {"grpc.dns_min_time_between_resolutions_ms=1000", "grpc.enable_http_proxy=0"} <= set(
        options
    )
    own = task(f"{PROGRAM}env: {{TF_GRPC_DEFAULT_OPTIONS: grpc.a=1}}\n", "worker")
    assert own.env["TF_GRPC_DEFAULT_OPTIONS"] == "grpc.a=1"


def test_the_gpus_of_a_pod_are_the_first_ones() -> None:
    text = "name: d\njobs: {ps: 1, worker: {count: 2, gpus: 2}}\nprogram: m:p\n"
    assert task(text, "worker", 1).env["CUDA_VISIBLE_DEVICES"] == "0,1"


def test_a_script_in_the_image_gets_what_it_asks_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flags.py").write_text(
        "for f in ('ps_hosts', 'worker_hosts', 'job_name', 'task_index'): "
        "p.add_argument('--' + f)\n"
    )
    (tmp_path / "config.py").write_text("import os\nprint(os.environ['TF_CONFIG'])\n")
    text = "name: d\njobs: {ps: {ports: 4000}, worker: {count: 2, ports: 5000}}\nprogram: "
    flags = task(f"{text}flags.py", "worker", 1)
    assert flags.argv[2:] == (
        "--ps_hosts=d-ps-0-0.d:4000",
        "--worker_hosts=d-worker-0-0.d:5000,d-worker-0-1.d:5000",
        "--job_name=worker",
        "--task_index=1",
    )
    config = task(f"{text}config.py", "worker", 1)
    assert json.loads(config.env["TF_CONFIG"])["task"] == {"type": "worker", "index": 1}
    assert config.cwd == str(tmp_path)


def test_a_free_port_is_beside_that_of_the_server() -> None:
    entry = task(
        "name: d\njobs: {ps: 1, worker: 2}\nprogram: [serve, '{port}', '{free_port}']\n", "worker"
    )
    assert entry.argv == ("serve", "2222", "2224")


def test_in_graph_the_client_has_a_pod_of_its_own() -> None:
    entry = task(f"{PROGRAM}replication: in-graph\n", "client")
    assert entry.host == "d-client-0-0.d"
    assert [str(need) for need in entry.needs] == ["ps:0", "ps:1", "worker:0", "worker:1"]


def test_the_run_has_the_id_of_its_jobset() -> None:
    assert task(PROGRAM, "ps", PSCLUST_RUN_ID="5a1f").env["PSCLUST_RUN"] == "5a1f"
    assert task(PROGRAM, "ps").env["PSCLUST_RUN"] == "d"


@pytest.mark.parametrize(
    ("environ", "job", "index", "message"),
    [
        (
            {},
            "ps",
            0,
            (
                "PSCLUST_FILE is not set: `psclust task` is what the pods of `psclust manifest` "
                "run; elsewhere write `psclust up`."
            ),
        ),
        (
            {"PSCLUST_FILE": "a: [b"},
            "ps",
            0,
            "PSCLUST_FILE is not YAML: while parsing a flow sequence",
        ),
        ({"PSCLUST_FILE": "ps"}, "ps", 0, "PSCLUST_FILE holds no keys of a cluster file."),
        (
            {"PSCLUST_FILE": "jbos: {ps: 1}"},
            "ps",
            0,
            "PSCLUST_FILE: unknown key; did you mean jobs?",
        ),
        (
            {"PSCLUST_FILE": PROGRAM},
            "wroker",
            0,
            "wroker: the cluster has no such job; did you mean worker?",
        ),
        (
            {"PSCLUST_FILE": PROGRAM},
            "ps",
            2,
            "there is no ps:2: the last task is ps:1; indices begin at 0.",
        ),
        (
            {"PSCLUST_FILE": PROGRAM},
            "ps",
            None,
            f"{INDEX} is not set: the pods of an indexed Job have it; elsewhere",
        ),
        (
            {"PSCLUST_FILE": PROGRAM, INDEX: "x"},
            "ps",
            None,
            f"found 'x' in {INDEX}: the pods of an indexed Job have it",
        ),
    ],
)
def test_a_mistake_is_one_sentence(
    environ: dict[str, str], job: str, index: int | None, message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        plan_in_pod(environ, job, index, "/run")
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
