"""Splits long sums among programs: each stores a partial sum, and the last one to arrive adds them in order.

Programs that share a tile count their arrivals in an integer of `counters_ptr`, which is 0 between launches. The sums
do not depend on the order of arrival, so results are the same in every run.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from .source import Source

COUNTERS = "counters_ptr"
WORK = "work_ptr"


def define_part(source: Source, pid: str, tiles: str, split: int) -> tuple[str, str]:
    """(the tile of this program, its part of the sum). Programs of one part follow each other."""
    assert split > 1
    return source.let("tile", f"{pid} % ({tiles})"), source.let("part", f"{pid} // ({tiles})")


def part_range(source: Source, part: str, total: str, block: str, split: int) -> tuple[str, str]:
    """(begin, end) of a part of the sum over `total` points: an equal number of whole blocks, fewer at the end."""
    each = source.let("each", f"tl.cdiv(tl.cdiv({total}, {block}), {split}) * {block}")
    begin = source.let("begin", f"{part} * {each}")
    return begin, source.let("end", f"tl.minimum({begin} + {each}, {total})")


@contextmanager
def last_arrival(source: Source, tile: str, split: int) -> Generator[None]:
    """A block that the last program of a tile runs, after all have stored their parts."""
    source.line("tl.debug_barrier()")
    arrived = source.let("arrived", f"tl.atomic_add({COUNTERS} + {tile}, 1)")
    with source.block(f"if {arrived} == {split - 1}:"):
        source.line(f"tl.store({COUNTERS} + {tile}, 0)")
        yield
