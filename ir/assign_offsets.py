"""Assigns offsets in one piece of memory to blocks that are in use at different times."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
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
    placed = _Placed(blocks)
    for block in sorted(blocks, key=lambda b: (-b.nbytes, b.start)):
        block.offset = _lowest_gap(block.nbytes, placed.during(block))
        placed.add(block)
        top = max(top, block.offset + _aligned(block.nbytes))
    return top


def _lowest_gap(nbytes: int, others: list[Block]) -> int:
    offset = 0
    for other in sorted(others, key=lambda b: b.offset):
        if other.offset - offset >= nbytes:
            break
        offset = max(offset, other.offset + _aligned(other.nbytes))
    return offset


class _Placed:
    """The blocks with an offset, listed by the time of their use: a search visits only blocks in use at that time.

    `starting` has the blocks that start at each step. The steps are the leaves of a binary tree, in which each block is
    in the few vertices whose leaves are together the steps of its use.
    """

    def __init__(self, blocks: list[Block]) -> None:
        self.starts = sorted({b.start for b in blocks})
        self.starting: list[list[Block]] = [[] for _ in self.starts]
        self.covering: list[list[Block]] = [[] for _ in range(2 * len(self.starts))]

    def _steps(self, block: Block) -> range:
        """The numbers of the starts at which a block is in use."""
        return range(bisect_left(self.starts, block.start), bisect_right(self.starts, block.end))

    def during(self, block: Block) -> list[Block]:
        """The blocks in use at the same time as `block`: those at its first step, and those that start later."""
        steps = self._steps(block)
        others = [other for step in steps[1:] for other in self.starting[step]]
        vertex = steps.start + len(self.starts)
        while vertex:
            others += self.covering[vertex]
            vertex >>= 1
        return others

    def add(self, block: Block) -> None:
        steps = self._steps(block)
        self.starting[steps.start].append(block)
        low, high = steps.start + len(self.starts), steps.stop + len(self.starts)
        while low < high:
            if low & 1:
                self.covering[low].append(block)
                low += 1
            if high & 1:
                high -= 1
                self.covering[high].append(block)
            low, high = low >> 1, high >> 1


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
