"""Runs passes on small graphs, compares the printed graphs before and after, and compares values by the interpreter."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import dedent

import numpy as np
import numpy.typing as npt
from mxforge.codegen.llvm.target import AVX512
from mxforge.ir.dialects.core import evaluate_graph, storage
from mxforge.ir.graph import Graph, GraphBuilder, Node, Op, Value
from mxforge.ir.kernel import Kernel
from mxforge.ir.printer import print_graph, print_kernel
from mxforge.ir.target import Capabilities
from mxforge.ir.types import DType, Layout, TensorType
from mxforge.ir.verifier import verify_graph
from mxforge.passes.manager import Context, Options, Pass

Array = npt.NDArray[np.generic]

# Parts of MLIR's generic form that tests omit: (pattern, replacement), applied in order.
_SHORTER = (
    (r' loc\("[^"]*"\)', ""),
    (r"(, )?core\.parameters = array<i64: ([\d, ]+)>", r"\1parameters [\2]"),
    (r", operandSegmentSizes = array<i32: ([\d, ]+)>", r", roles [\1]"),
    (r" : \((?:[^()]*)\) -> ", " : "),
    (r'"vector\.yield"\((.*?)\) \{core\.graph = "([^"]*)"\} : .*', r"yield \1"),
    (r'"func\.return"\((.*?)\) : .*', r"return \1"),
    (r"array<(?:i64|i1)(?:: )?([^>]*)>", r"[\1]"),
    (r" : i64\b", ""),
    (r", \{block = (\d+), halo = \[([\d, ]*)\]\}>", r" in blocks of \1, halo \2>"),
    (r", halo 0(?:, 0)*>", ">"),
    (r'"(core|kernel)\.(\w+)(?:\.[\w.]+)?"', r"\2"),
    (r"\^bb0\(", "("),
    (r"tensor<((?:[^<>])*)>", r"\1"),
    (r'pointwise(\(.*?\)) \{op = "(\w+)"\}', r"\2\1"),
    (r"constant\(\) \{value = (.*), dtype = \w+\} : \w+$", r"\1"),
    (r", (lhs_dilation|rhs_dilation) = \[1(?:, 1)*\]", ""),
    (r", (groups|batch_groups) = 1\b", ""),
    (r"(fused|concat|call|scan|sort)(_\d+)+\(", r"\1("),
    (r"\{(index = )?affine_map<\(.*?\) -> \((.*?)\)>", r"{[\2]"),
    (r" \{shape = \[.*?\], axes = (\[.*?\])\}", r" \1"),
    (r" \{shape = \[.*?\]\}", ""),
    (r' \{name = "\w+", shape = \[.*?\]', " {"),
    (r'axis\(\) \{name = "\w+", extent = (\w+|"\w+"), kind = "(\w+)"\} : index', r"\2 axis of \1"),
    (r"^\^bb0:\n", ""),
    (r"buffer\(\) \{, strides = \[(.*?)\], written = \w+\} : (.*)", r"\2 [\1]"),
    (r" \[\]$", ""),
    (r'scalar(\(.*?\)) \{op = "(\w+)"\}', r"\2\1"),
    (r"constant\(\) \{value = (\S+)( : f64)?\}", r"\1"),
    (r"load\((%\w+).*?\) \{(\[.*?\]), other = (\S+)(?: : f64)?\}", r"load \1\2 else \3"),
    (r"load\((%\w+).*?\) \{(\[.*?\])\}", r"load \1\2"),
    (r"store\((%\w+).*?\)", r"store \1"),
    (r"\}\) \{(\[.*\])\} : \(\)", r"}) at \1"),
    (r'"vector\.yield"\((.*)\) : \(\)', r"yield \1"),
    (r"\n  return $", ""),
)


def compact(text: str) -> str:
    """The printed body of one graph, shortened."""
    lines = text.splitlines()[2:-2]
    short = "\n".join(line.removeprefix("  ") for line in lines)
    for pattern, replacement in _SHORTER:
        short = re.sub(pattern, replacement, short, flags=re.MULTILINE)
    return short


def graph_text(graph: Graph) -> str:
    return compact(print_graph(graph))


def tensor(*shape: int, dtype: DType = DType.F32) -> TensorType:
    return TensorType(shape, dtype)


def random_inputs(graph: Graph, seed: int = 0) -> list[Array]:
    """Arrays for every input of a graph: normally distributed floats, small non-negative integers, random booleans."""
    rng = np.random.default_rng(seed)
    arrays: list[Array] = []
    for value in graph.inputs:
        kind, shape = value.type.dtype, value.type.shape
        drawn = rng.standard_normal(shape) if kind.is_float else rng.integers(0, 2 if kind is DType.BOOL else 5, shape)
        arrays.append(np.asarray(drawn).astype(storage(kind)))
    return arrays


def assert_same_values(before: Graph, after: Graph, tolerance: float = 0.0, arrays: Sequence[Array] = ()) -> None:
    """Asserts that both graphs have the same result types, and that the interpreter computes the same values."""
    assert [t.with_layout(None) for t in before.output_types()] == [t.with_layout(None) for t in after.output_types()]
    arrays = arrays or random_inputs(after)
    pairs = zip(evaluate_graph(before, arrays[: len(before.inputs)]), evaluate_graph(after, arrays), strict=True)
    for expected, found in pairs:
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def in_layout(b: GraphBuilder, op: Op, layout: Layout | None, *operands: Value) -> Value:
    """The result of a new node of `op`, with this layout."""
    (type,) = op.infer(*(v.type.with_layout(None) for v in operands))
    b.append(Node(op, operands, [type.with_layout(layout)]))
    return b.nodes[-1].outputs[0]


def run_pass(step: Pass, graph: Graph, target: Capabilities = AVX512, options: Options | None = None) -> Graph:
    """The verified result of one pass."""
    result = step.run(graph, Context(target, options or Options()))
    verify_graph(result)
    return result


@dataclass(frozen=True)
class Chain(Pass):
    """Several passes as one pass."""

    steps: tuple[Pass, ...]
    name = "chain"

    def run(self, graph: Graph, context: Context) -> Graph:
        for step in self.steps:
            graph = step.run(graph, context)
        return graph


def assert_rewrites(
    step: Pass, graph: Graph, golden: str, tolerance: float = 0.0, target: Capabilities = AVX512
) -> Graph:
    """Asserts that the pass rewrites the first graph of `golden` to the second, after `->`, and keeps values; returns
    the second graph."""
    result = run_pass(step, graph, target)
    assert_text(f"{graph_text(graph)}\n->\n{graph_text(result)}", golden)
    assert_same_values(graph, result, tolerance)
    return result


def assert_unchanged(step: Pass, graph: Graph, target: Capabilities = AVX512) -> None:
    """Asserts that the pass returns the graph itself."""
    assert run_pass(step, graph, target) is graph


def assert_text(found: str, golden: str) -> None:
    """Asserts that two texts are equal. The golden text may be indented like the code around it."""
    assert found.strip() == dedent(golden).strip(), f"found\n{found}"


def kernel_text(kernel: Kernel) -> str:
    """The printed kernel without its module."""
    return dedent(compact(print_kernel(kernel)))
