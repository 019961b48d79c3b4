"""Recognises what a Kernel with a Contract computes: a convolution or a matrix product, with the role of each axis.

A convolution has spatial dimensions: dimensions of its input indexed by one parallel axis (the output's position) and
one reduce axis (the window's). Anything else whose indices are plain axes is a matrix product: axes in both operands
are batches, axes of one alone are rows or columns.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.kernel import Affine, AxisKind, Buffer, Const, Contract, Expr, Index, Kernel, Load, Scalar, Store, walk
from ...ir.scalar import ScalarOp
from ...ir.types import DType
from ..lower_contract import split_dilated

NO_AXIS = ""
"""Stands where a role has no axis: products without columns, convolutions without groups. Its extent is 1."""


class ContractionError(ValueError):
    """A kernel whose contraction no emitter takes; the text says what is not understood."""


@dataclass(frozen=True, slots=True)
class Window:
    """One spatial dimension: x[out * stride + tap * dilation - low], where x has `interior - 1` zeros between its
    elements.
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
        """Positions of the (dilated) input that the window touches, from the first to the last."""
        return (self.extent - 1) * self.stride + (self.taps - 1) * self.dilation + 1


@dataclass(frozen=True, slots=True)
class ConvShape:
    """A convolution: `channels` per group in, `filters` per group out; `batch`, `group`, `filter`, `channel` name the
    kernel's axes.
    """

    kernel: Kernel
    contract: Contract
    x: Load
    w: Load
    store: Store
    windows: tuple[Window, ...]
    batch: str
    group: str | None
    filter: str
    channel: str

    @property
    def groups(self) -> int:
        return extent_of(self.kernel, self.group) if self.group else 1

    @property
    def channels(self) -> int:
        return extent_of(self.kernel, self.channel)

    @property
    def filters(self) -> int:
        return extent_of(self.kernel, self.filter)

    @property
    def images(self) -> int:
        return extent_of(self.kernel, self.batch)

    @property
    def points(self) -> int:
        """Output positions of one image."""
        count = 1
        for w in self.windows:
            count *= w.extent
        return count

    @property
    def taps(self) -> int:
        count = 1
        for w in self.windows:
            count *= w.taps
        return count

    @property
    def is_depthwise(self) -> bool:
        return self.groups > 1 and self.channels == 1 and self.filters == 1

    @property
    def dtype(self) -> DType:
        return self.kernel.buffer(self.x.buffer).dtype


@dataclass(frozen=True, slots=True)
class GemmShape:
    """out[batch, row, column] = sum over `inner` of lhs * rhs. `column` is the axis along which the vectors run:
    contiguous in the result where one operand alone has that axis; NO_AXIS where neither has an axis of its own.
    """

    kernel: Kernel
    contract: Contract
    lhs: Load
    rhs: Load
    store: Store
    batches: tuple[str, ...]
    rows: tuple[str, ...]
    column: str
    inner: tuple[str, ...]

    def count(self, axes: tuple[str, ...]) -> int:
        total = 1
        for a in axes:
            total *= extent_of(self.kernel, a)
        return total

    @property
    def dtype(self) -> DType:
        return self.kernel.buffer(self.lhs.buffer).dtype


def extent_of(kernel: Kernel, axis: str) -> int:
    """The extent of an axis, which a contraction must know when it is compiled."""
    extent = 1 if axis == NO_AXIS else kernel.axis(axis).extent
    if not isinstance(extent, int):
        raise ContractionError(
            f"{kernel.name}: axis {axis} has run-time extent {extent!r}; contractions are compiled for fixed shapes"
        )
    return extent


def operand_dtype(kernel: Kernel) -> DType:
    """The element type of the contraction's left operand."""
    _, contract = _only_contract(kernel)
    load = _without_dilation(contract.lhs)
    assert isinstance(load, Load)
    return kernel.buffer(load.buffer).dtype


def describe_contraction(kernel: Kernel) -> ConvShape | GemmShape:
    """What `kernel` computes. ContractionError for anything but one Store that holds one Contract of Loads."""
    store, contract = _only_contract(kernel)
    if isinstance(_without_dilation(contract.lhs), Load) and isinstance(contract.rhs, Load):
        shape = _as_convolution(kernel, store, contract)
        return shape if shape is not None else _as_product(kernel, store, contract)
    raise ContractionError(
        f"{kernel.name}: the operands of a contraction must be loads, got {contract.lhs} and {contract.rhs}"
    )


def _only_contract(kernel: Kernel) -> tuple[Store, Contract]:
    if len(kernel.stages) != 1 or not isinstance(kernel.stages[0], Store):
        raise ContractionError(f"{kernel.name}: a contraction is one Store, not {len(kernel.stages)} stages")
    store = kernel.stages[0]
    found = {e for e in walk(store.value) if isinstance(e, Contract)}
    if len(found) != 1:
        raise ContractionError(f"{kernel.name}: expected one Contract in the stored value, found {len(found)}")
    return store, found.pop()


def _without_dilation(expr: Expr) -> Expr:
    """The Load inside the guard that `lower_contract.dilated_load` puts around an input with interior zeros."""
    match expr:
        case Scalar(ScalarOp.SELECT, (_, Load(other=Const()) as load, _)):
            return load
        case _:
            return expr


def axes_of(index: Index) -> set[str]:
    return {a for i in index for a in _terms(i)[0]}


def _terms(index: Affine | Expr) -> tuple[dict[str, int], int, int]:
    """Coefficients, offset and divisor of an index: a divisor other than 1 comes from interior zeros."""
    if isinstance(index, Affine):
        return dict(index.terms), index.offset, 1
    found = split_dilated(index)
    if found is None:
        raise ContractionError(f"a contraction cannot gather: index {index}")
    inner, divisor = found
    return dict(inner.terms), inner.offset, divisor


def _as_convolution(kernel: Kernel, store: Store, contract: Contract) -> ConvShape | None:
    x, w = _without_dilation(contract.lhs), contract.rhs
    assert isinstance(x, Load) and isinstance(w, Load)
    reduce = set(contract.axes)
    in_x, in_w = axes_of(x.index), axes_of(w.index)
    windows = [_window(kernel, d, i, reduce) for d, i in enumerate(x.index) if _is_spatial(i, reduce, in_w)]
    if not windows:
        return None
    parallel = [a.name for a in kernel.axes if a.kind is AxisKind.PARALLEL]
    used = {n for v in windows for n in (v.out, v.tap)}
    batch = [a for a in parallel if a in in_x and a not in in_w and a not in used]
    group = [a for a in parallel if a in in_x and a in in_w]
    filters = [a for a in parallel if a not in in_x and a in in_w]
    channel = [a for a in contract.axes if a not in used]
    if len(batch) != 1 or len(group) > 1 or len(filters) != 1 or len(channel) != 1:
        raise ContractionError(
            f"{kernel.name}: a convolution has one batch, at most one group, one filter and one channel axis;"
            f" found {batch}, {group}, {filters}, {channel}"
        )
    return ConvShape(
        kernel, contract, x, w, store, tuple(windows), batch[0], group[0] if group else None, filters[0], channel[0]
    )


def _is_spatial(index: Affine | Expr, reduce: set[str], in_w: set[str]) -> bool:
    """A position and a tap; in a grouped convolution's channel dimension the weights know the group."""
    terms, _, divisor = _terms(index)
    outside = set(terms) - reduce
    return divisor != 1 or (len(terms) == 2 and len(outside) == 1 and outside.isdisjoint(in_w))


def _window(kernel: Kernel, dimension: int, index: Affine | Expr, reduce: set[str]) -> Window:
    terms, offset, divisor = _terms(index)
    taps = [a for a in terms if a in reduce]
    outs = [a for a in terms if a not in reduce]
    if len(taps) != 1 or len(outs) != 1:
        raise ContractionError(
            f"{kernel.name}: dimension {dimension} is indexed by {sorted(terms)}, not by a position and a tap"
        )
    tap, out = taps[0], outs[0]
    if terms[out] < 1 or terms[tap] < 1:
        raise ContractionError(f"{kernel.name}: dimension {dimension} runs backwards: flip the weights instead")
    return Window(
        out, tap, extent_of(kernel, out), extent_of(kernel, tap), terms[out], terms[tap], -offset, divisor, dimension
    )


def _as_product(kernel: Kernel, store: Store, contract: Contract) -> GemmShape:
    lhs, rhs = contract.lhs, contract.rhs
    assert isinstance(lhs, Load) and isinstance(rhs, Load)
    column = _contiguous_axis(kernel, store)
    parallel = [a.name for a in kernel.axes if a.kind is AxisKind.PARALLEL]
    only_lhs = [a for a in parallel if a not in axes_of(rhs.index)]
    only_rhs = [a for a in parallel if a not in axes_of(lhs.index)]
    if column in only_lhs or not only_rhs:
        lhs, rhs, only_rhs = rhs, lhs, only_lhs
    in_rhs = axes_of(rhs.index)
    column = column if column in only_rhs else only_rhs[-1] if only_rhs else NO_AXIS
    rows = tuple(a for a in parallel if a not in in_rhs and a != column)  # an axis may be in neither operand
    batches = tuple(a for a in parallel if a in in_rhs and a != column)
    return GemmShape(kernel, contract, lhs, rhs, store, batches, rows, column, contract.axes)


def _contiguous_axis(kernel: Kernel, store: Store) -> str | None:
    """The parallel axis along which the result is contiguous."""
    from .strides import buffer_strides

    out: Buffer = kernel.buffer(store.buffer)
    strides = buffer_strides(out)
    for index, stride in zip(store.index, strides, strict=True):
        terms = _terms(index)[0]
        for axis, coefficient in terms.items():
            if stride * coefficient == 1:
                return axis
    return None
