"""Tasks of workers as pickles: a function and its arguments. Objects that the workers got when they started (the
dataset, the function that makes batches) are named by their positions, so they need not be pickled."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

Call = tuple[Callable[..., Any], tuple[Any, ...]]


def pickle_task(call: Call, constants: tuple[Any, ...]) -> bytes:
    """The pickle of a task."""
    stream = io.BytesIO()
    _TaskPickler(stream, constants).dump(call)
    return stream.getvalue()


def unpickle_task(pickled: bytes, constants: tuple[Any, ...]) -> Call:
    """The task of a pickle."""
    return _TaskUnpickler(pickled, constants).load()


class _TaskPickler(ForkingPickler):
    def __init__(self, stream: io.BytesIO, constants: tuple[Any, ...]) -> None:
        super().__init__(stream, pickle.HIGHEST_PROTOCOL)
        self._positions = {id(constant): position for position, constant in enumerate(constants)}

    def persistent_id(self, obj: Any) -> int | None:
        return self._positions.get(id(obj))


class _TaskUnpickler(pickle.Unpickler):
    def __init__(self, pickled: bytes, constants: tuple[Any, ...]) -> None:
        super().__init__(io.BytesIO(pickled))
        self._constants = constants

    def persistent_load(self, pid: int) -> Any:
        return self._constants[pid]
