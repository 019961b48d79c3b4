"""Chooses register tiles (points times vectors of channels of a micro-kernel) from the target's registers and pipes."""

from __future__ import annotations

from ....ir.symbolic import is_symbolic
from ..cpu import Cpu
from .kinds import RegisterTile

_FREE_LOADS = 0.75
"""Loads per multiply-add up to which loads take no time; above it time is proportional to loads (measured on Zen 3)."""


_POINTERS = 8
"""The most rows of a tile: each has an address, and x86 would reload more addresses from memory in every step."""


def tallest(vectors: int, target: Cpu) -> int:
    """The most rows of a tile with `vectors` registers of weights and one of input: rows * vectors + vectors + 1 <=
    usable registers."""
    return max(1, min(_POINTERS, (_usable(target) - 1 - vectors) // vectors))


def widest_of(rows: int, target: Cpu) -> int:
    """The most registers of weights in a tile of so many rows, at least one."""
    return max(1, (_usable(target) - 1) // (rows + 1))


def _usable(target: Cpu) -> int:
    """The registers that a tile can fill. Of 32, LLVM needs two for itself: with 31 in a tile (5x5), it spilled ten
    sums in every step. Of 16 it needs none (measured on Zen 3 and Zen 5).
    """
    return target.vector_registers - (2 if target.vector_registers > 16 else 0)


def fits(tile: RegisterTile, target: Cpu) -> bool:
    """True if the sums, a register of input for each multiply-add and a row of weights fit the registers."""
    return tile.vectors >= 1 and 1 <= tile.rows <= tallest(tile.vectors, target) and _has_row(tile.vectors, target)


def _has_row(vectors: int, target: Cpu) -> bool:
    """True if a tile of one row fits the registers."""
    return 2 * vectors + 1 <= _usable(target)


def tile_cost(tile: RegisterTile, target: Cpu) -> float:
    """Time per multiply-add relative to full pipes. Independent sums hide latency, multiply-adds hide loads."""
    sums = tile.rows * tile.vectors
    latency = target.fma_latency * target.fma_per_cycle / sums
    loads = (tile.rows + tile.vectors) / sums
    return max(1.0, latency, loads / _FREE_LOADS)


def choose_tiles(
    vectors: int, points: int, unit: int, target: Cpu, widest: int = 1 << 30
) -> tuple[RegisterTile, RegisterTile | None]:
    """The tile of the panels over `vectors` registers of channels, and the tile of a last panel if it differs.

    The vectors of every tile are a multiple of `unit`, which is the registers of a block of channels. Those of `main`
    are at most `widest`, unless a unit is more.
    """
    if is_symbolic(points):
        return _common_tiles(vectors, unit, target)
    best: tuple[float, RegisterTile, RegisterTile | None] | None = None
    for width in range(unit, min(vectors, target.vector_registers // 2, max(widest, unit)) + 1, unit):
        for last in {vectors % width, vectors % width + width}:
            if last > vectors or (last > width and (last == width or vectors % width == 0)):
                continue
            cover = _cover_cost(vectors, width, last, points, target)
            if cover is not None and (best is None or cover[0] < best[0]):
                best = cover
    assert best is not None
    return best[1], best[2]


def _common_tiles(vectors: int, unit: int, target: Cpu) -> tuple[RegisterTile, RegisterTile | None]:
    """Tiles for symbolic points. They have few widths, so that layers with different channels share code."""
    widest = max(unit, target.vector_registers // 8 // unit * unit)
    last = int(vectors % widest)

    def tile(width: int) -> RegisterTile:
        return RegisterTile(tallest(width, target), width)

    if vectors <= widest:
        return tile(int(vectors)), None
    return tile(widest), tile(last) if last else None


def _cover_cost(
    vectors: int, width: int, last: int, points: int, target: Cpu
) -> tuple[float, RegisterTile, RegisterTile | None] | None:
    if not _has_row(max(width, last), target):
        return None
    main = tile_of(width, points, target)
    end = tile_of(last, points, target) if last else None
    cost = (vectors - last) * _weighted(main, target) + (last * _weighted(end, target) + 0.005 * vectors if end else 0)
    return (cost, main, end) if vectors > last or end is None else (cost, end, None)


def _weighted(tile: RegisterTile, target: Cpu) -> float:
    """The cost, with a small penalty for weights and inputs read per multiply-add. Weights are read from a larger
    cache: with two rows a panel of weights that exceeds the L1 cache arrives too slowly (measured on Zen 3).
    """
    return tile_cost(tile, target) + 0.038 / tile.rows + 0.03 / tile.vectors


def tile_of(vectors: int, points: int, target: Cpu) -> RegisterTile:
    """The tallest tile of `vectors` registers, or a lower one that divides few `points` evenly."""
    rows = min(tallest(vectors, target), points)
    tiles = -(-points // rows)
    return RegisterTile(-(-points // tiles) if tiles < 4 else rows, vectors)
