"""MXFORGE_DEBUG=1 and the program report each contraction that runs as plain loops, with the reason."""

from __future__ import annotations

import pytest
from compiled import compiled
from mxforge.codegen.dynamic import compile_dynamic
from mxforge.ir.dialects.core import CoreBuilder
from mxforge.ir.graph import Graph
from mxforge.ir.manifest import program_from_bytes, program_to_bytes
from mxforge.ir.printer import print_program
from mxforge.ir.settings import settings
from mxforge.ir.types import DType
from mxforge.passes.manager import Options
from mxforge.runtime.host.machine import host_target
from rewriting import tensor

pytest.importorskip("llvmlite.binding")
REASON = "no schedule supports products of i32 by i32 in i32"


def product(dtype: DType) -> Graph:
    b = CoreBuilder()
    x, y = (b.input(tensor(*shape, dtype=dtype)) for shape in ((3, 4), (4, 5)))
    b.location = "net.py:3"
    made = b.matmul(x, y)
    assert made.node is not None
    made.node.name = "dense0"
    return b.build([made])


def test_the_program_contains_the_reason() -> None:
    program = compiled(product(DType.I32))
    assert program.fallbacks() == [("dense0", REASON)]
    assert program_from_bytes(program_to_bytes(program)).fallbacks() == program.fallbacks()
    assert f'fallback = "{REASON}"' in print_program(program)


def test_scheduled_contractions_have_no_reason() -> None:
    program = compiled(product(DType.F32))
    assert program.fallbacks() == []
    assert "fallback" not in print_program(program)


def test_a_compilation_prints_the_reason(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("MXFORGE_DEBUG", "1")
    settings.cache_clear()
    try:
        compiled(product(DType.I32))
    finally:
        monkeypatch.undo()
        settings.cache_clear()
    assert f"mxforge: dense0: {REASON}\n" in capfd.readouterr().err


def test_contractions_in_a_branch_are_reported() -> None:
    b = CoreBuilder()
    operands = [b.input(tensor(*shape, dtype=DType.I32)) for shape in ((3, 4), (4, 5))]
    condition = b.input(tensor(dtype=DType.BOOL))
    other = CoreBuilder("zeros")
    left, _ = (other.input(v.type) for v in operands)
    zeros = other.build([other.full((3, 5), 0, left.type.dtype)])
    (chosen,) = b.cond(condition, product(DType.I32), zeros, *operands)
    assert [reason for _, reason in compiled(b.build([chosen])).fallbacks()] == [REASON]


def test_programs_for_any_shapes_are_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    b = CoreBuilder("sorted")
    graph = b.build([b.neg(b.sort(b.exp(b.input(tensor(5, 300))), 1)[0])])
    monkeypatch.setenv("MXFORGE_DEBUG", "1")
    settings.cache_clear()
    try:
        compile_dynamic(graph, host_target(2), Options(dynamic=True))
    finally:
        monkeypatch.undo()
        settings.cache_clear()
    assert "compiled sorted" in capsys.readouterr().err
