"""Operators that read or write a rectangular part of an array."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...graph import Value
from ...types import DType, Shape
from .operator import Operator, operator
from .parameters import Bool, Bounds, Float, Int, Ints, OptionalInt
from .shapes import UNKNOWN, E, PartialShape, normalize_axis, unify_at

if TYPE_CHECKING:
    from .builder import MxBuilder

Spans = list[tuple[int, int, int]]
Limits = tuple[int | None, ...]
_BOOL = DType.BOOL


def spans_of(shape: Shape, begin: Limits, end: Limits, step: Limits) -> Spans:
    """(start, stop, step) of every axis, with the semantics of Python's slices; axes without bounds are taken whole."""
    spans: Spans = []
    for axis, n in enumerate(shape):
        lo, hi, by = (bounds[axis] if axis < len(bounds) else None for bounds in (begin, end, step))
        if by == 0:
            raise ValueError(f"the step of axis {axis} is 0")
        spans.append(_indices(n, lo, hi, 1 if by is None else by))
    return spans


def _indices(n: int, begin: int | None, end: int | None, step: int) -> tuple[int, int, int]:
    """`slice(begin, end, step).indices(n)` for symbolic integers too."""
    low, high = (0, n) if step > 0 else (-1, n - 1)

    def bound(index: int | None, default: int) -> int:
        if index is None:
            return default
        return max(index + n, low) if index < 0 else min(index, high)

    return bound(begin, low if step > 0 else high), bound(end, high if step > 0 else low), step


def take_spans(b: MxBuilder, x: Value, spans: Spans) -> Value:
    """The elements in the spans; steps can be negative."""
    flipped = tuple(axis for axis, (_, _, step) in enumerate(spans) if step < 0)
    forward = [_forward(*span) for span in spans]
    start, stop, step = (tuple(column) for column in zip(*forward, strict=True))
    y = b.slice(x, start, stop, step)
    return b.reverse(y, flipped) if flipped else y


def _length(span: tuple[int, int, int]) -> int:
    start, stop, step = span
    return max(0, -(-(stop - start) // step))


def _forward(start: int, stop: int, step: int) -> tuple[int, int, int]:
    """The same elements with a positive step."""
    count = _length((start, stop, step))
    if count == 0:
        return 0, 0, 1
    last = start + (count - 1) * step
    return (start, last + 1, step) if step > 0 else (last, start + 1, -step)


def put_spans(b: MxBuilder, x: Value, part: Value, spans: Spans) -> Value:
    """x with the elements in the spans replaced by `part`: pads the part and selects."""
    if part.type.size == 0:
        return x
    flipped = tuple(axis for axis, (_, _, step) in enumerate(spans) if step < 0)
    part = b.reverse(part, flipped) if flipped else part
    forward = [_forward(*span) for span in spans]
    low = tuple(start for start, _, _ in forward)
    high = tuple(n - stop for n, (_, stop, _) in zip(x.type.shape, forward, strict=True))
    interior = tuple(step - 1 for _, _, step in forward)
    inside = b.full(part.type.shape, True, _BOOL)
    mask = b.pad(inside, b.full((), False, _BOOL), low, high, interior)
    return b.select(mask, b.pad(part, b.full((), 0, x.type.dtype), low, high, interior), x)


def check_bounds(name: str, begin: Limits, end: Limits, step: Limits) -> None:
    """ValueError if begin, end and step have different lengths."""
    if len(begin) != len(end) or (step and len(step) != len(begin)):
        raise ValueError(
            f"{name}: begin={begin}, end={end} and step={step}: must have the same length, one number per sliced axis"
        )


class _SliceBase(Operator):
    """Shared arguments of several operators.

    Args:
        begin: First index along each axis, None for the start.
        end: End along each axis, None for the end. Axes without bounds are taken whole.
        step: Step along each axis; 1 by default. It can be negative.
    """

    extent_parameters = ("begin", "end")
    begin: Bounds
    end: Bounds
    step: Bounds = ()

    def check(self) -> None:
        check_bounds(self.mx_name(), self.begin, self.end, self.step)

    def spans(self, shape: Shape) -> Spans:
        if len(self.begin) > len(shape):
            raise ValueError(f"begin {self.begin} has more numbers than {shape} has axes")
        return spans_of(shape, self.begin, self.end, self.step)


@operator("slice", aliases=("_npi_slice", "_npx_slice", "_sparse_slice", "crop"))
class Slice(_SliceBase):
    """A part of an array, with the semantics of Python's slices.

        output = data[begin[0]:end[0]:step[0], begin[1]:end[1]:step[1], ...]

    Returns:
        The part.
    Example:
        >>> nd.slice(nd.array([[1, 2, 3], [4, 5, 6]]), begin=(0, 1), end=(2, 3)).asnumpy()
        array([[2., 3.],
               [5., 6.]], dtype=float32)
    """

    probe_extents = (0, 60, 120)  # as in MXNet, a part of an unknown extent is unknown, also with constant bounds

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return take_spans(b, inputs[0], self.spans(inputs[0].type.shape))


@operator("_slice_assign", aliases=("_crop_assign", "_npi_slice_assign"))
class SliceAssign(_SliceBase):
    """A copy of an array with a part replaced by another array.

    Args:
        lhs: The array.
        rhs: The new part.
    """

    inputs = ("lhs", "rhs")

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x, part = inputs
        spans = self.spans(x.type.shape)
        return put_spans(b, x, b.broadcast_to(part, tuple(map(_length, spans))), spans)


@operator("_slice_assign_scalar", aliases=("_crop_assign_scalar", "_npi_slice_assign_scalar"))
class SliceAssignScalar(Operator):
    """A copy of an array with a part replaced by a number.

    Args:
        scalar: The number.
        begin: First index along each axis, None for the start.
        end: End along each axis, None for the end.
        step: Step along each axis; 1 by default.
    """

    extent_parameters = ("begin", "end")
    scalar: Float = 0.0
    begin: Bounds
    end: Bounds
    step: Bounds = ()

    def check(self) -> None:
        check_bounds(self.mx_name(), self.begin, self.end, self.step)

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x = inputs[0]
        spans = spans_of(x.type.shape, self.begin, self.end, self.step)
        part = b.full(tuple(map(_length, spans)), self.scalar, x.type.dtype)
        return put_spans(b, x, part, spans)


@operator("slice_axis")
class SliceAxis(Operator):
    """A part of an array along one axis. An axis of extent 0 is not changed.

        output = data[..., begin:end, ...]

    Args:
        axis: The axis.
        begin: First index; a negative index counts from the end.
        end: End of the part, None for the end of the axis.
    Returns:
        The part.
    Example:
        >>> nd.slice_axis(nd.array([[1, 2, 3], [4, 5, 6]]), axis=1, begin=1, end=None).asnumpy()
        array([[2., 3.],
               [5., 6.]], dtype=float32)
    """

    probe_extents = (0, 60, 120)  # see `Slice`
    extent_parameters = ("begin", "end")
    axis: Int
    begin: Int
    end: OptionalInt

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        shape = inputs[0].type.shape
        axis = normalize_axis(self.axis, len(shape))
        n = shape[axis]
        begin = self.begin + n if self.begin < 0 else self.begin
        end = n if self.end is None else self.end + n if self.end < 0 else self.end
        if not n:
            return inputs[0]
        if not 0 <= begin < end <= n:
            raise ValueError(f"the slice {self.begin}:{self.end} is out of range for axis {axis} with extent {n}")
        return b.slice_axis(inputs[0], axis, begin, end)


@operator("slice_like")
class SliceLike(Operator):
    """The leading part of an array with the extents of another array.

    Args:
        data: The array.
        shape_like: The array with the extents.
        axes: The axes along which data is sliced; all by default.
    Returns:
        The part.
    Example:
        >>> nd.slice_like(nd.array([[1, 2, 3], [4, 5, 6]]), nd.zeros((1, 2))).asnumpy()
        array([[1., 2.]], dtype=float32)
    """

    inputs = ("data", "shape_like")
    own_dtypes = frozenset(("shape_like",))
    axes: Ints = ()

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        x, like = inputs
        if x is None or like is None:
            return
        target = self._extents(x, like)
        if any(m is not UNKNOWN and n is not UNKNOWN and n > m for m, n in zip(x, target, strict=True)):
            raise ValueError(f"data {x} is smaller than the slice {target}")
        unify_at(outputs, 0, target)

    def _extents(self, x: tuple[E, ...], like: tuple[E, ...]) -> tuple[E, ...]:
        if not self.axes and len(x) != len(like):
            raise ValueError(f"without axes data {x} and shape_like {like} must have the same number of axes")
        axes = tuple(normalize_axis(a, len(x)) for a in self.axes) or tuple(range(len(x)))
        return tuple(like[i] if i in axes else n for i, n in enumerate(x))

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x, like = (v.type.shape for v in inputs)
        return b.slice(inputs[0], (0,) * len(x), self._extents(x, like))


@operator("Crop")
class Crop(Operator):
    """A part of images along height and width.

    Args:
        data: Images (N, C, H, W), and optionally an array with the height and width of the part.
        offset: First row and column of the part.
        h_w: Height and width of the part, if there is only one input.
        center_crop: True for the central part.
    Returns:
        (N, C, height, width).
    """

    inputs = ("data*",)
    num_args: Int
    offset: Ints = (0, 0)
    h_w: Ints = (0, 0)
    center_crop: Bool = False

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        shape = inputs[0].type.shape
        size: Shape = inputs[1].type.shape[2:] if self.num_args > 1 else self.h_w
        if len(shape) != 4 or len(size) != 2 or len(self.offset) != 2 or min(size) < 1:
            raise ValueError(f"a crop of h_w={tuple(size)} at offset={self.offset} does not fit {shape}")
        free = [n - m for n, m in zip(shape[2:], size, strict=True)]
        offset = tuple(n // 2 for n in free) if self.center_crop else self.offset
        if any(not 0 <= o <= n for o, n in zip(offset, free, strict=True)):
            raise ValueError(f"a crop of {tuple(size)} at {tuple(offset)} is out of range for {shape}")
        stop = tuple(o + n for o, n in zip(offset, size, strict=True))
        return b.slice(inputs[0], (0, 0, *offset), (*shape[:2], *stop))
