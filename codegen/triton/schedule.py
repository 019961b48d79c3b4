"""Schedules a kernel for a GPU: which axes share a tile dimension, its block, and how many warps compute a tile.

The numbers are derived from the target and from extents; `gemm_tiles.py` has those of matrix products.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ...ir.kernel import AxisKind, Kernel, Reduce, contracts, dtype_of, walk
from ...ir.lazy_dataclass import dataclass
from ...ir.types import DType
from ..hoist import hoist_reductions
from ..lower_contract import contract_as_sum, convolutions_as_products
from .accesses import Access, accesses, axis_names, chains
from .attention import Attention, find_attention
from .attention_tiles import BlockCounts, BlockTile, attention_tile, gradient_tile, power_of_two
from .depths import depth, stores_along
from .gemm_tiles import Counts, exact_tile, gemm_tile
from .gpu import Gpu
from .memory_order import in_memory_order
from .nested import NestedProduct, find_nested
from .operands import Contraction, NoTensorCores, find_contraction, is_contiguous, low_half
from .sizes import product, size

_LONGEST_INT32 = (1 << 31) - (1 << 16)  # elements that 32-bit offsets reach, less the part of a last block beyond them
_SMALL_GEMM = 1 << 12  # multiplications of a float32 GEMM up to which exact ("ieee") products cost no time
_VECTORS = 16  # products with vectors that are plain sums
_WINDOWS = (2048, 1024, 512)  # points of a program that reduces windows
_LONGEST_WINDOW = 64  # points of a window
_WIDTHS = (64, 32, 16)  # channels of a tile of windows
_PADDED = 1.15  # channels that tiles compute, of those that exist
_FULL = 16  # warps of a multiprocessor that hide the time of its accesses
_COLUMNS = 64  # neighbouring rows of a program that reduces across memory
_PART = 4096  # elements that a program of a split row reads together
_SHORT = 1 << 15  # elements of a program that take about as long as a launch: more can be split
_COMBINED = 8192  # results of parts that a program combines


@dataclass(frozen=True, slots=True)
class TileDim:
    """A dimension of the tile that one program computes: `block` points of the flattened `axes` (1: a scalar)."""

    name: str
    axes: tuple[str, ...]
    block: int


@dataclass(frozen=True, slots=True)
class TritonSchedule:
    """`dims` are ordered from the outermost to the innermost; reduced ones (`r`, `k`) come last and are not part of the
    grid.

    `group`: rows of GEMM tiles that run together to share columns in the L2 cache. `split`: programs that share the sum
    of a tile, or the parts of each row (`rows.py`). `precision`: of float32 products ("float32", "tf32", "bf16x3",
    "exact"; see docs/gpu-target.md; "bf16x6" is float32 for operands that are not contiguous along the sum).
    `wide`: indices have 64 bits. `aligned`: every pointer is a multiple of 16 bytes.
    `divisible`: run-time extents that are multiples of 16. `plain`: the contraction runs as a plain sum.
    `fallback`: the reason, if tensor cores cannot compute it.
    """

    dims: tuple[TileDim, ...]
    num_warps: int
    num_stages: int = 1
    group: int = 1
    split: int = 1
    precision: str = "float32"
    fp_fusion: bool = True
    wide: bool = False
    aligned: bool = True
    divisible: frozenset[str] = frozenset()
    plain: bool = False
    fallback: str = ""

    def dim(self, name: str) -> TileDim:
        return next(d for d in self.dims if d.name == name)


def schedule_triton(
    kernel: Kernel, target: Gpu, extents: Mapping[str, int] | None = None, precision: str = "float32"
) -> TritonSchedule:
    """Derive a schedule. `extents` are typical values of run-time extents; they decide blocks, never results.
    `precision` is the mode of float32 products (`ir/precision.py`).

    NotImplementedError names a kernel that this target cannot run.
    """
    kernel = in_memory_order(convolutions_as_products(kernel))
    attention = find_attention(kernel)
    if attention is not None:
        return replace(_attention(attention, kernel, target, _Sizes(kernel, extents or {})), precision=precision)
    nested = find_nested(kernel)
    if nested is not None:
        return replace(_nested(nested, kernel, target, _Sizes(kernel, extents or {})), precision=precision)
    if contracts(kernel):
        try:
            contraction, sizes = find_contraction(kernel), _Sizes(kernel, extents or {})
        except NoTensorCores as reason:
            plain = _loops(contract_as_sum(kernel), target, extents or {})
            return replace(plain, plain=True, fallback=str(reason))
        if not _is_depthwise(contraction, sizes):
            return _gemm(contraction, target, sizes, precision)
        return replace(_loops(contract_as_sum(kernel), target, extents or {}), plain=True)
    return _loops(kernel, target, extents or {})


def _is_depthwise(c: Contraction, sizes: _Sizes) -> bool:
    """True for many products with vectors, such as those of a depthwise convolution: memory limits them, and tensor
    cores would multiply with zeros."""
    return sizes.count(c.batch) >= _VECTORS and 1 in (sizes.count(c.rows), sizes.count(c.columns))


def _loops(kernel: Kernel, target: Gpu, extents: Mapping[str, int]) -> TritonSchedule:
    """The schedule of a kernel without contractions."""
    sizes = _Sizes(kernel, extents)
    reduces = any(isinstance(e, Reduce) for s in kernel.stages for e in walk(s.value))
    return _rows(kernel, target, sizes) if reduces else _points(kernel, target, sizes)


@dataclass(frozen=True)
class _Sizes:
    kernel: Kernel
    extents: Mapping[str, int]

    def count(self, axes: tuple[str, ...]) -> int:
        """The number of points of these axes, with the typical values of run-time extents."""
        total = 1
        for name in axes:
            extent = self.kernel.axis(name).extent
            known = self.extents.get(extent) if isinstance(extent, str) else None
            total *= size(extent).typical if known is None else known
        return total

    def is_known(self, *axes: str) -> bool:
        """True if `count` is at least the number of points of these axes in each launch."""
        extents = [self.kernel.axis(name).extent for name in axes]
        return all(size(e).constant is not None or (isinstance(e, str) and e in self.extents) for e in extents)

    @property
    def wide(self) -> bool:
        """True if an offset can exceed 32 bits; always with run-time extents, which have no bound."""
        reach = [_reach(self.kernel, a) for a in accesses(self.kernel)]
        return any(r is None or r > _LONGEST_INT32 for r in (*reach, self._points()))

    def _points(self) -> int | None:
        return product(size(a.extent) for a in self.kernel.axes if a.kind is AxisKind.PARALLEL).constant


def _reach(kernel: Kernel, at: Access) -> int | None:
    """The larger of the buffer's size and the access's reach along an axis, in elements; None with run-time extents."""
    buffer = kernel.buffer(at.buffer)
    total = product(map(size, buffer.shape)).constant
    for axis, stride in at.strides:
        n = size(kernel.axis(axis).extent).constant
        if total is None or n is None or stride.constant is None:
            return None
        total = max(total, abs(stride.constant) * n)
    return total


def _warps(elements: int, most: int = 16) -> int:
    """Warps for a tile of this many elements: at least 16 elements, which are two or four vector loads, per thread."""
    return max(1, min(most, elements // 512))


# -- pointwise


def _points(kernel: Kernel, target: Gpu, sizes: _Sizes) -> TritonSchedule:
    parallel = [c for c in chains(kernel) if kernel.axis(c[0]).kind is AxisKind.PARALLEL]
    crossing = _crossing(kernel, parallel)
    if crossing is None:
        axes = tuple(a for c in parallel for a in c)
        block = _flat_block(sizes.count(axes), target)
        return TritonSchedule((TileDim("x", axes, block),), _warps(block, 8), wide=sizes.wide)
    y, x = crossing
    rest = tuple(a for c in parallel if c not in crossing for a in c)
    dims = (
        TileDim("z", rest, 1),
        TileDim("y", y, _at_most(32, sizes.count(y))),
        TileDim("x", x, _at_most(64, sizes.count(x))),
    )
    return TritonSchedule(dims, _warps(dims[1].block * dims[2].block, 4), wide=sizes.wide)


def _at_most(block: int, count: int) -> int:
    return min(block, max(2, power_of_two(count)))


def _flat_block(count: int, target: Gpu) -> int:
    """The block size: 1024 elements, or less so that every multiprocessor has a block; at least 128."""
    block = 1024
    while block > 128 and count < block * target.multiprocessors:
        block //= 2
    return block


def _crossing(kernel: Kernel, parallel: list[tuple[str, ...]]) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """(y, x): the chains along which an operand and the result are contiguous, if they differ as in a transpose."""
    every = list(accesses(kernel))
    written = {b.name for b in kernel.buffers if b.written}
    x = next((c for a in every if a.buffer in written for c in parallel if _is_unit(a, c)), None)
    if x is None:
        return None
    for a in every:
        if a.buffer in written or not a.stride(x[-1]).terms or _is_unit(a, x):
            continue
        y = next((c for c in parallel if c != x and _is_unit(a, c)), None)
        if y is not None:
            return y, x
    return None


def _is_unit(at: Access, chain: tuple[str, ...]) -> bool:
    return at.stride(chain[-1]).constant == 1


# -- rows


def _rows(kernel: Kernel, target: Gpu, sizes: _Sizes) -> TritonSchedule:
    """A row is one block if registers hold it, else it is split into chunks. Short and strided rows share a program."""
    parallel, reduced = axis_names(kernel, AxisKind.PARALLEL), axis_names(kernel, AxisKind.REDUCE)
    if _is_window(kernel, sizes):
        return _window(kernel, target, sizes)
    chain = (
        next(c for c in [*reversed(chains(kernel)), reduced] if c[-1] in reduced)
        if sizes.count(reduced) > 1
        else reduced
    )
    contiguous = bool(chain) and any(_is_unit(a, chain) for a in accesses(kernel))
    length = power_of_two(sizes.count(reduced))
    known = all(size(kernel.axis(a).extent).constant is not None for a in reduced)
    rows = sizes.count(parallel)
    split = _split_rows(rows, sizes.count(reduced), contiguous, target)
    if split is not None:
        x_block, r_block, parts = split
        dims = (TileDim("x", _in_order_of_loads(kernel, parallel), x_block), TileDim("r", reduced, r_block))
        return TritonSchedule(dims, _warps(x_block * r_block), wide=sizes.wide, split=parts)
    x_block = _rows_together(length, rows) if contiguous else min(32, power_of_two(rows))
    longest = longest_row(target) // x_block
    r_block = length if known and length <= longest else min(length, longest // 4)
    dims = (TileDim("x", parallel, x_block), TileDim("r", reduced, max(2, r_block)))
    warps = _warps(x_block * r_block)
    while warps * 128 < x_block * r_block and warps * -(-rows // x_block) < _FULL * target.multiprocessors:
        warps *= 2  # few rows: more threads for each
    return TritonSchedule(dims, min(16, warps), wide=sizes.wide)


def _is_window(kernel: Kernel, sizes: _Sizes) -> bool:
    """True if a thread reads the points of its own short rows one after the other: neighbouring threads then read
    neighbouring elements, as of windows over images."""
    reduced = axis_names(kernel, AxisKind.REDUCE)
    length = product(size(kernel.axis(a).extent) for a in reduced).constant
    if length is None or not 1 < length <= _LONGEST_WINDOW or not _is_one_loop(kernel):
        return False
    x = next((c for c in reversed(chains(kernel)) if kernel.axis(c[-1]).kind is AxisKind.PARALLEL), None)
    strides = [a.stride(x[-1]).constant for a in accesses(kernel) if _is_along(a, reduced)] if x else []
    return any(stride in (1, 2) for stride in strides)


def _window(kernel: Kernel, target: Gpu, sizes: _Sizes) -> TritonSchedule:
    """Tiles of pixels by channels if the last axes are long, so that indices of pixels and weights of channels are
    computed and read once for each; else flat blocks."""
    parallel, reduced = axis_names(kernel, AxisKind.PARALLEL), axis_names(kernel, AxisKind.REDUCE)
    count = sizes.count(parallel)
    block = next((n for n in _WINDOWS if count >= 2 * n * target.multiprocessors), _flat_block(count, target))
    last = [c for c in chains(kernel) if kernel.axis(c[0]).kind is AxisKind.PARALLEL][-1]
    channels, pixels = sizes.count(last), tuple(a for a in parallel if a not in last)
    width = next((n for n in _WIDTHS if -(-channels // n) * n <= _PADDED * channels), 0)
    if width and sizes.count(pixels) > 1:
        dims = (TileDim("y", pixels, max(2, block // width)), TileDim("x", last, width), TileDim("r", reduced, 1))
    else:
        dims = (TileDim("x", parallel, block), TileDim("r", reduced, 1))
    return TritonSchedule(dims, min(4, block // 128), wide=sizes.wide)


def _is_one_loop(kernel: Kernel) -> bool:
    """True if no reduction depends on another, and no result is along the row."""
    kernel = hoist_reductions(kernel)
    return not stores_along(kernel) and max(depth(kernel, stage) for stage in kernel.stages) == 1


def _is_along(at: Access, axes: tuple[str, ...]) -> bool:
    return any(at.stride(axis).terms for axis in axes)


def _split_rows(rows: int, length: int, contiguous: bool, target: Gpu) -> tuple[int, int, int] | None:
    """(rows of a program, block, parts) if too few programs would have long rows."""
    x_block = 1 if contiguous else min(_COLUMNS, power_of_two(rows))
    programs, block = -(-rows // x_block), _PART // x_block
    if programs >= 2 * target.multiprocessors or x_block * length <= _SHORT:
        return None
    parts = min(4 * target.multiprocessors // programs, length // block, _COMBINED // x_block)
    return (x_block, block, 1 << parts.bit_length() - 1) if parts >= 2 else None


def _in_order_of_loads(kernel: Kernel, axes: tuple[str, ...]) -> tuple[str, ...]:
    """These axes with one along which an operand is contiguous at the end: what they index is small."""
    written = {b.name for b in kernel.buffers if b.written}
    loads = [at for at in accesses(kernel) if at.buffer not in written]
    last = next((a for at in loads for a in axes if at.stride(a).constant == 1), None)
    return axes if last is None else (*(a for a in axes if a != last), last)


def _rows_together(length: int, rows: int) -> int:
    """Rows per program: 1024 elements in total, at least one row."""
    return max(1, min(1024 // length, power_of_two(rows)))


def longest_row(target: Gpu) -> int:
    """Elements of a row that fit in registers, which are about as large as shared memory; half is for temporaries."""
    return 1 << (target.shared_bytes // 8).bit_length() - 1


# -- GEMM


def _reads_better_swapped(c: Contraction, kernel: Kernel) -> bool:
    """True if the left operand is contiguous along the sum, and the right one is not. Tensor cores read the right one
    from shared memory, where they need 32-bit numbers contiguous along the sum."""
    return is_contiguous(kernel, c.lhs, c.inner) and not is_contiguous(kernel, c.rhs, c.inner)


def _gemm(c: Contraction, target: Gpu, sizes: _Sizes, precision: str) -> TritonSchedule:
    """A matrix product on tensor cores. Programs share sums where the number of tiles is known."""
    if c.dtypes[0] is DType.F32 and _reads_better_swapped(c, sizes.kernel):
        c = c.swapped()
    batch, rows, columns, inner = (sizes.count(axes) for axes in (c.batch, c.rows, c.columns, c.inner))
    last = [chain for chain in chains(sizes.kernel) if chain[-1] in c.inner][-1:]
    run, divided = sizes.count(*last) if last else inner, low_half(sizes.kernel, c.rhs) is not None
    contiguous = is_contiguous(sizes.kernel, c.rhs, c.inner)
    counts = Counts(batch, rows, columns, inner, c.dtypes[0].itemsize, run, divided, contiguous)
    is_small = precision == "float32" and counts.products <= _SMALL_GEMM
    if c.dtypes[0] is DType.F32 and (is_small or precision == "exact"):
        tile, precision = exact_tile(counts), "exact"
    else:
        tile = gemm_tile(counts, target, may_split=sizes.is_known(*c.batch, *c.rows, *c.columns))
    if precision == "float32" and c.dtypes[0] is DType.F32 and not contiguous:
        precision = "bf16x6"
    parts = (("z", c.batch, 1), ("m", c.rows, tile.m), ("n", c.columns, tile.n), ("k", c.inner, tile.k))
    dims = tuple(TileDim(*part) for part in parts)
    return TritonSchedule(dims, tile.warps, tile.stages, 8, tile.split, precision, wide=sizes.wide)


# -- attention


def _attention(attention: Attention, kernel: Kernel, target: Gpu, sizes: _Sizes) -> TritonSchedule:
    """Blocks of queries and keys, with whole rows of queries and values."""
    named = (("n", attention.columns), ("k", attention.inner))
    return _blocks(attention, named, dtype_of(kernel, attention.first.lhs), attention_tile, target, sizes)


def _nested(product: NestedProduct, kernel: Kernel, target: Gpu, sizes: _Sizes) -> TritonSchedule:
    """Blocks of rows and summed points, with whole rows of all operands."""
    inner = tuple((d, p.node.inner) for d, p in zip(product.inner_dims, product.inner, strict=True))
    return _blocks(
        product, (("n", product.columns), *inner), dtype_of(kernel, product.other), gradient_tile, target, sizes
    )


def _blocks(
    parts: Attention | NestedProduct,
    named: tuple[tuple[str, tuple[str, ...]], ...],
    dtype: DType,
    choose: Callable[[BlockCounts, Gpu], BlockTile],
    target: Gpu,
    sizes: _Sizes,
) -> TritonSchedule:
    """The schedule with the tile that `choose` returns; `named` are dimensions with whole rows."""
    whole = tuple(TileDim(d, axes, max(16, power_of_two(sizes.count(axes)))) for d, axes in named)
    widths = [d.block for d in whole]
    batch, rows, keys = (sizes.count(axes) for axes in (parts.batch, parts.rows, parts.keys))
    tile = choose(BlockCounts(batch, rows, keys, max(widths), sum(widths), dtype), target)
    n, *inner = whole
    dims = (
        TileDim("z", parts.batch, 1),
        TileDim("m", parts.rows, tile.m),
        n,
        TileDim("r", parts.keys, tile.r),
        *inner,
    )
    return TritonSchedule(dims, tile.warps, tile.stages, wide=sizes.wide)
