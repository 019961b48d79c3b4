"""Changes of layouts whose tiles are transposed in registers: extents around a multiple of a vector, both directions,
halos, fused operations, dtypes."""

from __future__ import annotations

import numpy as np
import pytest
from compiled import check
from mxforge.codegen.hoist import hoist_stages
from mxforge.codegen.llvm.schedule.loops import schedule_nest
from mxforge.codegen.llvm.target import AVX2
from mxforge.codegen.lower import lower_region
from mxforge.codegen.nest import build_nest
from mxforge.ir.dialects.core import CoreBuilder, Fused
from mxforge.ir.graph import Graph, Value
from mxforge.ir.types import DType, Layout, TensorType

PLAIN, HALO = Layout(8, ((0, 0), (0, 0))), Layout(8, ((1, 1), (0, 2)))
SHAPES = [(2, 16, 5, 8), (1, 8, 4, 19), (2, 24, 3, 7), (1, 32, 1, 1), (3, 16, 16, 16), (1, 12, 9, 17)]


def there_and_back(shape: tuple[int, ...], layout: Layout, dtype: DType = DType.F32) -> Graph:
    """Blocks, and rows of these blocks, with an operation in each direction."""
    b = CoreBuilder()
    x = b.input(TensorType(shape, dtype))
    blocked = b.relayout(b.add(x, x), layout)
    return b.build([b.relayout(b.mul(blocked, blocked), None)])


def schedule(*, back: bool, channels: int = 16) -> tuple[str, str]:
    """The vector axis, the transposed axis and the loops of a change of layout."""
    b = CoreBuilder()
    x: Value = b.input(TensorType((2, channels, 5, 24), DType.F32, PLAIN if back else None))
    kernel = lower_region(Fused(b.build([b.relayout(x, None if back else HALO)]), "move"))
    found = schedule_nest(build_nest(hoist_stages(kernel)), {v.name: v.dtype for v in kernel.buffers}, AVX2)
    assert found.transposed in ("", *found.loops) and found.transposed not in found.units
    return found.vector, found.transposed


def test_both_directions_are_transposed() -> None:
    for back in (False, True):
        vector, transposed = schedule(back=back)
        assert transposed and transposed != vector


def test_channels_that_do_not_fill_their_blocks_are_not() -> None:
    assert schedule(back=False, channels=12)[1] == ""


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("layout", [PLAIN, HALO], ids=["plain", "halo"])
def test_results_are_those_of_the_reference(shape: tuple[int, ...], layout: Layout) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    check(there_and_back(shape, layout), x, tolerance=0)


@pytest.mark.parametrize("dtype", [DType.F64, DType.F16, DType.I32])
def test_other_dtypes(dtype: DType) -> None:
    x = np.random.default_rng(0).integers(-5, 5, (2, 16, 5, 19)).astype(dtype.numpy)
    check(there_and_back((2, 16, 5, 19), PLAIN, dtype), x, tolerance=0)
