"""Plain objects as bytes, which come from other processes and are not unpickled."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np

from ..ndarray import NDArray, array


def to_bytes(value: Any) -> bytes:
    """The bytes of None, numbers, texts, arrays, and lists, tuples and dictionaries of them. TypeError for others."""
    arrays: list[np.ndarray[Any, Any]] = []
    text = json.dumps(_encoded(value, arrays)).encode()
    memory = io.BytesIO()
    np.savez(memory, np.frombuffer(text, np.uint8), *arrays)  # the members are arr_0, arr_1, ...
    return memory.getvalue()


def from_bytes(data: bytes) -> Any:
    """The value of `to_bytes`."""
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return _decoded(json.loads(arrays["arr_0"].tobytes()), arrays)


def _encoded(value: Any, arrays: list[np.ndarray[Any, Any]]) -> Any:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case np.generic():
            return value.item()
        case NDArray() | np.ndarray():
            is_own = isinstance(value, NDArray)
            arrays.append(value.asnumpy() if isinstance(value, NDArray) else value)
            if arrays[-1].dtype.hasobject:
                raise TypeError("an array of Python objects cannot be sent")
            return {"array" if is_own else "ndarray": f"arr_{len(arrays)}"}
        case list():
            return [_encoded(v, arrays) for v in value]
        case tuple():
            return {"tuple": [_encoded(v, arrays) for v in value]}
        case dict():
            return {"dict": [[_encoded(k, arrays), _encoded(v, arrays)] for k, v in value.items()]}
        case _:
            raise TypeError(f"an object of type {type(value).__name__} cannot be sent: only plain values and arrays")


def _decoded(value: Any, arrays: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(v, arrays) for v in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    match kind:
        case "array":
            return array(arrays[content], dtype=arrays[content].dtype)
        case "ndarray":
            return arrays[content]
        case "tuple":
            return tuple(_decoded(v, arrays) for v in content)
        case _:
            return {_decoded(k, arrays): _decoded(v, arrays) for k, v in content}
