"""Random JSON, and records with something wrong in them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from hypothesis import strategies as st

GONE = object()
_SINGLE = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(10**400), 10**400)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["worker:0", "ps:0", "ended", "live", "train", "done", "ssh"])
)
DATA = st.recursive(
    _SINGLE,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)


@st.composite
def damaged(draw: st.DrawFn, text: str) -> bytes:
    """The text with a piece cut out, and perhaps other bytes in its place, or cut off."""
    data = text.encode()
    at = draw(st.integers(0, len(data)))
    end = draw(st.integers(at, min(at + 12, len(data))) | st.just(len(data)))
    deep = st.sampled_from([b"[" * 20_000, b'{"a":' * 4_000, b"9" * 5_000, b"1e999", b"NaN"])
    return data[:at] + draw(st.binary(max_size=6) | deep) + data[end:]


def likely(data: Any) -> st.SearchStrategy[bytes]:
    """The JSON of `data` with at most two values, at any depth, replaced or left out."""
    places = list(_places(data))
    change = st.tuples(st.sampled_from(places), st.just(GONE) | DATA)
    return st.lists(change, max_size=2).map(lambda changes: _changed(data, changes))


def _places(data: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield above
    inner: Iterable[tuple[Any, Any]] = ()
    if isinstance(data, dict):
        inner = data.items()
    elif isinstance(data, list | tuple):
        inner = enumerate(data)
    for key, value in inner:
        yield from _places(value, (*above, key))


def _changed(data: Any, changes: list[tuple[tuple[Any, ...], Any]]) -> bytes:
    whole = {"data": json.loads(json.dumps(data))}
    for place, value in changes:
        at: Any = whole
        *path, last = ("data", *place)
        with suppress(LookupError, TypeError):  # an earlier change has taken the place away
            for key in path:
                at = at[key]
            if value is GONE:
                del at[last]
            else:
                at[last] = value
    return json.dumps(whole.get("data")).encode()
