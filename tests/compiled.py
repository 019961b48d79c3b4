"""Helpers for tests of code generation: compile graphs for this machine, and compare them with the interpreter.

With MXFORGE_TARGET=mlir they compile through upstream MLIR, with MXFORGE_TARGET=gpu for a simulated GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from mxforge.codegen.driver import compile_graph
from mxforge.codegen.target import Target
from mxforge.ir.dialects.core import evaluate_graph
from mxforge.ir.graph import Graph
from mxforge.ir.program import Launch, Program, Step
from mxforge.ir.settings import settings
from mxforge.ir.types import TensorType
from mxforge.passes.manager import Options
from mxforge.runtime.host.executable import Executable
from mxforge.runtime.host.machine import host_target

Array = npt.NDArray[Any]


def compiled(graph: Graph, options: Options | None = None, target: Target | None = None) -> Program:
    """The program of a graph, for this machine and two threads or another target."""
    return compile_graph(graph, target or TARGETS[settings().target](), options)


def _mlir_target() -> Target:
    from mxforge.codegen.mlir.target import MlirTarget

    return MlirTarget.of(host_target(2))


def _gpu_target() -> Target:
    from support.simulated_gpu import TARGET

    return TARGET


TARGETS: dict[str, Callable[[], Target]] = {"cpu": lambda: host_target(2), "mlir": _mlir_target, "gpu": _gpu_target}
"""The targets whose programs `run_program` and `run_on_gpu` run."""


def launches_of(steps: Iterable[Step]) -> list[Launch]:
    """The launches among steps, without those in loops and branches."""
    return [step for step in steps if isinstance(step, Launch)]


_GUARD = 256  # bytes on each side of an output, which programs must not write


def guarded(type: TensorType) -> tuple[Array, Array]:
    """The bytes of an output between two guards, and a view of the output, with the runtime's alignment. A private
    output in blocks has its physical shape, and zeros that the program keeps."""
    memory = np.full(type.nbytes + 2 * _GUARD + 64, 0xAB, np.uint8)
    start = _GUARD + -(memory.ctypes.data + _GUARD) % 64
    inside = memory[start : start + type.nbytes]
    if type.layout is None:
        return memory, inside.view(type.dtype.numpy).reshape(type.shape)
    inside[:] = 0
    return memory, inside.view(type.dtype.numpy).reshape(type.layout.physical_shape(type.shape))


def run_program(program: Program, arrays: Sequence[Array]) -> list[Array]:
    """The results of a program, then the new values of its state. It runs twice on one executable, so that stale memory
    changes results. AssertionError if it writes outside of an output."""
    if settings().target == "gpu":
        return run_on_gpu(program, arrays)
    executable = Executable(program)
    inputs: list[Array] = []
    outputs: list[Array] = []
    for _ in range(2):
        inputs = [
            np.array(a, order="C") if i in program.state else np.ascontiguousarray(a) for i, a in enumerate(arrays)
        ]
        made = [guarded(t) for t in program.results]
        outputs = [y for _, y in made]
        executable.run([a.ctypes.data for a in inputs], [y.ctypes.data for y in outputs])
        for memory, y in made:
            start = y.ctypes.data - memory.ctypes.data
            beside = np.concatenate([memory[:start], memory[start + y.nbytes :]])
            assert (beside == 0xAB).all(), f"{program.name} writes outside of an output"
    return [*outputs, *(inputs[i] for i in program.state)]


def run_on_gpu(program: Program, arrays: Sequence[Array]) -> list[Array]:
    """The results of a program on a simulated GPU, as of `run_program`. BadAddress if it writes outside of an output.
    A fresh device has the program, so that nothing of others is reused."""
    from support.simulated_gpu import SimulatedGpu

    device = SimulatedGpu(0)
    loaded = device.load(program)
    blocks = [device.allocate(x.nbytes) for x in arrays]
    results = [device.allocate(t.nbytes) for t in program.results]
    for _ in range(2):
        for block, x in zip(blocks, arrays, strict=True):
            device.write(block.address, np.ascontiguousarray(x))
        loaded.run([b.address for b in blocks], [b.address for b in results])
    types = [*program.results, *(program.inputs[i] for i in program.state)]
    found = [np.empty(t.shape, t.dtype.numpy) for t in types]
    for block, into in zip([*results, *(blocks[i] for i in program.state)], found, strict=True):
        device.read(block.address, into)
    return found


def check(
    graph: Graph, *operands: Array | np.generic, tolerance: float = 1e-5, options: Options | None = None
) -> Program:
    """Assert that the compiled graph agrees with the interpreter: max-norm error relative to the largest value."""
    program = compiled(graph, options)
    arrays = [np.asarray(a) for a in operands]
    expected = evaluate_graph(graph, arrays)
    for found, reference in zip(run_program(program, arrays), expected, strict=True):
        assert found.shape == reference.shape
        assert found.dtype == reference.dtype
        finite = np.isfinite(reference)
        assert np.array_equal(found[~finite], reference[~finite], equal_nan=reference.dtype.kind == "f")
        found, reference = found[finite].astype(np.float64), reference[finite]
        scale = max(1e-30, float(np.abs(reference).max(initial=0)))
        worst = float(np.abs(found - reference).max(initial=0)) / scale
        assert worst <= tolerance, f"relative error {worst:.2e}"
    return program
