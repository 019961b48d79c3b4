"""Results whose neighbours are elements of a short axis: vectors are stored interleaved."""

from __future__ import annotations

import pytest
from compiled import check
from mxforge.codegen.llvm.emitter import ModuleBuilder
from mxforge.codegen.llvm.loops.emit import emit_loops
from mxforge.codegen.llvm.target import AVX512
from mxforge.codegen.lower import lower_region
from mxforge.ir.dialects.core import CoreBuilder, Fused
from mxforge.ir.types import DType
from mxforge.passes.manager import Options
from rewriting import random_inputs, tensor


@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "any-extents"])
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16, DType.U8, DType.I64, DType.BOOL], ids=lambda d: d.value)
@pytest.mark.parametrize("parts", [2, 3, 4])
def test_repeated_elements(parts: int, dtype: DType, dynamic: bool) -> None:
    b = CoreBuilder("repeated")
    x = b.input(tensor(3, 37, dtype=dtype))
    graph = b.build([b.broadcast(x, (3, 37, parts), (0, 1))])
    check(graph, *random_inputs(graph), options=Options(static_shape=not dynamic), tolerance=0.0)


@pytest.mark.parametrize("parts", [2, 3])
def test_operands_that_differ_along_the_short_axis(parts: int) -> None:
    b = CoreBuilder("scaled")
    x, scale = b.input(tensor(2, 5, 40)), b.input(tensor(parts))
    spread = b.broadcast(x, (2, 5, 40, parts), (0, 1, 2))
    along = b.iota((2, 5, 40, parts), DType.F32, 3)
    graph = b.build([b.add(b.mul(spread, b.broadcast_along(scale, (2, 5, 40, parts), 3)), along)])
    check(graph, *random_inputs(graph))


def test_a_vector_is_one_store() -> None:
    b = CoreBuilder("repeated")
    x = b.input(tensor(8, 64))
    body = b.build([b.broadcast(b.neg(x), (8, 64, 2), (0, 1))])
    module = ModuleBuilder(AVX512)
    emit_loops(lower_region(Fused(body, "pointwise")), AVX512, module, "kernel")
    assert "store <32 x float>" in module.text()
    assert "store float" not in module.text()
