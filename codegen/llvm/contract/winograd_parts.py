"""Functions that transform tiles for Winograd convolution and its weight gradient: of the input, the cotangent, the
products, and filters that are stored as taps. All layers of a module share them.
"""

from __future__ import annotations

import hashlib
from math import prod

from ....ir.lazy_dataclass import dataclass
from ..arithmetic import Value
from ..emitter import FunctionBuilder, ModuleBuilder
from ..types import F32, I32, I64, PTR
from .micro import EpilogueWriter
from .vector_epilogue import VectorEpilogue
from .winograd_math import (
    Tile,
    Transform,
    cotangent_transform,
    filter_transform,
    input_transform,
    output_transform,
    tile_name,
    transform_rows,
    transform_tile,
)


def input_kernel(module: ModuleBuilder, tile: Tile, lanes: int, block: int) -> str:
    """The symbol of `(input, V, table, tiles, row, step)`, which transforms `tiles` tiles of one block of channels.
    `table` holds each tile's offset in the input, `row` is the stride between image rows, `step` the stride between
    frequencies.
    """
    return _tile_kernel(module, "input", input_transform, tile, (tile[0].size, tile[1].size), lanes, block)


def cotangent_kernel(module: ModuleBuilder, tile: Tile, lanes: int, block: int) -> str:
    """The symbol of a function like that of `input_kernel`, which transforms tiles of cotangents."""
    size = tile[0].outputs, tile[1].outputs
    return _tile_kernel(module, "cotangent", cotangent_transform, tile, size, lanes, block)


def _tile_kernel(
    module: ModuleBuilder, what: str, transform: Transform, tile: Tile, size: tuple[int, int], lanes: int, block: int
) -> str:
    def emit(owner: ModuleBuilder) -> None:
        parameters = [
            ("x", PTR, "noalias"),
            ("v", PTR, "noalias"),
            ("table", PTR, "noalias"),
            ("tiles", I64, ""),
            ("row", I64, ""),
            ("step", I64, ""),
        ]
        f = owner.function(name, None, parameters, linkage="internal", attributes="nounwind noinline")
        _emit_tiles(f, transform, tile, size, lanes, block)
        f.ret()

    name = f"winograd.{what}{tile_name(tile)}.{lanes}.{block}"
    return module.inner(name, emit)


def _emit_tiles(
    f: FunctionBuilder, transform: Transform, tile: Tile, size: tuple[int, int], lanes: int, block: int
) -> None:
    """Transform `size` elements to the frequencies of a tile."""
    x, v, table, tiles, row, step = f.args
    vector = F32.with_lanes(lanes)
    with f.loop(0, tiles) as t:
        start = f.gep(x, f.convert(f.load(f.gep(table, t, I32), I32), "i64"), F32)
        target = f.gep(v, t * block, F32)
        with f.loop(0, block, lanes) as c:
            rows = [f.gep(f.gep(start, c, F32), row * y, F32) for y in range(size[0])]
            transformed = transform_tile(
                f, tile, transform, lambda y, x: f.load(f.gep(rows[y], x * block, F32), vector), size
            )
            at = f.gep(target, c, F32)
            for y, line in enumerate(transformed):
                for k, value in enumerate(line):
                    f.store(value, f.gep(at, step * (y * tile[1].size + k), F32))


def filter_kernel(module: ModuleBuilder, tile: Tile, lanes: int) -> str:
    """The symbol of `(taps, target, channels, width, step)`, which transforms the filters of a panel of `width` output
    channels: taps[channel][tap][width] to target[frequency][channel][width]. `step` is the stride between frequencies.
    """

    def emit(owner: ModuleBuilder) -> None:
        parameters = [
            ("taps", PTR, "noalias"),
            ("target", PTR, "noalias"),
            ("channels", I64, ""),
            ("width", I64, ""),
            ("step", I64, ""),
        ]
        f = owner.function(name, None, parameters, linkage="internal", attributes="nounwind noinline")
        _emit_filters(f, tile, lanes)
        f.ret()

    name = f"winograd.filter{tile_name(tile)}.{lanes}"
    return module.inner(name, emit)


def _emit_filters(f: FunctionBuilder, tile: Tile, lanes: int) -> None:
    taps, target, channels, width, step = f.args
    vector, size = F32.with_lanes(lanes), (tile[0].taps, tile[1].taps)
    with f.loop(0, channels) as c, f.loop(0, width, lanes) as j:
        start = f.gep(taps, c * width * prod(size) + j, F32)

        def tap(y: int, x: int) -> Value:
            return f.load(f.gep(start, width * (y * size[1] + x), F32), vector)

        rows = transform_rows(f, tile, filter_transform, tap, size)
        at = f.gep(target, c * width + j, F32)
        for k, value in enumerate(v for row in rows for v in row):
            f.store(value, f.gep(at, step * k, F32))


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputKernel:
    """`columns` are the strides between neighbouring outputs in each table; `ragged`: some tiles extend beyond the
    image. `valid` is the number of channels of the vector that are not padding (0: all, -1: none).
    """

    tile: Tile
    lanes: int
    tables: int
    columns: tuple[int, ...]
    epilogue: VectorEpilogue
    ragged: bool
    valid: int

    @property
    def name(self) -> str:
        digest = hashlib.blake2s(repr(self).encode(), digest_size=6).hexdigest()
        return f"winograd.output{tile_name(self.tile)}.{digest}"


def output_kernel(module: ModuleBuilder, spec: OutputKernel) -> str:
    """The symbol of `(M, step, width, context, tiles, top, left, height, across)`, which transforms `tiles` tiles of
    one vector of channels to outputs.

    In M the stride between frequencies is `step`, between tiles `width`. The tables `top` and `left` (used only if
    `ragged`) hold each tile's first row and column; `height` and `across` are the size of the image. The context is
    that of the micro-kernel, followed by the stride between rows for each table.
    """
    return module.inner(spec.name, lambda owner: _emit_output_kernel(owner, spec))


def _emit_output_kernel(module: ModuleBuilder, spec: OutputKernel) -> None:
    names = (
        ("m", PTR),
        ("step", I64),
        ("width", I64),
        ("context", PTR),
        ("tiles", I64),
        ("top", PTR),
        ("left", PTR),
        ("height", I64),
        ("across", I64),
    )
    f = module.function(
        spec.name, None, [(n, t, "") for n, t in names], linkage="internal", attributes="nounwind noinline"
    )
    _Output(f, spec).emit()
    f.ret()


class _Output:
    def __init__(self, f: FunctionBuilder, spec: OutputKernel) -> None:
        self.f, self.spec = f, spec

    def emit(self) -> None:
        f, spec = self.f, self.spec
        products, step, width, context, tiles, top, left, height, across = f.args
        valid = spec.lanes if spec.valid == 0 else max(0, spec.valid)
        writer = EpilogueWriter(
            f, spec.epilogue, tables=spec.tables, context=context, lanes=spec.lanes, valid=lambda j: valid
        )
        accesses = 2 * (1 + len(spec.epilogue.loads))
        rows = [f.load(f.gep(context, spec.tables + accesses + k, I64), I64) for k in range(spec.tables)]
        tables = [f.load(f.gep(context, k, PTR), PTR) for k in range(spec.tables)]
        writer.preload(0)
        with f.loop(0, tiles) as t:
            start = f.gep(products, t * width, F32)
            size, vector = (spec.tile[0].size, spec.tile[1].size), F32.with_lanes(spec.lanes)
            outputs = transform_tile(
                f,
                spec.tile,
                output_transform,
                lambda y, x: f.load(f.gep(start, step * (y * size[1] + x), F32), vector),
                size,
            )
            offsets = [f.convert(f.load(f.gep(p, t, I32), I32), "i64") for p in tables]
            limits = (self._left(top, t, height), self._left(left, t, across)) if spec.ragged else None
            self._store(writer, outputs, offsets, rows, limits)

    def _left(self, table: Value, t: Value, size: Value) -> Value:
        """The number of outputs along one axis from the tile's first output to the end of the image."""
        f = self.f
        return size - f.convert(f.load(f.gep(table, t, I32), I32), "i64")

    def _store(
        self,
        writer: EpilogueWriter,
        outputs: list[list[Value]],
        offsets: list[Value],
        rows: list[Value],
        limits: tuple[Value, Value] | None,
    ) -> None:
        f = self.f
        for y, line in enumerate(outputs):
            starts = [o + r * y for o, r in zip(offsets, rows, strict=True)]
            for x, value in enumerate(line):
                at = {k: s + self.spec.columns[k] * x for k, s in enumerate(starts)}
                if limits is None:
                    writer.store(value, 0, at)
                    continue
                with f.when(f.cmp("lt", y, limits[0]) & f.cmp("lt", x, limits[1])):
                    writer.store(value, 0, at)
