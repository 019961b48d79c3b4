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
from .fills import sink_fills
from .operations import TAG, Contraction, Operation, find_moves, find_operations

_WORTH_A_PIECE = 1 << 14
"""The least operations on elements in a piece of a parallel loop."""

_PIECES_OF_THREAD = 4
_BLOCK_BYTES = 16 << 10
"""The most bytes of a value in a block of rows, of which the first cache holds some."""

_SPARE_REGISTERS = 4
_ROW_VECTORS, _TILE_VECTORS = 8, 2
"""Vectors along the columns of a tile of one row, and of several."""

_HANDLE = "!transform.any_op"
_SCRIPTED = "transform.with_named_sequence"

_EQUAL_ONES = f"transform.apply_cse to %function : {_HANDLE}"
"""Makes one of equal operations: a producer is computed in a loop once for each operation that reads it, and so would
be what it reads, and so on."""

_SMALL_BUFFERS = (
    "transform.apply_patterns to %function {",
    "  transform.apply_patterns.canonicalization",
    "  transform.apply_patterns.tensor.fold_tensor_empty",
    f"}} : {_HANDLE}",
    _EQUAL_ONES,
)
"""Makes small buffers of pieces of large ones."""

_SEQUENCE = """
module attributes {{transform.with_named_sequence}} {{
  transform.named_sequence @__transform_main(%root: !transform.any_op {{transform.readonly}}) {{
    %function = transform.structured.match ops{{["func.func"]}} in %root : (!transform.any_op) -> !transform.any_op
{body}
    transform.yield
  }}
}}
"""

_VECTORS = """
transform.apply_patterns to %function {
  transform.apply_patterns.vector.reduction_to_contract
  transform.apply_patterns.vector.transfer_permutation_patterns
  transform.apply_patterns.tensor.fold_tensor_empty
  transform.apply_patterns.canonicalization
} : !transform.any_op
%loops = transform.structured.match ops{["scf.for"]} in %function : (!transform.any_op) -> !transform.any_op
transform.loop.hoist_loop_invariant_subsets %loops : !transform.any_op
transform.apply_patterns to %function {
  transform.apply_patterns.vector.lower_contraction lowering_strategy = "outerproduct"
  transform.apply_patterns.canonicalization
} : !transform.any_op
"""
"""Keeps tiles in registers while they are updated, and makes outer products of contractions."""


def schedule(upstream: Upstream, module: Any, cpu: Cpu) -> None:
    """Schedule the operations of a module, which get tags, in place."""
    script = _Script(cpu)
    for op in find_operations(upstream, module):
        script.add(op)
    if script.lines:
        script.lines += _VECTORS.splitlines()
        script.run(upstream, module)
        sink_fills(upstream, module)


def schedule_moves(upstream: Upstream, module: Any, cpu: Cpu) -> None:
    """Run large copies and fills of a module on buffers in parallel pieces, in place."""
    script = _Script(cpu)
    for op in find_moves(upstream, module):
        script.add(op)
    if script.lines:
        script.run(upstream, module)


class _Script:
    """The lines of the script. Handles are names of operations in it."""

    def __init__(self, cpu: Cpu) -> None:
        self.cpu = cpu
        self.lines: list[str] = []
        self._handles = 0

    def add(self, op: Operation) -> None:
        """Schedule one operation, with those that are computed together with it."""
        pieces = self._blocks(op) if op.producers else self._pieces(op)
        if pieces is not None:
            self._in_pieces(op, pieces)
        elif op.contraction is not None or op.is_vector:
            self._inner(op, self._match(op.tag), op.extents)
            if op.reader is not None:
                self._inner(op.reader, self._match(op.reader.tag), op.reader.extents)

    def run(self, upstream: Upstream, module: Any) -> None:
        """Let the interpreter of the transform dialect run the script on a module."""
        script = _SEQUENCE.format(body="\n".join(f"    {line}" for line in self.lines))
        parsed = upstream.ir.Module.parse(script)
        module.operation.attributes[_SCRIPTED] = upstream.ir.UnitAttr.get()
        for op in list(parsed.body.operations):
            module.body.append(op)
        upstream.run("builtin.module(transform-interpreter{disable-expensive-checks=true})", module)
        for op in list(module.body.operations):
            if op.operation.name == "transform.named_sequence":
                op.erase()
        del module.operation.attributes[_SCRIPTED]

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

    def _blocks(self, op: Operation) -> list[int]:
        """The extents of a block of rows whose values a cache holds."""
        width = prod(op.extents[op.rows :]) * op.bits // 8
        rows = _divisor(op.extents[op.rows - 1], max(1, _BLOCK_BYTES // width))
        return [*[1] * (op.rows - 1), rows, *[0] * (len(op.extents) - op.rows)]

    def _in_pieces(self, op: Operation, pieces: Sequence[int]) -> None:
        """Compute an operation and those together with it in parallel pieces."""
        last = op if op.reader is None else op.reader
        outer = self._match(last.tag)
        piece, loop = self._new(2)
        sizes = ", ".join(map(str, pieces[: len(last.extents)]))
        self._line(f"{piece}, {loop} = transform.structured.tile_using_forall {outer} tile_sizes [{sizes}]", 1, 2)
        handles = [(last, piece)]
        for each in op.producers if op.reader is None else (op,):
            piece, loop = self._fused(each.tag, loop)
            handles.append((each, piece))
            if op.producers:
                self.lines.append(_EQUAL_ONES)
        if op.producers:
            self.lines += _SMALL_BUFFERS
            handles = [(each, self._match(each.tag)) for each, _ in handles]
        for each, handle in handles:
            extents = [piece or n for piece, n in zip([*pieces, *[0] * len(each.extents)], each.extents, strict=False)]
            self._inner(each, handle, extents)

    def _fused(self, tag: str, loop: str) -> tuple[str, str]:
        """Compute a producer in the loop that reads it; the handles of both."""
        producer = self._match(tag)
        piece, after = self._new(2)
        self._line(f"{piece}, {after} = transform.structured.fuse_into_containing_op {producer} into {loop}", 2, 2)
        return piece, after

    # -- vectors

    def _inner(self, op: Operation, handle: str, extents: Sequence[int]) -> None:
        """Vectorise an operation, or a piece of it, of these extents."""
        if op.contraction is not None:
            self._tiles(op, op.contraction, handle, extents)
        elif op.is_vector and op.reduces:
            self._sums(op, handle, extents)
        elif op.is_vector:
            width = _multiple(extents[-1], self.cpu.lanes(op.bits), _TILE_VECTORS)
            if (parts := self._split(handle, extents, len(extents) - 1, width)) is not None:
                for part, of_part in parts:
                    self._inner(op, part, of_part)
            else:
                sizes = [*[1] * (len(extents) - 1), width]
                self._vectorised(self._loops(handle, extents, sizes, range(len(sizes))))

    def _sums(self, op: Operation, handle: str, extents: Sequence[int]) -> None:
        """Reduce vectors along the last axis, and then the elements of a vector."""
        width = _multiple(extents[-1], self.cpu.lanes(op.bits), _TILE_VECTORS)
        if width < self.cpu.lanes(op.bits):
            return
        if (parts := self._split(handle, extents, len(extents) - 1, width)) is not None:
            self._sums(op, *parts[0])
            return
        fill, part, combined, loop = self._new(4)
        sizes = ", ".join(["0"] * (len(extents) - 1) + [str(width)])
        operation = f"transform.structured.tile_reduction_using_for {handle} by tile_sizes = [{sizes}]"
        self._line(f"{fill}, {part}, {combined}, {loop} = {operation}", 1, 4)
        if prod(extents[:-1]) * width <= self.cpu.lanes(op.bits) * self.cpu.vector_registers // 2:
            self._vectorised(part)

    def _split(self, handle: str, extents: Sequence[int], axis: int, tile: int) -> list[tuple[str, list[int]]] | None:
        """Split off what tiles leave over at the end of an axis: the handle and the extents of both parts; None if
        there is nothing."""
        rest = extents[axis] % tile
        if not rest:
            return None
        both, first, last = self._new(3)
        whole = extents[axis] - rest
        attribute = f"{{ dimension = {axis} }}"
        self.lines.append(f"{both} = transform.structured.split {handle} after {whole} {attribute} : {_HANDLE}")
        self._line(f"{first}, {last} = transform.split_handle {both}", 1, 2)
        return [
            (part, [extent if k == axis else n for k, n in enumerate(extents)])
            for part, extent in ((first, whole), (last, rest))
        ]

    def _tiles(self, op: Operation, contraction: Contraction, handle: str, extents: Sequence[int]) -> None:
        """Tile a contraction of these extents, after splitting off what the tiles leave over."""
        rows, columns = self._register_tile(extents[contraction.rows], extents[contraction.columns], op.bits)
        for axis, tile in ((contraction.columns, columns), (contraction.rows, rows)):
            if (parts := self._split(handle, extents, axis, tile)) is not None:
                for part, of_part in parts:
                    self._tiles(op, contraction, part, of_part)
                return
        sizes = [1] * len(extents)
        sizes[contraction.rows], sizes[contraction.columns] = rows, columns
        order = [contraction.columns, *(k for k in range(len(extents)) if k != contraction.columns)]
        tiled = self._loops(handle, extents, sizes, order)
        if contraction.decomposed:
            (part,) = self._new(1)
            self._line(f"{part} = transform.structured.decompose {tiled}", 1, 1)
            tiled = part
        self._vectorised(tiled)

    def _loops(self, handle: str, extents: Sequence[int], sizes: Sequence[int], order: Sequence[int]) -> str:
        """Loops over tiles of these sizes, the first of `order` outside; the handle of a tile."""
        sizes = [0 if size == n else size for size, n in zip(sizes, extents, strict=True)]  # 0 is no loop
        if not any(sizes):
            return handle
        tiled, *loops = self._new(1 + sum(size > 0 for size in sizes))
        numbers = f"tile_sizes [{', '.join(map(str, sizes))}] interchange = [{', '.join(map(str, order))}]"
        results = ", ".join((tiled, *loops))
        self._line(f"{results} = transform.structured.tile_using_for {handle} {numbers}", 1, 1 + len(loops))
        return tiled

    def _vectorised(self, handle: str) -> None:
        self.lines.append(f"transform.structured.vectorize {handle} : {_HANDLE}")

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
