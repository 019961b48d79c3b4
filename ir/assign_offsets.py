"""Assigns offsets in one piece of memory to blocks that are in use at different times."""

from __future__ import annotations

from bisect import insort
from dataclasses import field

from .lazy_dataclass import dataclass
from .symbolic import deferred

ALIGNMENT = 64  # bytes: a cache line, and the widest vector register


@dataclass(slots=True)
class Block:
    """A block of memory that is in use from step `start` to step `end`, both inclusive.

    Blocks with a `zeroed` key hold zeros between the elements that kernels write (halos). Such a block shares its place
    only with blocks of the same key, so the zeros are written once.
    """

    nbytes: int
    start: int
    end: int
    zeroed: object = None
    offset: int = field(default=-1)


def assign_offsets(blocks: list[Block], shared: int = 0) -> tuple[int, int]:
    """Set each block's offset so that blocks in use at the same time do not overlap; return the total size in bytes,
    and the bytes before the first zeroed block.

    The first `shared` bytes are also used at other times: no zeroed block is there, and the size is at least this.
    """
    needs = tuple((b.nbytes, b.start, b.end, b.zeroed) for b in blocks)
    top, scratch, *offsets = deferred(_offsets, needs, shared)
    for block, offset in zip(blocks, offsets, strict=True):
        block.offset = offset
    return top, scratch


def _offsets(needs: tuple[tuple[int, int, int, object], ...], shared: int) -> tuple[int, ...]:
    """What `assign_offsets` returns, then the offset of each block; a block is (bytes, start, end, zeroed key)."""
    blocks = [Block(*need) for need in needs]
    scratch = _placed_blocks([b for b in blocks if b.zeroed is None], shared)
    top = _assign_zeroed([b for b in blocks if b.zeroed is not None], scratch)
    return (top, scratch, *(b.offset for b in blocks))


def _placed_blocks(blocks: list[Block], top: int) -> int:
    ordered = sorted(blocks, key=lambda b: (-b.nbytes, b.start))
    placed: list[tuple[int, int, Block]] = []
    for number, block in enumerate(ordered):
        block.offset = _lowest_gap(block, placed)
        insort(placed, (block.offset, number, block), key=lambda p: p[:2])
        top = max(top, block.offset + _aligned(block.nbytes))
    return top


def _lowest_gap(block: Block, placed: list[tuple[int, int, Block]]) -> int:
    offset = 0
    for start, _, other in placed:
        if other.end < block.start or block.end < other.start:
            continue
        if start - offset >= block.nbytes:
            break
        offset = max(offset, start + _aligned(other.nbytes))
    return offset


def _assign_zeroed(blocks: list[Block], top: int) -> int:
    lanes: dict[object, list[Block]] = {}  # the last block of each place, by key
    for block in sorted(blocks, key=lambda b: b.start):
        places = lanes.setdefault(block.zeroed, [])
        for i, last in enumerate(places):
            if last.end < block.start:
                block.offset = last.offset
                places[i] = block
                break
        else:
            block.offset = top
            top += _aligned(block.nbytes)
            places.append(block)
    return top


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
