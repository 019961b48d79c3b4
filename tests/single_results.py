"""Graphs of one result each, and numbers for them, for judges that run graphs of core."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from mxforge.codegen.llvm.target import AVX512
from mxforge.ir.dialects.core import CoreBuilder
from mxforge.ir.graph import Graph
from mxforge.ir.types import DType
from mxforge.passes.eliminate import EliminateDeadCode
from mxforge.passes.manager import Context


def single_results(graph: Graph, without: tuple[type, ...]) -> list[Graph]:
    """A graph for each result that a node computes, other than those that need a primitive of `without`."""
    graphs: list[Graph] = []
    for value in graph.outputs:
        alone = replace(graph, outputs=(value,), updates=(), private=frozenset[int]())
        alone = EliminateDeadCode().run(alone, Context(AVX512))
        if not any(isinstance(node.op, without) for node in alone.nodes) and alone.nodes:
            graphs.append(alone)
    return graphs


def numbers_for(types: Any, seed: int = 0) -> list[Any]:
    """Positive numbers of these types."""
    rng = np.random.default_rng(seed)
    made = [
        np.abs(rng.standard_normal(t.shape)) * 3 if t.dtype.is_float else rng.integers(0, 99, t.shape) for t in types
    ]
    return [a.astype(t.dtype.numpy) for a, t in zip(made, types, strict=True)]


def in_float32(graph: Graph) -> Graph:
    """The graph with results in float32 that are floats of 16 bits."""
    b = CoreBuilder(graph.name)
    results = b.inline(graph, [b.input(v.type) for v in graph.inputs])
    return b.build([b.cast(v, DType.F32) if v.type.dtype in (DType.BF16, DType.F16) else v for v in results])
