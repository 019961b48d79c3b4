"""Schedules the operations of a module on tensors: a script of the transform dialect tiles, fuses and vectorises them.

Large operations run in parallel pieces, with the elementwise operation that alone reads their result. A piece of a
contraction is tiled so that a tile fits into registers. Vectors are along its columns, and the loops over reduced axes
are inside, so that a tile is updated by outer products. What a tile leaves over at the end of an axis is split off and
has tiles of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ..llvm.cpu import Cpu
from ..stablehlo.upstream import Upstream
from .operations import TAG, Operation, find_operations

_WORTH_A_PIECE = 1 << 14
"""The least operations on elements in a piece of a parallel loop."""

_PIECES_OF_THREAD = 4
_SPARE_REGISTERS = 4
_ROW_VECTORS, _TILE_VECTORS = 8, 2
"""Vectors along the columns of a tile of one row, and of several."""

_HANDLE = "!transform.any_op"

_SEQUENCE = """
module attributes {{transform.with_named_sequence}} {{
  transform.named_sequence @__transform_main(%root: !transform.any_op {{transform.readonly}}) {{
    %function = transform.structured.match ops{{["func.func"]}} in %root : (!transform.any_op) -> !transform.any_op
{body}
    transform.apply_patterns to %function {{
      transform.apply_patterns.vector.reduction_to_contract
      transform.apply_patterns.vector.transfer_permutation_patterns
      transform.apply_patterns.tensor.merge_consecutive_insert_extract_slice
      transform.apply_patterns.canonicalization
    }} : !transform.any_op
    %loops = transform.structured.match ops{{["scf.for"]}} in %function : (!transform.any_op) -> !transform.any_op
    transform.loop.hoist_loop_invariant_subsets %loops : !transform.any_op
    transform.apply_patterns to %function {{
      transform.apply_patterns.vector.lower_contraction lowering_strategy = "outerproduct"
      transform.apply_patterns.canonicalization
    }} : !transform.any_op
    transform.yield
  }}
}}
"""


def schedule(upstream: Upstream, module: Any, cpu: Cpu) -> str:
    """The script for the operations of a module, which get tags; "" if none is worth it."""
    operations = find_operations(upstream, module)
    script = _Script(cpu)
    for op in operations:
        script.add(op)
    return _SEQUENCE.format(body="\n".join(f"    {line}" for line in script.lines)) if script.lines else ""


class _Script:
    """The lines of the script. Handles are names of operations in it."""

    def __init__(self, cpu: Cpu) -> None:
        self.cpu = cpu
        self.lines: list[str] = []
        self._handles = 0

    def add(self, op: Operation) -> None:
        """Schedule one operation, with its reader."""
        pieces = self._pieces(op)
        if pieces is None and op.contraction is None:
            return
        handle = self._match(op.tag)
        extents = list(op.extents)
        if pieces is not None:
            handle = self._in_pieces(op, handle, pieces)
            extents = [piece or n for piece, n in zip(pieces, extents, strict=True)]
        if op.contraction is not None:
            self._tiles(op, handle, extents)

    # -- parallel pieces

    def _pieces(self, op: Operation) -> list[int] | None:
        """The extents of a piece along each axis, 0 for a whole one; None for one piece."""
        work = prod(op.extents)
        wanted = min(_PIECES_OF_THREAD * self.cpu.threads, work // _WORTH_A_PIECE)
        if self.cpu.threads == 1 or wanted < 2:
            return None
        sizes = [0] * len(op.extents)
        count = 1
        for axis in op.parallel:
            extent, step = op.extents[axis], self._step(op, axis)
            parts = _divisor(extent // step, -(-wanted // count)) if extent % step == 0 else 1
            if parts > 1:
                sizes[axis], count = extent // parts, count * parts
        return sizes if count > 1 else None

    def _step(self, op: Operation, axis: int) -> int:
        """What the extent of a piece along an axis is a multiple of."""
        if op.contraction is None or axis != op.contraction.columns:
            return 1
        return min(op.extents[axis], _TILE_VECTORS * self.cpu.lanes(op.bits))

    def _in_pieces(self, op: Operation, handle: str, pieces: Sequence[int]) -> str:
        """Compute an operation, its reader and its initial value in parallel pieces; the handle of its piece."""
        outer = handle if op.reader is None else self._match(op.reader)
        loops = max(op.parallel) + 1  # of the reader too
        sizes = ", ".join(map(str, pieces[:loops]))
        piece, loop = self._new(2)
        self._line(f"{piece}, {loop} = transform.structured.tile_using_forall {outer} tile_sizes [{sizes}]", 1, 2)
        if op.reader is not None:
            piece, loop = self._fused(handle, loop)
        if op.initial is not None:
            self._fused(self._match(op.initial), loop)
        return piece

    def _fused(self, producer: str, loop: str) -> tuple[str, str]:
        """Compute a producer in the loop that reads it; the handles of both."""
        piece, after = self._new(2)
        self._line(f"{piece}, {after} = transform.structured.fuse_into_containing_op {producer} into {loop}", 2, 2)
        return piece, after

    # -- tiles in registers

    def _tiles(self, op: Operation, handle: str, extents: Sequence[int]) -> None:
        """Tile an operation of these extents, after splitting off what the tiles leave over."""
        contraction = op.contraction
        assert contraction is not None
        rows, columns = self._register_tile(extents[contraction.rows], extents[contraction.columns], op.bits)
        for axis, tile in ((contraction.columns, columns), (contraction.rows, rows)):
            rest = extents[axis] % tile
            if rest:
                both, first, last = self._new(3)
                whole = extents[axis] - rest
                attribute = f"{{ dimension = {axis} }}"
                self.lines.append(f"{both} = transform.structured.split {handle} after {whole} {attribute} : {_HANDLE}")
                self._line(f"{first}, {last} = transform.split_handle {both}", 1, 2)
                for part, extent in ((first, whole), (last, rest)):
                    self._tiles(op, part, [extent if k == axis else n for k, n in enumerate(extents)])
                return
        sizes = [1] * len(extents)
        sizes[contraction.rows], sizes[contraction.columns] = rows, columns
        order = [contraction.columns, *(k for k in range(len(extents)) if k != contraction.columns)]
        tiled, *loops = self._new(1 + len(extents))
        numbers = f"tile_sizes [{', '.join(map(str, sizes))}] interchange = [{', '.join(map(str, order))}]"
        self._line(
            f"{tiled}, {', '.join(loops)} = transform.structured.tile_using_for {handle} {numbers}", 1, len(order) + 1
        )
        if contraction.decomposed:
            (part,) = self._new(1)
            self._line(f"{part} = transform.structured.decompose {tiled}", 1, 1)
            tiled = part
        self.lines.append(f"transform.structured.vectorize {tiled} : {_HANDLE}")

    def _register_tile(self, rows: int, columns: int, bits: int) -> tuple[int, int]:
        """The rows and columns of a tile in registers, for so many of both."""
        lanes = self.cpu.lanes(bits)
        if rows == 1:
            return 1, _multiple(columns, lanes, _ROW_VECTORS)
        width = _multiple(columns, lanes, _TILE_VECTORS)
        most = (self.cpu.vector_registers - _SPARE_REGISTERS) // -(-width // lanes)
        even = _divisor(rows, most)
        return (even if 2 * even > most or even == rows else min(rows, most)), width

    # -- text

    def _match(self, tag: str) -> str:
        (handle,) = self._new(1)
        attribute = f'attributes{{{TAG} = "{tag}"}}'
        self._line(f"{handle} = transform.structured.match {attribute} in %function", 1, 1)
        return handle

    def _new(self, count: int) -> list[str]:
        """Names of new handles."""
        self._handles += count
        return [f"%{k}" for k in range(self._handles - count, self._handles)]

    def _line(self, text: str, operands: int, results: int) -> None:
        """Add an operation of so many handles."""
        given, got = (", ".join([_HANDLE] * n) for n in (operands, results))
        self.lines.append(f"{text} : ({given}) -> ({got})")


def _divisor(extent: int, most: int) -> int:
    """The largest divisor of an extent that is at most `most`."""
    return next(n for n in range(max(1, min(extent, most)), 0, -1) if extent % n == 0)


def _multiple(extent: int, lanes: int, most: int) -> int:
    """The columns of a tile: whole vectors, at most so many, or all columns if they are less than one vector."""
    return min(extent // lanes, most) * lanes or extent
