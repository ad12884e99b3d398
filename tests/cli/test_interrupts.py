"""Signals that come at any moment are counted and seen once."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import Any

from psclust.cli.interrupts import Interrupts


class _AtInstruction:
    """Sends this process SIGINT before instruction number `number` of `Interrupts.unseen`. sent:
    whether it has that many."""

    def __init__(self, number: int) -> None:
        self._left = number
        self.sent = False

    def __call__(self, frame: FrameType, event: str, argument: Any) -> _AtInstruction | None:
        if frame.f_code is not Interrupts.unseen.__code__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self._left -= 1
            if self._left == 0:
                self.sent = True
                signal.raise_signal(signal.SIGINT)
        return self


def test_a_signal_between_two_instructions_is_seen_later() -> None:
    instruction = 0
    while True:
        instruction += 1
        with Interrupts() as interrupts:
            at, before = _AtInstruction(instruction), sys.gettrace()
            sys.settrace(at)
            try:
                seen = interrupts.unseen()
            finally:
                sys.settrace(before)
            if not at.sent:
                break
            assert [*seen, *interrupts.unseen()] == [1], f"at instruction {instruction}"
    assert instruction > 10
