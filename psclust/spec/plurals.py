"""Counts with their noun, `1 ps`, `2 workers`, and lists of words that may be long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Pass `noun` in the singular. One that ends in s is its own plural (`2 ps`)."""
    return (
        f"{count} {noun if count == 1 else plural or (noun if noun.endswith('s') else noun + 's')}"
    )


def counted_tasks(counts: Mapping[str, int]) -> str:
    """`5 workers and 1 ps`, from job -> number of tasks."""
    return joined([counted(count, job) for job, count in counts.items() if count])


def joined(words: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def some_of(words: Sequence[str], most: int = 4) -> str:
    """`a, b, c, d and 3 more`."""
    return ", ".join(words[:most]) + (f" and {len(words) - most} more" if len(words) > most else "")
