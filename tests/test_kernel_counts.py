"""The table of kernel shapes in docs/design/kernels.md is complete, and its numbers of operators are right."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import mxforge
from goldens import operator_goldens
from mxforge.codegen.llvm.routines.emit import _ROUTINES, _SHAPE_FREE
from mxforge.ir.dialects.core import Fused
from mxforge.ir.dialects.core.registry import PRIMITIVES
from mxforge.ir.dialects.mx.operator import all_names, all_operators
from mxforge.ir.graph import Node
from mxforge.passes.kinds import Kind, kind_of
from mxforge.passes.manager import Context, Options, run_passes
from mxforge.passes.pipeline import FOR_KERNELS
from mxforge.runtime.host.machine import host_target
from sweeps import together

PAGE = Path(mxforge.__file__).resolve().parent / "docs" / "design" / "kernels.md"
SECTION = PAGE.read_text().partition("## How few kernels")[2].partition("\n## ")[0]
ROWS = {name: int(least or 0) for name, least in re.findall(r"^\| `(\w+)` \|.*\| (\d*) *\|$", SECTION, re.MULTILINE)}
LOOPS = (Kind.WINDOW, Kind.ROW, Kind.MOVE, Kind.POINTWISE)
FREE = ("Reshape", "Constant")  # views and data
CALLS = 2  # recorded calls of each operator


def shape_of(node: Node) -> str | None:
    """The shape of the kernel that computes a node of a fused graph."""
    if not isinstance(node.op, Fused):
        return None if type(node.op).__name__ in FREE else type(node.op).__name__
    kinds = {kind_of(inner) for region in node.op.regions() for inner in region.nodes}
    if Kind.CONTRACT in kinds:
        return "contraction"
    return next((kind.value for kind in LOOPS if kind in kinds), "join" if Kind.JOIN in kinds else "pointwise")


@cache
def users() -> dict[str, set[str]]:
    """The operators that use each shape, from the first recorded calls of each."""
    found: dict[str, set[str]] = defaultdict(set)
    calls: dict[str, int] = defaultdict(int)
    for golden in operator_goldens():
        calls[golden.op] += 1
        if calls[golden.op] > CALLS:
            continue
        context = Context(host_target(1), Options(training=golden.train))
        for node in run_passes(FOR_KERNELS, together(golden.op, [golden], golden.train).graph, context).nodes:
            shape = "join" if type(node.op).__name__ == "Concat" else shape_of(node)
            if shape is not None:
                found[shape].add(golden.op)
    return found


def test_every_shape_is_in_the_table() -> None:
    loops = {kind.value for kind in (*LOOPS, Kind.JOIN)}
    routines = {op.__name__ for op in (*_ROUTINES, *_SHAPE_FREE)}
    assert set(ROWS) == {"contraction"} | loops | {"While", "Cond"} | routines
    assert set(users()) <= set(ROWS)


def test_the_table_has_the_number_of_operators_of_each_shape() -> None:
    assert {shape: len(users()[shape]) for shape, least in ROWS.items() if len(users()[shape]) < least} == {}


def test_the_numbers_of_the_text() -> None:
    operators, names, primitives, shapes = map(int, re.findall(r"\b\d+\b", SECTION)[:4])
    assert len(all_operators()) >= operators and len(all_names()) >= names
    assert (len(PRIMITIVES), len(ROWS)) == (primitives, shapes)
