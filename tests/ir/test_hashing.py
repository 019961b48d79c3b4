"""Structural hashes depend only on structure, and are the same in every process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from kernels import EXPONENT, PROGRAM, SOFTMAX
from mxforge.codegen.llvm.schedule.kinds import RegisterTile
from mxforge.ir.dialects.core import Constant, CoreBuilder, HostCallback
from mxforge.ir.graph import Graph
from mxforge.ir.hashing import structural_hash
from mxforge.ir.kernel import Axis, AxisKind, Buffer, Kernel, Load, Local, Reduce, ReduceOp, Scalar, Store, affine
from mxforge.ir.parser import parse_graph
from mxforge.ir.printer import print_graph
from mxforge.ir.scalar import ScalarOp
from mxforge.ir.types import DType, TensorType
from printed_graphs import every_primitive, random_graph


def graph(**changed: object) -> Graph:
    given = {"name": "main", "x": "x", "at": "", "shape": (4,), "factor": 2.0, "parameter": False} | changed
    b = CoreBuilder(str(given["name"]))
    x = b.input(TensorType(given["shape"], DType.F32), str(given["x"]), parameter=bool(given["parameter"]))  # type: ignore[arg-type]
    b.location = str(given["at"])
    return b.build([b.mul(x, given["factor"])])  # type: ignore[arg-type]


@pytest.mark.parametrize("changed", [{"name": "other"}, {"x": "y"}, {"at": "net.py:3"}])
def test_names_do_not_count(changed: dict[str, object]) -> None:
    assert structural_hash(graph(**changed)) == structural_hash(graph())


@pytest.mark.parametrize("changed", [{"shape": (5,)}, {"factor": 2.5}, {"factor": -2.0}, {"parameter": True}])
def test_structure_counts(changed: dict[str, object]) -> None:
    assert structural_hash(graph(**changed)) != structural_hash(graph())


def test_private_outputs_count() -> None:
    assert structural_hash(replace(graph(), private=frozenset({0}))) != structural_hash(graph())


def test_parsed_graphs_hash_alike() -> None:
    graphs = [every_primitive(), *(random_graph(seed) for seed in range(40))]
    for g in graphs:
        assert structural_hash(parse_graph(print_graph(g))) == structural_hash(g)
    assert len({structural_hash(g) for g in graphs}) == len(graphs)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (np.array([0.0]), np.array([-0.0])),
        (np.array([1, 2]), np.array([2, 1])),
        (np.array([1, 2]), np.array([[1, 2]])),
        (np.array([1], np.int32), np.array([1], np.uint32)),
    ],
)
def test_constants_count_by_content(a: np.ndarray, b: np.ndarray) -> None:
    assert structural_hash(Constant(a)) != structural_hash(Constant(b))
    assert structural_hash(Constant(a)) == structural_hash(Constant(a.copy()))


def test_host_callbacks_count_by_function() -> None:
    def calling(function: Callable[..., tuple[np.ndarray, ...]]) -> Graph:
        b = CoreBuilder()
        kind = TensorType((4,), DType.F32)
        return b.build(b.node(HostCallback(function, (kind,)), b.input(kind)).outputs)

    double, triple = (lambda x, f=f: (f * x,) for f in (2, 3))
    assert structural_hash(calling(double)) == structural_hash(calling(double))
    assert structural_hash(calling(double)) != structural_hash(calling(triple))


def row_sums(x: str = "x", row: str = "i", column: str = "k", local: str = "m", factor: int = 1) -> Kernel:
    load = Load(x, (affine((row, 1)), affine((column, factor))))
    value = Reduce(ReduceOp.ADD, (column,), Scalar(ScalarOp.MUL, (load, load)))
    return Kernel(
        f"sum_{x}",
        (Buffer(x, DType.F32, (4, 8)), Buffer("y", DType.F32, (4,), written=True)),
        (),
        (Axis(row, 4), Axis(column, 8, AxisKind.REDUCE)),
        (Local(local, (row,), value), Store("y", (affine((row, 1)),), value)),
    )


def test_kernels() -> None:
    assert structural_hash(row_sums()) == structural_hash(row_sums("u", "a", "b", "c"))
    assert structural_hash(row_sums()) != structural_hash(row_sums(factor=2))
    stages = (*SOFTMAX.stages[:3], replace(SOFTMAX.stages[3], value=EXPONENT))
    assert structural_hash(SOFTMAX) != structural_hash(replace(SOFTMAX, stages=stages))


def test_shared_expressions_are_visited_once() -> None:
    value = Load("x", (affine(("i", 1)), affine(("i", 1))))
    for _ in range(100):
        value = Scalar(ScalarOp.ADD, (value, value))
    deep = replace(row_sums(), stages=(Store("y", (affine(("i", 1)),), value),))
    assert structural_hash(deep) == structural_hash(deep)


def test_several_things_and_other_dataclasses() -> None:
    assert structural_hash(SOFTMAX, RegisterTile(6, 2)) != structural_hash(SOFTMAX, RegisterTile(6, 4))
    assert structural_hash(PROGRAM) != structural_hash(replace(PROGRAM, constants=b"\0\0\0\1"))
    with pytest.raises(TypeError, match="has no structural hash"):
        structural_hash(object())


def test_the_hash_is_stable_across_processes() -> None:
    code = (
        "from mxforge.ir.hashing import structural_hash as h; from printed_graphs import random_graph;"
        "from mxforge.codegen.llvm.schedule.kinds import RegisterTile; from kernels import SOFTMAX;"
        "print(h(random_graph(5), SOFTMAX, RegisterTile(6, 2)))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}; {code}"],
        env={"PYTHONHASHSEED": "77"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ran.stdout.strip() == structural_hash(random_graph(5), SOFTMAX, RegisterTile(6, 2))
