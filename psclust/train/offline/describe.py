"""`python -m psclust.train --describe module:program [options]`: the variables of a program, for `psclust plan`. Nothing is trained and no
server is started."""

from __future__ import annotations

from psclust.placement.description import Description
from psclust.replication.variables.dry_build import dry_build
from psclust.train.program import Program

FLAG = "--describe"


def describe_program(program: Program) -> str:
    """One line for `Description.find`. Raises UsageError where the program's functions break their contract."""
    return Description(tuple(dry_build(program)), program.config.wire_dtype).render()
