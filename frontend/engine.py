"""MXNet's engine bundles operators to run them together. Here work is done when a call returns, so that the size of
bundles is kept and asked for, and changes nothing."""

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
    """Note how many operators may be bundled in this thread; gives the former number."""
    before, _bulk.size = _bulk.size, int(size)
    return before


class _BulkScope:
    """A size of bundles inside of a `with`."""

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
    """`with bulk(10):` notes the size of bundles for the lines inside."""
    return _BulkScope(size)
