"""Compiles graphs for this machine and compares them with the interpreter: what tests of code generation share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from mxforge.codegen.driver import compile_graph
from mxforge.ir.dialects.core import evaluate_graph
from mxforge.ir.graph import Graph
from mxforge.ir.program import Program
from mxforge.ir.types import TensorType
from mxforge.passes.manager import Options
from mxforge.runtime.executable import Executable
from mxforge.runtime.host import host_target

Array = npt.NDArray[Any]


def compiled(graph: Graph, options: Options | None = None) -> Program:
    """The program of a graph for this machine and two threads."""
    return compile_graph(graph, host_target(2), options)


_GUARD = 256  # bytes on each side of an output, which no program may write


def guarded(type: TensorType) -> tuple[Array, Array]:
    """The bytes of an output between two guards, and the output in them, aligned as the runtime's are."""
    memory = np.full(type.nbytes + 2 * _GUARD + 64, 0xAB, np.uint8)
    start = _GUARD + -(memory.ctypes.data + _GUARD) % 64
    return memory, memory[start : start + type.nbytes].view(type.dtype.numpy).reshape(type.shape)


def run_program(program: Program, arrays: Sequence[Array]) -> list[Array]:
    """The results of a program, then the new values of its state, run twice on one executable so that memory left
    behind would show. AssertionError if it writes beside an output."""
    executable = Executable(program)
    inputs: list[Array] = []
    outputs: list[Array] = []
    for _ in range(2):
        inputs = [
            np.array(a, order="C") if i in program.state else np.ascontiguousarray(a) for i, a in enumerate(arrays)
        ]
        made = [guarded(t) for t in program.outputs]
        outputs = [y for _, y in made]
        executable.run([a.ctypes.data for a in inputs], [y.ctypes.data for y in outputs])
        for memory, y in made:
            start = y.ctypes.data - memory.ctypes.data
            beside = np.concatenate([memory[:start], memory[start + y.nbytes :]])
            assert (beside == 0xAB).all(), f"{program.name} writes beside an output"
    return [*outputs, *(inputs[i] for i in program.state)]


def check(
    graph: Graph, *operands: Array | np.generic, tolerance: float = 1e-5, options: Options | None = None
) -> Program:
    """Assert that the compiled graph agrees with the interpreter: max-norm error relative to the largest value."""
    program = compiled(graph, options)
    arrays = [np.asarray(a) for a in operands]
    expected = evaluate_graph(graph, arrays)
    for found, wanted in zip(run_program(program, arrays), expected, strict=True):
        assert found.shape == wanted.shape
        assert found.dtype == wanted.dtype
        finite = np.isfinite(wanted)
        assert np.array_equal(found[~finite], wanted[~finite], equal_nan=wanted.dtype.kind == "f")
        found, wanted = found[finite].astype(np.float64), wanted[finite]
        scale = max(1e-30, float(np.abs(wanted).max(initial=0)))
        worst = float(np.abs(found - wanted).max(initial=0)) / scale
        assert worst <= tolerance, f"relative error {worst:.2e}"
    return program
