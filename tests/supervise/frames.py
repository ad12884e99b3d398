"""Where tasks of made-up evidence are in TensorFlow's code, psclust's and their own."""

from __future__ import annotations

from psclust.transport.process_facts import Frame


def of_tensorflow(function: str, file: str) -> Frame:
    return Frame(function, f"/v/site-packages/tensorflow/python/{file}", 1)


def of_psclust(function: str, file: str, line: int = 1) -> Frame:
    return Frame(function, f"/v/site-packages/psclust/{file}", line)


SESSION = of_tensorflow("BaseSession._call_tf_sessionrun", "client/session.py")
EXTEND = of_tensorflow("BaseSession._extend_graph", "client/session.py")
EXECUTE = of_tensorflow("quick_execute", "eager/execute.py")
JOIN = of_tensorflow("Coordinator.join", "training/coordinator.py")
RUNNER = of_tensorflow("QueueRunner._run", "training/queue_runner_impl.py")
# The names of the threads of a program whose queue runner is at work.
RUNNERS = (
    "MainThread",
    "QueueRunnerThread-sync_token_q-close_on_stop",
    "QueueRunnerThread-sync_token_q-sync_token_q_EnqueueMany",
)
LINE = Frame("<module>", "/train.py", 41, "s.run(train_op)")
