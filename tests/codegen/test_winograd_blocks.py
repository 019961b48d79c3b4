"""The blocks of Winograd convolutions: sizes for which a measurement on a machine with 1 MiB of L2 cache decided."""

from __future__ import annotations

from dataclasses import replace

import pytest
from mxforge.codegen.llvm.schedule.winograd_blocks import Products, tile_blocks
from mxforge.codegen.llvm.target import AVX2, AVX512

TWO = replace(AVX512, threads=2, l1_bytes=48 << 10)


def products(channels: int, filters: int, width: int, rows: int, output: int = 4) -> Products:
    return Products(frequencies=(output + 2) ** 2, channels=channels, filters=filters, width=width, rows=rows)


@pytest.mark.parametrize(
    ("sizes", "tiles", "expected"),
    [
        pytest.param(products(64, 64, 64, 6), 196, (True, 17), id="all weights fit beside a block"),
        pytest.param(products(128, 128, 32, 8), 49, (False, 49), id="weights are read once"),
        pytest.param(products(128, 32, 32, 8), 49, (True, 25), id="one panel: threads share blocks"),
        pytest.param(products(48, 192, 64, 6, 2), 49, (True, 25), id="three panels: threads share blocks"),
        pytest.param(products(256, 256, 32, 8), 196, (False, 196), id="large weights are read once"),
        pytest.param(products(96, 96, 48, 8), 81, (False, 81), id="two equal panels"),
        pytest.param(products(64, 128, 64, 6), 784, (True, 28), id="many tiles"),
    ],
)
def test_blocks(sizes: Products, tiles: int, expected: tuple[bool, int]) -> None:
    assert tile_blocks(sizes, tiles, TWO) == expected


@pytest.mark.parametrize("target", [TWO, AVX2, replace(AVX512, threads=64)], ids=["2", "1", "64"])
@pytest.mark.parametrize("tiles", [1, 2, 15, 16, 49, 3136, 100_000])
def test_blocks_cover_all_tiles(target, tiles: int) -> None:
    for channels, filters in ((16, 16), (64, 64), (512, 512), (2048, 4096)):
        fused, size = tile_blocks(products(channels, filters, 32, 8), tiles, target)
        assert 1 <= size <= tiles and (fused or size == tiles)
        assert size <= 4096  # tables of offsets are on the stack
