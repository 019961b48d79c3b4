"""Describes contractions for schedules: the extents and roles of the axes of a kernel's Contract.

A convolution and its weight gradient are described by windows, images, groups, channels and filters. Every other
contraction is a matrix product. The roles of its axes follow from the operands that have them: axes of both operands
are batches, axes of only one operand are rows or columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from ....ir.kernel import (
    Affine,
    AxisKind,
    Cast,
    Contract,
    ContractionKind,
    Expr,
    Index,
    Kernel,
    Load,
    Store,
    Window,
    contracts,
    dtype_of,
)
from ....ir.lazy_dataclass import dataclass
from ....ir.types import DType
from ...lower_contract import input_index
from .strides import ContractionError, buffer_strides

NO_AXIS = ""
"""The axis of a role without an axis, for instance of the columns of a product without columns. Its extent is 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpatialAxis:
    """A window with its extents: `extent` outputs read `taps` taps each, at x[out * stride + tap * dilation - low]
    along dimension `dimension` of the input, which has `interior - 1` zeros between its elements.
    """

    out: str
    tap: str
    extent: int
    taps: int
    stride: int
    dilation: int
    low: int
    interior: int
    dimension: int

    @property
    def reach(self) -> int:
        """The number of positions of the (dilated) input from the first to the last that the window reads."""
        return (self.extent - 1) * self.stride + (self.taps - 1) * self.dilation + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Windowed:
    """A tensor `x` of images with `channels` channels in each group, whose elements at the positions of `windows` are
    read. `batch`, `group` and `channel` name the kernel's axes.
    """

    kernel: Kernel
    x: Load
    windows: tuple[SpatialAxis, ...]
    batch: str
    group: str | None
    channel: str

    @property
    def groups(self) -> int:
        return extent_of(self.kernel, self.group) if self.group else 1

    @property
    def channels(self) -> int:
        return extent_of(self.kernel, self.channel)

    @property
    def images(self) -> int:
        return extent_of(self.kernel, self.batch)

    @property
    def dtype(self) -> DType:
        """The dtype of the tensor."""
        return self.kernel.buffer(self.x.buffer).dtype


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvShape(Windowed):
    """A convolution with `channels` input channels and `filters` output channels per group; `filter` names the kernel's
    axis of the latter. The index of `x` counts positions of the input including interior zeros. `weights` is the dtype
    of the weights; those that are wider in memory are rounded when they are packed.
    """

    contract: Contract
    w: Load
    weights: DType
    store: Store
    filter: str

    @property
    def filters(self) -> int:
        return extent_of(self.kernel, self.filter)

    @property
    def points(self) -> int:
        """Output positions of one image."""
        return prod(w.extent for w in self.windows)

    @property
    def taps(self) -> int:
        return prod(w.taps for w in self.windows)

    @property
    def is_depthwise(self) -> bool:
        return self.groups > 1 and self.channels == 1 and self.filters == 1

    @property
    def accumulator(self) -> DType:
        return self.contract.accumulator


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowedOperand(Windowed):
    """One operand of a weight gradient."""

    accumulator: DType


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightGradientShape:
    """The gradient of a convolution with respect to its weights, the sum over images and positions of `data` times
    `cotangent`. The windows are those of the convolution: their taps are axes of the result, their positions are
    reduced. The channels of the cotangent are the filters.
    """

    kernel: Kernel
    contract: Contract
    store: Store
    data: WindowedOperand
    cotangent: WindowedOperand

    @property
    def windows(self) -> tuple[SpatialAxis, ...]:
        return self.data.windows

    @property
    def groups(self) -> int:
        return self.data.groups

    @property
    def channels(self) -> int:
        return self.data.channels

    @property
    def filters(self) -> int:
        return self.cotangent.channels

    @property
    def images(self) -> int:
        return self.data.images

    @property
    def taps(self) -> int:
        return prod(w.taps for w in self.windows)

    @property
    def weights(self) -> int:
        """The number of weights of a filter."""
        return self.channels * self.taps

    @property
    def is_depthwise(self) -> bool:
        return self.groups > 1 and self.channels == 1 and self.filters == 1

    @property
    def accumulator(self) -> DType:
        return self.contract.accumulator


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmShape:
    """out[batch, row, column] = sum over `inner` of lhs * rhs. Vectors run along axis `column`: the contiguous axis of
    the result if only one operand has it; NO_AXIS if no operand has an axis that the other lacks. `weights` is the
    dtype of the right operand, as for a ConvShape.

    A product can have several `parts`, of which the epilogue reads the sums at the same row and column: their right
    operands are reads of one buffer that differ in constant offsets.
    """

    kernel: Kernel
    contract: Contract
    lhs: Load
    parts: tuple[Load, ...]
    weights: DType
    store: Store
    batches: tuple[str, ...]
    rows: tuple[str, ...]
    column: str
    inner: tuple[str, ...]

    def count(self, axes: tuple[str, ...]) -> int:
        return prod(extent_of(self.kernel, a) for a in axes)

    @property
    def rhs(self) -> Load:
        """The right operand of the first part."""
        return self.parts[0]

    @property
    def dtype(self) -> DType:
        """The dtype of the left operand."""
        return self.kernel.buffer(self.lhs.buffer).dtype

    @property
    def accumulator(self) -> DType:
        return self.contract.accumulator

    @property
    def is_uniform(self) -> bool:
        """True if both operands have the dtype of the sums, so that they can be read without conversion."""
        return self.dtype is self.weights is self.accumulator


Contraction = ConvShape | WeightGradientShape | GemmShape


def extent_of(kernel: Kernel, axis: str) -> int:
    """The extent of an axis. ContractionError if it is a run-time extent."""
    extent = 1 if axis == NO_AXIS else kernel.axis(axis).extent
    if not isinstance(extent, int):
        raise ContractionError(
            f"{kernel.name}: axis {axis} has run-time extent {extent!r}; contractions are compiled for fixed shapes"
        )
    return extent


def describe_contraction(kernel: Kernel) -> Contraction:
    """The contraction of `kernel`. ContractionError unless the kernel is one Store of one Contract of Loads, of which
    the right one can be rounded to bfloat16, or stores at one index functions of products that differ only in where
    they begin to read one operand.
    """
    parts = parts_of(kernel)
    stores = [s for s in kernel.stages if isinstance(s, Store)]
    if not parts:
        raise ContractionError(f"{kernel.name}: expected a Contract in a stored value, found 0")
    contract, *more = parts
    if more or len(kernel.stages) > 1:
        return _product_of_parts(kernel, stores, parts)
    store = stores[0]
    lhs, rhs, weights = _operands(kernel, contract)
    if contract.kind is ContractionKind.CONVOLUTION:
        return _convolution(kernel, store, contract, replace(lhs, index=input_index(contract)), rhs, weights)
    if contract.kind is ContractionKind.WEIGHT_GRADIENT:
        return _weight_gradient(kernel, store, contract, replace(lhs, index=input_index(contract)), rhs)
    return _product(kernel, store, contract, lhs, rhs, weights)


def parts_of(kernel: Kernel) -> tuple[Contract, ...]:
    """The contractions of a kernel, in the order of where they begin to read their operands."""
    return tuple(sorted(contracts(kernel), key=lambda c: (_offsets(c.lhs), _offsets(c.rhs))))


def _operands(kernel: Kernel, contract: Contract) -> tuple[Load, Load, DType]:
    """The operands of a contraction, and the dtype to which the right one is rounded when it is packed."""
    lhs, rhs = contract.lhs, contract.rhs
    weights = dtype_of(kernel, rhs)
    if isinstance(rhs, Cast) and weights is DType.BF16 and contract.accumulator is DType.F32:
        rhs = rhs.operand
    if not isinstance(lhs, Load) or not isinstance(rhs, Load):
        raise ContractionError(f"{kernel.name}: the operands of a contraction must be loads, got {lhs} and {rhs}")
    return lhs, rhs, weights


def _offsets(operand: Expr) -> list[int]:
    read = operand.operand if isinstance(operand, Cast) else operand
    index = read.index if isinstance(read, Load) else ()
    return [i.offset for i in index if isinstance(i, Affine)]


def _product_of_parts(kernel: Kernel, stores: Sequence[Store], parts: Sequence[Contract]) -> GemmShape:
    """The product whose epilogue has several stages."""
    if any(c.kind is not ContractionKind.PRODUCT for c in parts) or len({s.index for s in stores}) != 1:
        raise ContractionError(f"{kernel.name}: several sums or results of a contraction that is no matrix product")
    products = [_product(kernel, stores[0], contract, *_operands(kernel, contract)) for contract in parts]
    first = products[0]
    if any(p.lhs != first.lhs or _without_offsets(p.rhs) != _without_offsets(first.rhs) for p in products):
        raise ContractionError(f"{kernel.name}: {len(parts)} products of different operands")
    return replace(first, parts=tuple(p.rhs for p in products))


def _without_offsets(load: Load) -> Load:
    return replace(load, index=tuple(Affine(i.terms) if isinstance(i, Affine) else i for i in load.index))


def _convolution(kernel: Kernel, store: Store, contract: Contract, x: Load, w: Load, weights: DType) -> ConvShape:
    outs, taps = {v.out for v in contract.windows}, {v.tap for v in contract.windows}
    images = [a for a in contract.rows if a not in outs]
    channels = [a for a in contract.inner if a not in taps]
    roles = (images, contract.columns, channels)
    if any(len(axes) != 1 for axes in roles) or len(contract.batch) > 1:
        raise ContractionError(
            f"{kernel.name}: a convolution has one axis of images, one of filters, one of channels and at most one of"
            f" groups; found {images}, {contract.columns}, {channels}, {contract.batch}"
        )
    assert isinstance(contract.lhs, Load)
    index = contract.lhs.index
    windows = tuple(_spatial_axis(kernel, v, index) for v in contract.windows)
    return ConvShape(
        kernel=kernel,
        contract=contract,
        x=x,
        w=w,
        weights=weights,
        store=store,
        windows=windows,
        batch=images[0],
        group=contract.batch[0] if contract.batch else None,
        filter=contract.columns[0],
        channel=channels[0],
    )


def _weight_gradient(kernel: Kernel, store: Store, contract: Contract, x: Load, dy: Load) -> WeightGradientShape:
    outs, taps = {v.out for v in contract.windows}, {v.tap for v in contract.windows}
    images = [a for a in contract.inner if a not in outs]
    channels = [a for a in contract.rows if a not in taps]
    roles = (images, contract.columns, channels)
    if any(len(axes) != 1 for axes in roles) or len(contract.batch) > 1:
        raise ContractionError(
            f"{kernel.name}: a weight gradient has one axis of images, one of filters, one of channels and at most one"
            f" of groups; found {images}, {contract.columns}, {channels}, {contract.batch}"
        )
    assert isinstance(contract.lhs, Load)
    index, group = contract.lhs.index, contract.batch[0] if contract.batch else None

    def operand(load: Load, windows: tuple[SpatialAxis, ...], channel: str) -> WindowedOperand:
        return WindowedOperand(
            kernel=kernel,
            x=load,
            windows=windows,
            batch=images[0],
            group=group,
            channel=channel,
            accumulator=contract.accumulator,
        )

    windows = tuple(_spatial_axis(kernel, v, index) for v in contract.windows)
    positions = tuple(_position_axis(kernel, v.out, dy.index) for v in contract.windows)
    return WeightGradientShape(
        kernel=kernel,
        contract=contract,
        store=store,
        data=operand(x, windows, channels[0]),
        cotangent=operand(dy, positions, contract.columns[0]),
    )


def _position_axis(kernel: Kernel, axis: str, index: Index) -> SpatialAxis:
    """The window of one element at each position along an axis."""
    return SpatialAxis(
        out=axis,
        tap=NO_AXIS,
        extent=extent_of(kernel, axis),
        taps=1,
        stride=1,
        dilation=1,
        low=0,
        interior=1,
        dimension=index.index(Affine(((axis, 1),))),
    )


def _spatial_axis(kernel: Kernel, window: Window, index: Index) -> SpatialAxis:
    return SpatialAxis(
        out=window.out,
        tap=window.tap,
        extent=extent_of(kernel, window.out),
        taps=extent_of(kernel, window.tap),
        stride=window.stride,
        dilation=window.dilation,
        low=window.low,
        interior=window.interior,
        dimension=index.index(Affine(((window.name, 1),))),
    )


def axes_of(load: Load) -> set[str]:
    """The axes of a load's index. ContractionError if the load gathers."""
    if not all(isinstance(i, Affine) for i in load.index):
        raise ContractionError(f"a contraction cannot gather: {load}")
    return {a for i in load.index if isinstance(i, Affine) for a, _ in i.terms}


def _product(kernel: Kernel, store: Store, contract: Contract, lhs: Load, rhs: Load, weights: DType) -> GemmShape:
    """A matrix product. A batch axis that the right operand does not have is one of the rows."""
    column = _contiguous_axis(kernel, store)
    parallel = [a.name for a in kernel.axes if a.kind is AxisKind.PARALLEL]
    only_lhs = [a for a in parallel if a not in axes_of(rhs)]
    only_rhs = [a for a in parallel if a not in axes_of(lhs)]
    if column in only_lhs or not only_rhs:
        if weights is not kernel.buffer(rhs.buffer).dtype:
            raise ContractionError(f"{kernel.name}: the columns of the result are not those of rounded weights")
        lhs, rhs, only_rhs = rhs, lhs, only_lhs
        weights = kernel.buffer(rhs.buffer).dtype
    in_rhs = axes_of(rhs)
    column = column if column in only_rhs else only_rhs[-1] if only_rhs else NO_AXIS
    return GemmShape(
        kernel=kernel,
        contract=contract,
        lhs=lhs,
        parts=(rhs,),
        weights=weights,
        store=store,
        batches=tuple(a for a in parallel if a in in_rhs and a != column),
        rows=tuple(a for a in parallel if a not in in_rhs and a != column),  # or in neither operand
        column=column,
        inner=contract.inner,
    )


def _contiguous_axis(kernel: Kernel, store: Store) -> str | None:
    """The parallel axis along which the result is contiguous."""
    strides = buffer_strides(kernel.buffer(store.buffer))
    for index, stride in zip(store.index, strides, strict=True):
        for axis, coefficient in index.terms if isinstance(index, Affine) else ():
            if stride * coefficient == 1:
                return axis
    return None
