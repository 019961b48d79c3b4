"""Large constants of a module: a program has them in memory, not in its code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..stablehlo.upstream import Upstream, find_all
from .memory import set_type

_LARGEST = 1 << 10
"""Bytes of a constant that stays in the code."""

_ALIGNMENT = 64


class Constants(NamedTuple):
    """The bytes of all constants, and the offset and the size of each."""

    block: bytes
    places: tuple[tuple[int, int], ...]


NO_CONSTANTS = Constants(b"", ())


def take_constants(upstream: Upstream, function: Any) -> Constants:
    """Make the large constants of a function further arguments, after its own."""
    ir, entry = upstream.ir, function.regions[0].blocks[0]
    parts: list[bytes] = []
    for op in find_all(function, ("stablehlo.constant",)):
        data = _bytes(ir, op.attributes["value"])
        if len(data) > _LARGEST:
            op.results[0].replace_all_uses_with(entry.add_argument(op.results[0].type, op.location))
            op.erase()
            parts.append(data)
    if parts:
        results = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value).results
        set_type(ir, function, results)
    return _joined(parts)


def _joined(parts: Sequence[bytes]) -> Constants:
    block, places = bytearray(), list[tuple[int, int]]()
    for part in parts:
        block.extend(bytes(-len(block) % _ALIGNMENT))
        places.append((len(block), len(part)))
        block.extend(part)
    return Constants(bytes(block), tuple(places))


def _bytes(ir: Any, value: Any) -> bytes:
    """The elements in memory; none for one number everywhere, and for elements that are not in the module."""
    if not isinstance(value, ir.DenseElementsAttr) or value.is_splat:
        return b""
    try:
        return np.asarray(value).tobytes()
    except TypeError:  # bfloat16: upstream writes the bits of large constants as a string
        _, is_hexadecimal, digits = str(value).partition('"0x')
        return bytes.fromhex(digits.partition('"')[0]) if is_hexadecimal else b""
