"""Small operators of the contrib namespace, and checks of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import TYPE_CHECKING, Literal

import numpy as np

from ...graph import Value
from ...types import DType
from .arithmetic import sign
from .contrib_detection import Corners, overlap
from .gradients import no_gradient, straight_through
from .nn_softmax import log_softmax
from .operator import Elementwise, Operator, declare, operator
from .parameters import Bool, Float, OptionalInts
from .shapes import PartialShape, normalize_axis, unify_at

if TYPE_CHECKING:
    from .builder import MxBuilder


@operator("_contrib_round_ste", aliases=("_sparse__contrib_round_ste",))
class RoundSTE(Elementwise):
    """Rounds to the nearest integer, halves away from zero; the gradient passes unchanged.

    Returns:
        An array of data's shape.
    """

    gradient = straight_through

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return b.round(inputs[0]) if inputs[0].type.dtype.is_float else inputs[0]


@operator("_contrib_sign_ste", aliases=("_sparse__contrib_sign_ste",))
class SignSTE(Elementwise):
    """The sign, -1, 0 or 1; the gradient passes unchanged.

    Returns:
        An array of data's shape.
    """

    gradient = straight_through

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return sign(b, inputs[0])


@operator("_contrib_quadratic")
class Quadratic(Elementwise):
    """A polynomial of degree 2.

        output = a * data^2 + b * data + c

    Args:
        a: Factor of the square.
        b: Factor of data.
        c: The constant.
    Returns:
        An array of data's shape.
    Example:
        >>> nd.contrib.quadratic(nd.array([1, 2]), a=1, b=2, c=3).asnumpy()
        array([ 6., 11.], dtype=float32)
    """

    a: Float = 0.0
    b: Float = 0.0
    c: Float = 0.0

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x = inputs[0]
        return b.add(b.mul(b.add(b.mul(x, self.a), self.b), x), self.c)


class _BackwardOnly(Operator):
    """A step of MXNet's backward pass, which has a name but no inputs: calling it is an error, as in MXNet."""

    inputs = ()

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        raise ValueError("is a step of the backward pass and cannot be called")


for _step in ("hawkesll", "index_copy", "quadratic"):
    declare(f"_contrib_backward_{_step}", _BackwardOnly, {"__doc__": f"A step of the gradient of {_step}."})


@operator("_contrib_index_array")
class IndexArray(Operator):
    """The coordinates of each element.

    Args:
        axes: The axes whose coordinates are returned; all by default.
    Returns:
        (*data.shape, number of axes), int64.
    Example:
        >>> nd.contrib.index_array(nd.ones((1, 2))).asnumpy().tolist()
        [[[0, 0], [0, 1]]]
    """

    output_dtype = DType.I64
    axes: OptionalInts = None

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        shape = inputs[0].type.shape
        axes = range(len(shape)) if self.axes is None else [normalize_axis(a, len(shape)) for a in self.axes]
        return b.constant(np.stack([np.indices(shape)[a] for a in axes], -1).astype(np.int64))


@operator("_contrib_allclose")
class AllClose(Operator):
    """Compares two arrays with a tolerance.

        output = 1 if |a - b| <= atol + rtol * |b| for all elements else 0

    Args:
        a: One array.
        b: The other array.
        rtol: Tolerance relative to b.
        atol: Absolute tolerance.
        equal_nan: True if NaN equals NaN.
    Returns:
        A scalar, of shape ().
    Example:
        >>> nd.contrib.allclose(nd.array([1]), nd.array([1.000001])).asnumpy()
        array(1, dtype=uint8)
    """

    has_gradient = False
    inputs = ("a", "b")
    output_dtype = DType.U8
    rtol: Float = 9.99999975e-06
    atol: Float = 9.99999994e-09
    equal_nan: Bool = True

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x, y = inputs
        limit = b.add(b.mul(b.abs(y), self.rtol), self.atol)
        close = b.or_(b.le(b.abs(b.sub(x, y)), limit), b.eq(x, y))
        if self.equal_nan:
            close = b.or_(close, b.and_(b.is_nan(x), b.is_nan(y)))
        return b.cast(b.all(close), DType.U8)


@operator("all_finite")
class AllFinite(Operator):
    """1 if no element is infinite or NaN, else 0.

    Args:
        init_output: False to keep a 0 in `out`.
    Returns:
        (1,).
    Example:
        >>> nd.all_finite(nd.array([1, 2])).asnumpy()
        array([1.], dtype=float32)
    """

    has_gradient = False
    output_dtype = DType.F32
    init_output: Bool = True

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        unify_at(outputs, 0, (1,))

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return b.reshape(b.cast(b.all(b.is_finite(inputs[0])), DType.F32), (1,))


@operator("softmax_cross_entropy")
class SoftmaxCrossEntropy(Operator):
    """The cross entropy of the softmax of each row with its label, summed over the rows.

        output = -sum_n log(max(softmax(data[n])[label[n]], 1e-8))

    Its gradient is softmax(data) - onehot(label). A label that is no class has the probability 0.

    Args:
        data: (N, C), scores.
        label: (N,), classes.
    Returns:
        (1,).
    Example:
        >>> nd.softmax_cross_entropy(nd.array([[0, 0]]), nd.array([1])).asnumpy().round(3)
        array([0.693], dtype=float32)
    """

    inputs = ("data", "label")

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        if inputs[0] is not None and inputs[1] is None:
            inputs[1] = inputs[0][:1]

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        data, label = inputs
        if label.type.size != data.type.shape[0]:
            raise ValueError(f"label has {label.type.size} elements for {data.type.shape[0]} rows of data")
        least = b.full_like(data, log(1e-8))
        picked = b.max(b.select(_is_class(b, data, label), log_softmax(b, data, 1), least), (1,))
        return b.reshape(b.neg(b.sum(picked)), (1,))

    def gradient(  # type: ignore[override]
        self, b: MxBuilder, operands: Sequence[Value], results: object, cotangents: Sequence[Value]
    ) -> list[Value | None]:
        data, label = operands
        hit = b.cast(_is_class(b, data, label), data.type.dtype)
        wrong = b.sub(b.exp(log_softmax(b, data, 1)), hit)
        return [b.mul(wrong, b.broadcast(b.reshape(cotangents[0], ()), data.type.shape, ())), None]


def _is_class(b: MxBuilder, data: Value, label: Value) -> Value:
    """(N, C): whether a column is the class of its row."""
    shape = data.type.shape
    classes = b.broadcast(b.reshape(b.cast(label, DType.I32), shape[:1]), shape, (0,))
    return b.eq(classes, b.iota(shape, DType.I32, 1))


@operator("_contrib_box_iou")
class BoxIoU(Operator):
    """The intersection over union of each box of one array with each box of another.

    Args:
        lhs: (..., 4), boxes.
        rhs: (..., 4), boxes.
        format: "corner" (left, top, right, bottom) or "center" (x, y, width, height).
    Returns:
        (*lhs.shape[:-1], *rhs.shape[:-1]).
    Example:
        >>> nd.contrib.box_iou(nd.array([[0, 0, 2, 1]]), nd.array([[1, 0, 2, 1]])).asnumpy()
        array([[0.5]], dtype=float32)
    """

    inputs = ("lhs", "rhs")
    gradient = no_gradient
    format: Literal["center", "corner"] = "corner"

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        lead = [x.type.shape[:-1] for x in inputs]
        rows = [b.reshape(x, (x.type.size // 4, 4)) for x in inputs]
        space = (rows[0].type.shape[0], rows[1].type.shape[0])
        first, second = (self._corners(b, x, space, axis) for axis, x in enumerate(rows))
        return b.reshape(overlap(b, first, second), lead[0] + lead[1])

    def _corners(self, b: MxBuilder, rows: Value, space: tuple[int, int], axis: int) -> Corners:
        count = rows.type.shape[0]
        x, y, z, w = (
            b.broadcast_along(b.reshape(b.slice_axis(rows, 1, i, i + 1), (count,)), space, axis) for i in range(4)
        )
        if self.format == "corner":
            return x, y, z, w
        dx, dy = b.mul(z, 0.5), b.mul(w, 0.5)
        return b.sub(x, dx), b.sub(y, dy), b.add(x, dx), b.add(y, dy)
