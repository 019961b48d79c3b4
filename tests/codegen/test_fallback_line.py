"""A contraction that falls back to plain loops says so where compilations are watched."""

from __future__ import annotations

import pytest
from compiled import compiled
from mxforge.ir.dialects.core import CoreBuilder
from mxforge.ir.settings import Settings
from mxforge.ir.types import DType
from rewriting import tensor

pytest.importorskip("llvmlite.binding")


def test_a_fallback_to_plain_loops_is_named(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    b = CoreBuilder()
    x, y = (b.input(tensor(*shape, dtype=DType.I32)) for shape in ((3, 4), (4, 5)))
    graph = b.build([b.matmul(x, y)])
    monkeypatch.setattr("mxforge.codegen.llvm.emit.settings", lambda: Settings(debug=1))
    compiled(graph)
    assert "plain loops instead of a contraction's: " in capfd.readouterr().err
