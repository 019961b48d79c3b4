"""Derives schedules of matrix products and convolutions by formulas, from registers, caches and threads of a CPU."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, prod

from ....ir.kernel import dtype_of
from ....ir.lazy_dataclass import dataclass
from ....ir.symbolic import deferred, is_symbolic
from ....ir.target import ConvSizes, ConvWindow
from ....ir.types import DType
from ..cpu import WINOGRAD_VECTORS, Cpu
from ..winograd_tiles import usable_tiles
from .describe import Contraction, ConvShape, GemmShape, WindowedOperand, extent_of
from .kinds import ROWS_OF_STREAM, DepthwiseSchedule, GemvSchedule, RegisterTile, TileSchedule, WinogradSchedule
from .product import PACKED_ROWS, is_contiguous_along_reduction, is_contiguous_along_rows, is_readable_in_place
from .registers import choose_tiles, tile_cost, widest_of
from .strides import fixed_shape
from .winograd_blocks import Products, expanded_channels, tile_blocks

_POINTS = (48, 240)
"""Minimum and maximum points of a block: enough to reuse the weights, few enough that inputs stay in the cache."""

_FEW_LINES, _MOST_LINES = 6, 24
"""Cache lines of weights that a step prefetches: for an unknown number of points, and at most. With at most 8,
convolutions of few points with large weights took up to 24 % longer (measured on Zen 5); more than 24 gain nothing."""

_FEW_ROWS = 4
"""Up to this many rows the time of a product is that of reading the right operand once."""

_ROWS_OF_DOTS = 8
"""Up to this many rows products can be dot products."""

_BYTES_OF_STREAM, _BYTES_OF_PANELS = 32 << 20, 256 << 20
"""From the first size on the right operand of a product is read from memory. From the second one on it is read in
place for more than `_FEW_ROWS`, too: the product takes 3 to 10 % longer (measured on Zen 5), but panels would double
the memory of the model, and packing them takes most of the time of the first result."""

_STEPS_OF_DOTS = 32
"""From so many vectors on, the reduction of a product of more than `_FEW_ROWS` and at most a vector of columns is dot
products: they take 0.3 to 1.1 of the time of a panel, of which the most for a full vector, and each lane adds up fewer
products (measured on Zen 5)."""

_AHEAD = 2 << 10
"""The distance in bytes at which a right operand is prefetched that is read in place from memory. That of 4 rows then
takes 0.8 of the time, that of one row is as fast without (measured on Zen 5). Narrow weights of 3 or 4 rows take 0.73
to 0.81 of the time, and as long as without if they are in a cache (measured on Emerald Rapids)."""

_AHEAD_IN_STREAM = 8 << 10
"""The distance in bytes at which a stream of narrow weights is prefetched. A dense layer of 9216 x 4096 in bfloat16
then takes 0.6 of the time, alexnet 0.82; 4 to 16 KiB are as fast (measured on Emerald Rapids)."""

_AHEAD_IN_PANEL = 4 << 10
"""The distance in bytes at which a product of few rows prefetches the weights of its panel, if its time is that of its
arithmetic. An LSTM of 4 sequences then takes 0.97 of the time, but one of a single sequence 1.03, because its time is
that of reading; 1 to 8 KiB are as fast, and half of the lines are not enough (measured on Zen 5)."""

_BYTES_PER_CYCLE = 32
"""Weights that arrive from a cache that threads share."""

_ROWS_IN_PLACE = 16
"""Up to this many rows packing costs more than it gains for an operand that changes on every run."""

_UNITS_OF_THREAD = 4
"""The most units of work for a thread: more would not divide the work more evenly."""

_WEIGHTS_OF_UNIT, _INPUTS_OF_UNIT = 0.5, 0.1
"""Reading the weights of a unit takes the time of so many tiles, and reading its inputs that of so many panels. A step
of a tile of 8 by 4 registers takes 16 cycles and reads 256 bytes of weights, at 32 bytes per cycle."""

_UNLIMITED = 1 << 60
"""The positions that can be read of an input that is copied."""

_BYTES = (DType.I8, DType.U8)


def has_micro_kernel(shape: Contraction) -> bool:
    """True for products that the micro-kernels support: floats summed in float32 or float64, bytes summed in int32."""
    contract, kernel = shape.contract, shape.kernel
    factors = {dtype_of(kernel, contract.lhs), dtype_of(kernel, contract.rhs)}
    return shape.accumulator in (DType.F32, DType.F64) or (shape.accumulator is DType.I32 and factors <= set(_BYTES))


def sum_lanes(dtype: DType, block: int, target: Cpu) -> int:
    """Lanes of the sums: a register of float32 (float64 for F64), but at most a block of the result."""
    lanes = target.lanes(64 if dtype is DType.F64 else 32)
    return min(lanes, block) if block > 1 else lanes


def schedule_direct(shape: ConvShape, target: Cpu) -> TileSchedule | None:
    """Direct convolution with weights in panels. The reduction is not split if a panel of weights and the inputs fit
    the L2 cache. None if the micro-kernels do not support the dtypes.
    """
    return direct_blocks(shape, target) if has_micro_kernel(shape) else None


def direct_blocks(shape: ConvShape, target: Cpu) -> TileSchedule:
    c, points = direct_channels(shape, target), shape.images * shape.points
    main, last = choose_tiles(c.vectors, points, c.unit, target)
    depth = shape.channels * shape.taps * (c.channels // shape.filters)
    stride = 1
    for w in shape.windows:
        stride *= min(w.stride, w.taps)
    nest = TileSchedule(lanes=c.lanes, main=main, last=last, points=points, panels=0)
    extent = Extent(
        points=points,
        vectors=c.vectors,
        depth=depth,
        groups=shape.groups * shape.filters // c.channels,
        inputs=stride * max(1, depth // shape.taps),
    )
    return block_points(nest, extent, target)


@dataclass(frozen=True, slots=True, kw_only=True)
class Channels:
    """The `channels` of the result as `vectors` registers of `lanes` channels. The registers of a tile are a multiple
    of `unit`, which is the registers of a block of channels."""

    channels: int
    lanes: int
    unit: int
    vectors: int


def direct_channels(shape: ConvShape, target: Cpu) -> Channels:
    """The filters of a group, or of the groups that are merged."""
    out = shape.kernel.buffer(shape.store.buffer)
    block = out.layout.block if out.layout else 1
    lanes = sum_lanes(shape.accumulator, block, target)
    filters = shape.filters * (1 if block == 1 or shape.groups == 1 else _merge_count(shape, block))
    return _in_blocks(filters, lanes, max(1, block // lanes))


def winograd_channels(shape: ConvShape, target: Cpu) -> Channels:
    """The filters of a convolution by Winograd."""
    out = shape.kernel.buffer(shape.store.buffer)
    block, preferred = out.layout.block if out.layout else 1, target.channel_block
    lanes = sum_lanes(shape.accumulator, min(block, preferred) if block > 1 else preferred, target)
    return _in_blocks(shape.filters, lanes, max(1, block // lanes))


def _in_blocks(channels: int, lanes: int, unit: int) -> Channels:
    return Channels(channels=channels, lanes=lanes, unit=unit, vectors=-(-channels // (lanes * unit)) * unit)


def _merge_count(shape: ConvShape, block: int) -> int:
    """The number of groups that `conv.merge_groups` merges; `block` is the block of the result."""
    layout = shape.kernel.buffer(shape.x.buffer).layout
    blocks = (layout.block if layout else 1), block
    return next(m for m in range(1, shape.groups + 1) if _groups_fit(shape, m, blocks))


def _groups_fit(shape: ConvShape, m: int, blocks: tuple[int, int]) -> bool:
    whole = m * shape.channels % blocks[0] == 0 and m * shape.filters % blocks[1] == 0
    return shape.groups % m == 0 and (m == shape.groups or whole)


def schedule_depthwise(shape: ConvShape, target: Cpu) -> DepthwiseSchedule | None:
    """Tiles of equal width, of 4 to 8 outputs, as many as fit in registers beside the weights. With few channels the
    rows are divided among threads too. None if the convolution is not depthwise.
    """
    if not shape.is_depthwise or not has_micro_kernel(shape):
        return None
    out = shape.kernel.buffer(shape.store.buffer)
    lanes = sum_lanes(shape.accumulator, out.layout.block if out.layout else target.channel_block, target)
    width = shape.windows[-1].extent
    most = max(4, min(8, target.vector_registers - 2 - shape.taps))
    columns = most if is_symbolic(width) else next((c for c in range(most, 3, -1) if width % c == 0), most)
    rows = shape.windows[-2].extent if len(shape.windows) > 1 else 1
    vectors = -(-shape.groups // lanes) * shape.images
    rows = deferred(_rows_of_unit, rows, vectors, target.threads)
    return DepthwiseSchedule(lanes=lanes, columns=columns, rows=rows)


def _rows_of_unit(rows: int, vectors: int, threads: int) -> int:
    blocks = 1 if threads == 1 else min(rows, -(-8 * threads // vectors))
    return -(-rows // blocks)


def conv_sizes(shape: ConvShape) -> ConvSizes:
    """The sizes from which the target chooses a schedule."""
    windows = tuple(
        ConvWindow(outputs=w.extent, taps=w.taps, stride=w.stride, dilation=w.dilation, interior=w.interior)
        for w in shape.windows
    )
    return ConvSizes(
        dtype=shape.dtype,
        accumulator=shape.accumulator,
        images=shape.images,
        groups=shape.groups,
        channels=shape.channels,
        filters=shape.filters,
        windows=windows,
    )


def winograd_sizes(shape: ConvShape) -> ConvSizes:
    """The convolution that Winograd's transforms compute."""
    return conv_sizes(shape).space_to_depth


def winograd_reach(shape: ConvShape, output: int) -> tuple[int, ...]:
    """Input positions that tiles of `output` outputs read along each axis, after space-to-depth of a strided
    convolution."""
    return tuple(_reach(w.outputs, w.taps, output) for w in winograd_sizes(shape).windows)


def schedule_winograd(shape: ConvShape, target: Cpu) -> WinogradSchedule | None:
    """Winograd if the target chooses it and the input's buffer has a large enough halo, else None."""
    tile = int(deferred(_winograd_tile, conv_sizes(shape), conv_sizes(shape).of_class, _room(shape), target))
    return winograd_blocks(shape, tile, target) if tile else None


def _winograd_tile(sizes: ConvSizes, known: ConvSizes, room: tuple[int, ...], target: Cpu) -> int:
    """The tile that the target chooses among those that fit; 0 for none."""
    return target.winograd_tile(known, [m for m in usable_tiles(sizes) if _fits(sizes, m, room)])


def _fits(sizes: ConvSizes, m: int, room: tuple[int, ...]) -> bool:
    """True if tiles read at most `room` input positions, or the input is copied."""
    windows = zip(sizes.space_to_depth.windows, room, strict=True)
    least = _UNLIMITED if sizes.is_strided else 0
    return all(max(least, _reach(w.outputs, w.taps, m)) <= n for w, n in windows)


def _reach(extent: int, taps: int, output: int) -> int:
    """Input positions that tiles of `output` outputs read along an axis."""
    return (output * -(-extent // output) if taps > 1 else extent) + taps - 1


def has_winograd_room(shape: ConvShape, m: int) -> bool:
    """True if Winograd's transforms can compute tiles of m outputs along each axis with several taps, and the input's
    buffer has what they read."""
    sizes = conv_sizes(shape)
    return m in usable_tiles(sizes) and _fits(sizes, m, _room(shape))


def has_room(operand: WindowedOperand, room: tuple[int, ...]) -> bool:
    """True if so many positions can be read along each axis, or the operand is copied."""
    return all(need <= available for need, available in zip(room, _room(operand), strict=True))


def _room(shape: ConvShape | WindowedOperand) -> tuple[int, ...]:
    """Input positions that can be read along each axis; unlimited for a row-major input, which is copied with
    padding."""
    x = shape.kernel.buffer(shape.x.buffer)
    if x.layout is None:
        return (_UNLIMITED,) * len(shape.windows)
    size = fixed_shape(x)
    return tuple(
        size[w.dimension] + hi + w.low if lo >= w.low else 0
        for w, (lo, hi) in zip(shape.windows, x.layout.halo, strict=True)
    )


def winograd_blocks(shape: ConvShape, m: int, target: Cpu) -> WinogradSchedule:
    """Register tiles whose weights stay in the L1 cache, and blocks of tiles as `tile_blocks` chooses them. Large
    weights of one block of tiles are stored as taps."""
    sizes = winograd_sizes(shape)
    c, tiles = winograd_channels(shape, target), winograd_tiles(shape, m)
    widest = max(2, target.l1_bytes * 3 // 8 // (4 * c.lanes * sizes.channels))
    main, last = choose_tiles(c.vectors, tiles, c.unit, target, widest)
    products = Products(
        frequencies=prod(w.tile(m) + w.taps - 1 for w in sizes.windows),
        channels=sizes.channels,
        filters=c.vectors * c.lanes,
        width=main.vectors * c.lanes,
        rows=main.rows,
    )
    fused, size = deferred(tile_blocks, products, tiles, target)
    schedule = WinogradSchedule(output=m, lanes=c.lanes, main=main, last=last, tiles=size, fused=fused)
    expand = 0 if is_symbolic(size) or fused else expanded_channels(products, target)
    if expand:
        main, last = choose_tiles(c.vectors, tiles, c.unit, target, WINOGRAD_VECTORS)
        lines = _prefetched(main, c.lanes, size, target, prod(w.taps for w in sizes.windows) / products.frequencies)
        return replace(schedule, main=main, last=last, prefetch=lines, expand=expand)
    return replace(schedule, prefetch=_FEW_LINES if is_symbolic(size) else _prefetched(main, c.lanes, size, target))


def winograd_tiles(shape: ConvShape, m: int) -> int:
    """The tiles of all images, which have m outputs along each axis with several taps."""
    return winograd_sizes(shape).tiles(m)


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The sizes that determine blocking: `vectors` of channels, `depth` of the reduction, `inputs` elements read per
    point."""

    points: int
    vectors: int
    depth: int
    groups: int
    inputs: int


def block_points(nest: TileSchedule, e: Extent, target: Cpu) -> TileSchedule:
    """Choose blocks of points and parts of the reduction so that inputs and weights are read from near caches and
    threads get equal work.
    """
    if is_symbolic(e.points):
        return _symbolic_blocks(nest, e, target)
    width = nest.main.vectors * nest.lanes * 4
    panel = e.depth * width
    panels = -(-e.vectors // nest.main.vectors)
    cached = max(_POINTS[0], min(_POINTS[1], target.l2_bytes // 4 // (4 * e.inputs)))
    if panel <= target.l2_bytes // 4 and e.points > 2 * cached and panels * panel <= 2 * target.l2_bytes:
        return share_points(replace(nest, points=min(cached, e.points)), e, panels, target)
    steps = max(1, 2 * target.l1_bytes // (width * 8))
    steps = 0 if panel <= target.l2_bytes // 2 else steps
    points = min(e.points, 1024)
    nest = replace(nest, points=_even_points(nest, e, panels, points, target), panels=1, steps=steps)
    if e.groups * panels < 2 * target.threads:
        nest = share_points(replace(nest, steps=0, points=min(points, cached)), e, panels, target)
    if e.points <= _FEW_ROWS:  # the next panel is another one in every other launch
        return replace(nest, ahead=_AHEAD_IN_PANEL if nest.pack and _hides_reading(nest, e.points, target) else 0)
    return replace(nest, prefetch=_prefetched(nest.main, nest.lanes, nest.points, target))


def _hides_reading(nest: TileSchedule, points: int, target: Cpu) -> bool:
    """True if the products of so many points take as long as reading their weights from a shared cache."""
    return points * _BYTES_PER_CYCLE >= nest.lanes * 4 * target.fma_per_cycle


def _even_points(nest: TileSchedule, e: Extent, panels: int, most: int, target: Cpu) -> int:
    """At most `most` points, such that the thread with the most units of a block and a panel finishes first. Panels are
    divided only among few threads: units with few tiles read the weights for few."""
    tiles = -(-e.points // nest.main.rows)
    fewest = -(-e.points // most)

    def cost(blocks: int) -> float:
        units = e.groups * panels * blocks
        return -(-units // target.threads) * (-(-tiles // blocks) + _WEIGHTS_OF_UNIT)

    best = min((fewest, 2 * fewest), key=cost)
    return most if best == fewest else -(-tiles // best) * nest.main.rows


def _prefetched(tile: RegisterTile, lanes: int, points: int, target: Cpu, share: float = 1) -> int:
    """Cache lines that each step prefetches, so that the tiles of a block prefetch the next weights once, of which
    memory has a `share`."""
    lines = ceil(4 * target.channel_block * tile.vectors * lanes / 64 * share)
    return min(_MOST_LINES, -(-lines // -(-points // tile.rows)))


def _symbolic_blocks(nest: TileSchedule, e: Extent, target: Cpu) -> TileSchedule:
    """`block_points` for symbolic points, on which the code does not depend."""
    width = nest.main.vectors * nest.lanes * 4
    panel, panels = e.depth * width, -(-e.vectors // nest.main.vectors)
    whole = panel <= target.l2_bytes // 2 or e.groups * panels < 2 * target.threads
    steps = 0 if whole else max(1, 2 * target.l1_bytes // (width * 8))
    tile = replace(nest, points=0)
    points, per_unit = deferred(_blocks_now, tile, e.points, e.vectors, e.depth, e.groups, e.inputs, target)
    return replace(nest, points=points, panels=per_unit, steps=steps)


def _blocks_now(
    nest: TileSchedule, points: int, vectors: int, depth: int, groups: int, inputs: int, target: Cpu
) -> tuple[int, int]:
    """(points in a block, panels in a unit)."""
    extent = Extent(points=points, vectors=vectors, depth=depth, groups=groups, inputs=inputs)
    blocks = block_points(replace(nest, points=points), extent, target)
    return blocks.points, blocks.panels or -(-vectors // nest.main.vectors)


def share_points(nest: TileSchedule, e: Extent, panels: int, target: Cpu) -> TileSchedule:
    """Make the number of units of work a multiple of the threads, or large: with smaller blocks of points, else with
    fewer panels in a unit. More than two threads get the division that `even_units` finds.
    """
    threads = target.threads
    blocks = -(-e.points // nest.points)
    if threads == 1 or blocks * e.groups >= 8 * threads:
        return nest
    if threads > 2:
        points, per_unit = even_units(nest.points, nest.main.rows, e, panels, threads)
        return replace(nest, points=points, panels=per_unit)
    count = -(-blocks * e.groups // threads) * threads // e.groups or 1
    size = -(-e.points // max(1, count))
    if size >= nest.main.rows * 4 or panels == 1:
        return replace(nest, points=max(size, nest.main.rows))
    return replace(nest, panels=max(1, -(-panels * blocks * e.groups // (4 * threads))))


def even_units(most: int, rows: int, e: Extent, panels: int, threads: int, parts: int = 1) -> tuple[int, int]:
    """(points, panels) of a unit of work, such that the thread with the most units finishes first: at most `most`
    points, and the panels in at least `parts` parts. A unit with few tiles of `rows` points reads the weights for few,
    one with few panels reads inputs for few."""
    tiles = -(-e.points // rows)
    fewest = -(-e.points // max(rows, most))
    best: tuple[float, int, int] | None = None
    for across in range(min(parts, panels), panels + 1):
        per_unit = -(-panels // across)
        enough = _UNITS_OF_THREAD * threads // (e.groups * across)
        for along in range(fewest, max(fewest, min(tiles, enough)) + 1):
            high = -(-tiles // along)
            units = e.groups * -(-panels // per_unit) * -(-tiles // high)
            cost = -(-units // threads) * (per_unit + _INPUTS_OF_UNIT) * (high + _WEIGHTS_OF_UNIT)
            if best is None or cost < best[0]:
                best = cost, high * rows, per_unit
    assert best is not None
    return min(best[1], e.points), best[2]


def schedule_dots(shape: GemmShape, target: Cpu) -> GemvSchedule | None:
    """Dot products for few rows if both operands are contiguous along the reduction, else None."""
    rows = shape.count(shape.rows)
    rows = 1 if rows == 1 else rows  # compilations for one row have programs of their own
    if is_symbolic(rows) or rows > _ROWS_OF_DOTS or not has_micro_kernel(shape) or shape.dtype is not shape.accumulator:
        return None
    if len(shape.parts) > 1 or shape.weights not in (shape.accumulator, DType.BF16):
        return None
    if not is_contiguous_along_reduction(shape):
        return None
    lanes, nbytes = sum_lanes(shape.accumulator, 1, target), _bytes_in_place(shape)
    if rows > _FEW_ROWS:
        narrow = extent_of(shape.kernel, shape.column) <= lanes and shape.count(shape.inner) >= _STEPS_OF_DOTS * lanes
        in_place = nbytes >= _BYTES_OF_PANELS or (narrow and nbytes > 0)
        return _split_dots(rows, lanes, shape.accumulator, target) if in_place else None
    channels = max(target.vector_registers // 8, 8 // rows)  # columns are streams of memory, of which many are faster
    if shape.weights is not shape.accumulator:
        ahead = _AHEAD_IN_STREAM if rows <= ROWS_OF_STREAM else _AHEAD
    else:
        ahead = _AHEAD if rows > 1 and nbytes >= _BYTES_OF_STREAM else 0
    return GemvSchedule(lanes=lanes, rows=rows, channels=channels, ahead=ahead)


def _split_dots(rows: int, lanes: int, dtype: DType, target: Cpu) -> GemvSchedule | None:
    """Dot products of several rows, of which a part fills half the L1 cache. None if they have so few columns at a time
    that loads take longer than the multiply-adds."""
    channels = widest_of(rows, target)
    if tile_cost(RegisterTile(rows, channels), target) > 1:
        return None
    part = target.l1_bytes // 2 // (dtype.itemsize * rows * lanes) * lanes
    return GemvSchedule(lanes=lanes, rows=rows, channels=channels, part=part, ahead=_AHEAD)


def _bytes_in_place(shape: GemmShape) -> int:
    """The size of a right operand that can be read in place, 0 for others."""
    size = shape.count(shape.inner) * extent_of(shape.kernel, shape.column) * shape.accumulator.itemsize
    return size if shape.weights is shape.accumulator else 0


def schedule_product(shape: GemmShape, target: Cpu, parameters: frozenset[str]) -> TileSchedule | None:
    """The loop nest of a product. If the right operand and its panels are large, the reduction is split outside of the
    panels. Panels that fit a quarter of the L2 cache are read from there by each tile, whose sums stay in registers:
    products of 140 to 1120 rows, 650 to 768 deep, take 0.95 to 0.99 of the time, but weight gradients, whose rows are
    packed, 1.07 (measured on Zen 5)."""
    if not has_micro_kernel(shape):
        return None
    rows, columns, inner = shape.count(shape.rows), extent_of(shape.kernel, shape.column), shape.count(shape.inner)
    known = not is_symbolic(rows)
    lanes = sum_lanes(shape.accumulator, 1, target)
    parts = len(shape.parts)
    vectors = -(-columns // lanes) * parts
    widest = _widest_of_few(rows, vectors, inner * lanes * 4, target) if known and rows <= _FEW_ROWS else 1 << 30
    main, last = choose_tiles(vectors, rows, parts, target, widest)
    in_place = (
        known and parts == 1 and rows <= _ROWS_IN_PLACE and shape.rhs.buffer not in parameters and shape.is_uniform
    )
    in_place = in_place and is_readable_in_place(shape)
    pack_rows = known and shape.is_uniform and vectors > main.vectors and rows > _ROWS_IN_PLACE
    pack_rows = pack_rows and is_contiguous_along_rows(shape)
    if pack_rows and (width := widest_of(PACKED_ROWS, target)) > 1:  # tiles that are a block of rows read one stream
        main, last = choose_tiles(vectors, rows, parts, target, width)
    nest = TileSchedule(
        lanes=lanes, main=main, last=last, points=rows, panels=0, pack=not in_place, pack_rows=pack_rows
    )
    e = Extent(points=rows, vectors=vectors, depth=inner, groups=shape.count(shape.batches), inputs=inner)
    is_large = known and parts == 1 and rows > 4 * main.rows and inner * columns * 4 > target.l2_bytes
    divides = is_large and (pack_rows or inner * main.vectors * lanes * 4 > target.l2_bytes // 4)
    return large_product(nest, e, target) if divides else block_points(nest, e, target)


def _widest_of_few(rows: int, vectors: int, nbytes: int, target: Cpu) -> int:
    """The most registers of a panel of few rows, of `nbytes` of weights each. The time is that of reading weights: the
    panels that a thread reads last stay in its L2 cache for the next product, and several panels for each thread
    divide the work evenly."""
    fewest = max(2, target.lanes() // (4 * rows))
    return max(fewest, min(target.l2_bytes // 4 // nbytes, vectors // (8 * target.threads)))


def large_product(nest: TileSchedule, e: Extent, target: Cpu) -> TileSchedule:
    """Parts of the reduction of which a panel's weights fit half the L1 cache, and blocks whose inputs and sums each
    fit a quarter of the L2 cache.
    """
    width = nest.main.vectors * nest.lanes * 4
    steps = max(8, target.l1_bytes // 2 // (width * 8))
    points = max(_POINTS[0], min(_POINTS[1], target.l2_bytes // 4 // (4 * steps * 8), e.points))
    most = max(1, target.l2_bytes // 4 // (points * width))
    total = -(-e.vectors // nest.main.vectors)
    blocks = -(-e.points // points) * e.groups
    shares = max(-(-total // most), 1 if target.threads == 1 else -(-8 * target.threads // blocks))
    panels = -(-total // min(total, shares))
    if target.threads > 2:
        points, panels = even_units(points, nest.main.rows, e, total, target.threads, -(-total // most))
    nest = replace(nest, points=points, panels=panels, steps=steps, reduction_outside=True)
    return replace(nest, prefetch=_prefetched(nest.main, nest.lanes, points, target))
