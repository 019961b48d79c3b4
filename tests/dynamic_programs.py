"""Helpers for tests of dynamic programs against the compiler and the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import mxforge as mx
import numpy as np
import numpy.typing as npt
from compiled import guarded
from mxforge.codegen.dynamic import compile_dynamic
from mxforge.codegen.dynamic_program import DynamicProgram
from mxforge.frontend.symbol.to_graph import symbol_to_graph
from mxforge.ir.graph import Graph
from mxforge.ir.program import Program
from mxforge.ir.types import DType, TensorType
from mxforge.passes.manager import Options
from mxforge.runtime.host.executable import Executable
from mxforge.runtime.host.machine import host_target
from mxforge.runtime.reference import ReferenceExecutable
from random_programs import Program as RandomProgram

Array = npt.NDArray[Any]
DYNAMIC = Options(dynamic=True)


def graph_of(symbol: mx.sym.Symbol, shapes: dict[str, tuple[int, ...]], dtype: str = "float32") -> Graph:
    """The graph of a symbol. Inputs whose names do not start with x are parameters."""
    found, _, states = symbol.infer_shape(**shapes)
    assert found is not None
    assert states is not None
    names = [*symbol.list_arguments(), *symbol.list_auxiliary_states()]
    known = dict(zip(names, [*found, *states], strict=True))
    types = {n: TensorType(tuple(known[n]), DType.from_numpy(dtype)) for n in symbol.list_inputs()}
    return symbol_to_graph(symbol, types, [n for n in names if not n.startswith("x")], "net")


def random_graph(program: RandomProgram, shapes: Sequence[tuple[int, ...]]) -> Graph:
    """The graph of a random program for inputs of these shapes."""
    names = [f"x{i}" for i in range(len(shapes))]
    variables = [mx.sym.var(n, dtype=x.dtype) for n, x in zip(names, program.inputs, strict=True)]
    group = mx.sym.Group(program.run(mx.sym, variables))
    used = set(group.list_inputs())
    inputs = zip(names, shapes, program.inputs, strict=True)
    types = {n: TensorType(s, DType.from_numpy(x.dtype)) for n, s, x in inputs if n in used}
    return symbol_to_graph(group, types, (), f"p{program.seed}")


def varied(program: RandomProgram, by: int) -> list[tuple[int, ...]]:
    """The input shapes with extents above 1 changed; equal extents remain equal."""
    extents = sorted({n for x in program.inputs for n in x.shape if n > 1})
    other = {n: n + (by + k) % 4 for k, n in enumerate(extents)}
    return [tuple(other.get(n, n) for n in x.shape) for x in program.inputs]


def dynamic_of(graph: Graph) -> DynamicProgram:
    """The dynamic program of a graph for this machine and two threads."""
    return compile_dynamic(graph, host_target(2), DYNAMIC)


def values_for(graph: Graph, seed: int = 0) -> list[Array]:
    """Random inputs of a graph; variances are positive."""
    rng = np.random.default_rng(seed)
    made: list[Array] = []
    for v in graph.inputs:
        x = rng.standard_normal(v.type.shape)
        x = np.abs(x) + 0.5 if v.name.endswith("var") else x / np.sqrt(max(1, np.prod(v.type.shape[1:])))
        made.append((x if v.type.dtype.is_float else rng.integers(0, 4, v.type.shape)).astype(v.type.dtype.numpy))
    return made


def run(program: Program, arrays: Sequence[Array]) -> list[Array]:
    """The results of a program. AssertionError if it writes outside of an output."""
    executable, inputs = Executable(program), [np.ascontiguousarray(a) for a in arrays]
    made = [guarded(t) for t in program.results]
    executable.run([a.ctypes.data for a in inputs], [y.ctypes.data for _, y in made])
    for memory, y in made:
        start = y.ctypes.data - memory.ctypes.data
        beside = np.concatenate([memory[:start], memory[start + y.nbytes :]])
        assert (beside == 0xAB).all(), f"{program.name} writes outside of an output"
    return [y for _, y in made]


def interpreted(graph: Graph, arrays: Sequence[Array]) -> list[Array]:
    """The results on the reference target."""
    executable, inputs = ReferenceExecutable(graph), [np.ascontiguousarray(a) for a in arrays]
    outputs = [np.zeros(t.shape, t.dtype.numpy) for t in executable.outputs]
    executable.run([a.ctypes.data for a in inputs], [y.ctypes.data for y in outputs])
    return outputs


def assert_close(found: Sequence[Array], wanted: Sequence[Array], tolerance: float) -> None:
    """Asserts that integers are equal and floats agree relative to the largest value."""
    for i, (y, expected) in enumerate(zip(found, wanted, strict=True)):
        assert (y.shape, y.dtype) == (expected.shape, expected.dtype)
        finite = np.isfinite(expected) if y.dtype.kind == "f" else np.ones(y.shape, bool)
        assert np.array_equal(y[~finite], expected[~finite], equal_nan=y.dtype.kind == "f")
        a, b = y[finite].astype(np.float64), expected[finite].astype(np.float64)
        scale = max(1.0, float(np.abs(b).max(initial=0)))
        worst = float(np.abs(a - b).max(initial=0)) / scale
        assert worst <= (tolerance if y.dtype.kind == "f" else 0), f"output {i}: relative error {worst:.2e}"


def assert_equal_programs(a: Program, b: Program) -> None:
    """Asserts that the programs differ only in names and in the objects that contain their code."""
    for f in fields(Program):
        if f.name not in ("code", "functions", "name", "names"):
            assert getattr(a, f.name) == getattr(b, f.name), f.name
