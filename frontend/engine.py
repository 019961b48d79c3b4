"""MXNet's engine runs operators in bulks. In mxforge a call returns when its work is done: the bulk size is stored and
has no effect."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

from .base import check_call

__all__ = ["bulk", "check_call", "set_bulk_size"]


class _Bulk(threading.local):
    size = 0


_bulk = _Bulk()


def set_bulk_size(size: int) -> int:
    """Set the number of operators in a bulk for this thread; returns the previous number. It has no effect."""
    before, _bulk.size = _bulk.size, int(size)
    return before


class _BulkScope:
    """A `with` block with a bulk size."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._before: list[int] = []

    def __enter__(self) -> Self:
        self._before.append(set_bulk_size(self._size))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        set_bulk_size(self._before.pop())


def bulk(size: int) -> _BulkScope:
    """`with bulk(10):` sets the bulk size in the block. It has no effect."""
    return _BulkScope(size)
