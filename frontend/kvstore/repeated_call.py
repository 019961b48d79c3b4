"""A call of `pushpull` whose keys and arrays are those of the call before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import is_
from typing import Any

from ..ndarray import NDArray
from .blocks import Copies
from .buckets import Key


class RepeatedCall:
    """The keys of a call, the array of each that is pushed, and the one that receives the value. All are dense."""

    def __init__(self, keys: list[Key], pushed: list[NDArray], pulled: list[NDArray]) -> None:
        self.keys, self.pulled = keys, pulled
        self.pushed = dict(zip(keys, pushed, strict=True))
        self._pushed, self._copies = pushed, Copies(pulled)
        self.plan: Any = None
        """What the store keeps for it."""

    @staticmethod
    def of(key: Any, value: Any, out: Any) -> RepeatedCall | None:
        """The call with these arguments, which are valid. None if it is not of several keys with one array each."""
        if not isinstance(key, list | tuple) or len(key) < 2:
            return None
        pushed, pulled = _singles(value), _singles(value if out is None else out)
        if len(set(key)) < len(key) or pushed is None or pulled is None:
            return None
        dense = all(isinstance(array, NDArray) and not array._is_sparse for array in (*pushed, *pulled))
        return RepeatedCall(list(key), pushed, pulled) if dense else None

    def is_made_by(self, key: Any, value: Any, out: Any) -> bool:
        """True for arguments of this call."""
        if key.__class__ is not list or key != self.keys:
            return False
        return _are_same(value, self._pushed) and _are_same(value if out is None else out, self.pulled)

    def pull(self, values: Mapping[Key, NDArray]) -> None:
        """Copy values to the arrays that receive them."""
        self._copies.run([values[k] for k in self.keys], self.pulled)


def _singles(arrays: Any) -> list[NDArray] | None:
    """The arrays of a list of arrays, or of lists of one array each; None for others."""
    if not isinstance(arrays, list | tuple):
        return None
    singles = [array[0] if array.__class__ is list and len(array) == 1 else array for array in arrays]
    return None if list in map(type, singles) else singles


def _are_same(arrays: Any, known: Sequence[NDArray]) -> bool:
    singles = _singles(arrays)
    return singles is not None and len(singles) == len(known) and all(map(is_, singles, known))
