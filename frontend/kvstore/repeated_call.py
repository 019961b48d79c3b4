"""A call of `pushpull` whose keys and arrays are those of the call before it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from operator import is_
from typing import Any

from ..ndarray import NDArray
from .blocks import Copies
from .buckets import Key

_KNOWN = 2
"""Lists of the arrays of a store's values: they can be in either of two blocks."""


class RepeatedCall:
    """The keys of a call, the array of each that is pushed, and the one that receives the value. All are dense."""

    def __init__(self, keys: list[Key], pushed: list[NDArray], pulled: list[NDArray]) -> None:
        self.keys, self.pulled = keys, pulled
        self.pushed = dict(zip(keys, pushed, strict=True))
        self._pushed, self._copies = pushed, Copies(pulled)
        self._values: deque[list[NDArray]] = deque(maxlen=_KNOWN)
        self._parts: dict[tuple[Key, ...], list[NDArray]] = {}
        self.plan: Any = None
        """What the store keeps for it."""

    def pushed_of(self, keys: tuple[Key, ...]) -> list[NDArray]:
        """The pushed arrays of these keys, each time as one object."""
        return self._parts.get(keys) or self._parts.setdefault(keys, [self.pushed[k] for k in keys])

    @staticmethod
    def of(key: Any, value: Any, out: Any) -> RepeatedCall | None:
        """The call with these arguments, which are valid. None if it is not of several keys with one array each."""
        if not isinstance(key, list | tuple) or len(key) < 2:
            return None
        pushed = _singles(value)
        pulled = pushed if out is None or out is value else _singles(out)
        if len(set(key)) < len(key) or pushed is None or pulled is None:
            return None
        dense = all(isinstance(array, NDArray) and not array._is_sparse for array in (*pushed, *pulled))
        return RepeatedCall(list(key), pushed, pulled) if dense else None

    def is_made_by(self, key: Any, value: Any, out: Any) -> bool:
        """True for arguments of this call."""
        if key.__class__ is not list or key != self.keys:
            return False
        if not _are_same(value, self._pushed):
            return False
        return self.pulled is self._pushed if out is None or out is value else _are_same(out, self.pulled)

    def pull(self, values: Mapping[Key, NDArray]) -> None:
        """Copy values to the arrays that receive them."""
        sources = list(map(values.__getitem__, self.keys))
        for known in self._values:
            if all(map(is_, sources, known)):
                self._copies.run(known, self.pulled, again=True)
                return
        self._values.append(sources)
        self._copies.run(sources, self.pulled)


def _singles(arrays: Any) -> list[NDArray] | None:
    """The arrays of a list of arrays, or of lists of one array each; None for others."""
    if not isinstance(arrays, list | tuple):
        return None
    singles = [array[0] if array.__class__ is list and len(array) == 1 else array for array in arrays]
    return None if list in map(type, singles) else singles


def _are_same(arrays: Any, known: Sequence[NDArray]) -> bool:
    if arrays.__class__ is not list or len(arrays) != len(known):
        return False
    return all(map(is_, arrays, known)) or all(map(is_, _singles(arrays) or (None,), known))
