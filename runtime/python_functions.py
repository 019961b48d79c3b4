"""Calls the Python functions of programs on copies of their operands."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..ir.program import HostFunction
from .tensor_memory import Array, as_memory, elements


def call_on_copies(
    function: HostFunction, operands: Sequence[Array]
) -> tuple[Sequence[Array], list[tuple[int, Array]]]:
    """The results of a function for operands in memory, and the memory's new content for the operands that it wrote.
    It gets copies, because the program reuses the memory."""
    copies = [elements(memory, type.dtype) for memory, type in zip(operands, function.inputs, strict=True)]
    results = function(*copies)
    new = [(i, as_memory(copies[i], function.inputs[i].dtype)) for i in function.writes]
    return results, [(i, array) for i, array in new if not np.array_equal(_bytes(array), _bytes(operands[i]))]


def _bytes(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)
