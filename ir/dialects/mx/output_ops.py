"""Output layers: they pass on their data and define the gradient themselves, independent of the cotangent."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Literal

from ...graph import Value
from ...types import DType, Shape
from .nn_softmax import flat_softmax, softmax
from .operator import Elementwise, Operator, operator
from .parameters import Bool, Float
from .shapes import PartialShape, is_known, unify, unify_at

if TYPE_CHECKING:
    from .builder import MxBuilder


@operator("SoftmaxOutput", aliases=("Softmax",))
class SoftmaxOutput(Operator):
    """The softmax of data, as the last layer of a classifier. Its gradient is the gradient of the cross entropy with
    `label`.

        output = softmax(data);    gradient = (output - onehot(label)) * grad_scale

    Args:
        data: (N, C), or more axes; see `multi_output` and `preserve_shape`.
        label: (N,), the classes; or probabilities in data's shape.
        grad_scale: Factor of the gradient.
        ignore_label: Class of labels without gradient; requires `use_ignore`.
        multi_output: True if classes are on axis 1 of data, followed by other axes.
        use_ignore: True to ignore labels equal to `ignore_label`.
        preserve_shape: True if classes are on the last axis. Otherwise all axes except the first are classes.
        normalization: The divisor of the gradient: "null" none, "batch" N, "valid" the number of used labels.
        out_grad: True to multiply the gradient by the output, as in MXNet.
        smooth_alpha: Part of a label's probability that is distributed to the other classes.
    Returns:
        An array of data's shape.
    Example:
        >>> nd.SoftmaxOutput(nd.array([[0, 0]]), nd.array([1])).asnumpy()
        array([[0.5, 0.5]], dtype=float32)
    """

    inputs = ("data", "label")
    grad_scale: Float = 1.0
    ignore_label: Float = -1.0
    multi_output: Bool = False
    use_ignore: Bool = False
    preserve_shape: Bool = False
    normalization: Literal["batch", "null", "valid"] = "null"
    out_grad: Bool = False
    smooth_alpha: Float = 0.0

    def check(self) -> None:
        if not 0 <= self.smooth_alpha <= 1:
            raise ValueError(f"SoftmaxOutput: smooth_alpha={self.smooth_alpha}: must be in [0, 1]")

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        inputs[0] = outputs[0] = data = unify(inputs[0], outputs[0])
        label = inputs[1]
        if data is None or label == data:
            return
        if not self.multi_output:
            unify_at(inputs, 1, data[:-1])
        elif label is None:
            inputs[1] = (data[0], prod(data[2:]))
        elif is_known(data) and is_known(label):
            self._require_label(data, label)

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x = inputs[0]
        if self.multi_output:
            return softmax(b, x, 1)
        return softmax(b, x, x.type.rank - 1) if self.preserve_shape else flat_softmax(b, x)

    def gradient(  # type: ignore[override]
        self, b: MxBuilder, operands: Sequence[Value], results: Sequence[Value], cotangents: Sequence[Value]
    ) -> list[Value | None]:
        """(p - onehot(label)) * grad_scale, normalised; 0 for ignored labels.

        With out_grad MXNet multiplies by the result, not by its cotangent.
        """
        p, labels = results[0], operands[1]
        if labels.type.shape == p.type.shape:
            g = b.mul(b.sub(p, labels), self.grad_scale)
        else:
            g = b.reshape(self._from_classes(b, p, labels), p.type.shape)
        return [b.mul(g, p) if self.out_grad else g, None]

    def _from_classes(self, b: MxBuilder, p: Value, labels: Value) -> Value:
        """The gradient for labels that are class numbers."""
        axis, shape, used = self._class_axis(p), p.type.shape, labels
        if not (self.multi_output or self.preserve_shape):
            p = b.reshape(p, (shape[0], prod(shape[1:])))  # MXNet reads one label per row, even if there are more
            used = b.slice_axis(b.reshape(labels, (labels.type.size,)), 0, 0, shape[0])
        return self._normalize(b, self._difference(b, p, used, axis), labels)

    def _require_label(self, data: Shape, label: Shape) -> None:
        """ValueError unless labels with several axes have one number per distribution."""
        expected = ((data[0], prod(data[2:])), (data[0], *data[2:]), (data[0], 1, *data[2:]))
        if label not in expected:
            raise ValueError(f"label should be {' or '.join(map(str, expected))}, provided is {label}")

    def _class_axis(self, p: Value) -> int:
        return p.type.rank - 1 if self.preserve_shape else 1

    def _difference(self, b: MxBuilder, p: Value, labels: Value, axis: int) -> Value:
        shape = p.type.shape
        others = tuple(i for i in range(len(shape)) if i != axis)
        wide = b.reshape(labels, tuple(shape[i] for i in others))
        spread = b.broadcast(b.cast(wide, DType.I32), shape, others)
        hit = b.eq(b.iota(shape, DType.I32, axis), spread)
        smooth = self.smooth_alpha / max(shape[axis] - 1, 1)
        target = b.select(hit, b.full_like(p, 1 - self.smooth_alpha), b.full_like(p, smooth))
        g = b.sub(p, target)
        if not self.use_ignore:
            return g
        kept = b.ne(b.broadcast(wide, shape, others), self.ignore_label)
        return b.select(kept, g, b.full_like(g, 0))

    def _normalize(self, b: MxBuilder, g: Value, labels: Value) -> Value:
        if self.normalization == "valid":
            count = self._valid(b, labels, g.type.dtype)
            return b.div(b.mul(g, self.grad_scale), b.broadcast(count, g.type.shape, ()))
        batch = labels.type.shape[0] if self.multi_output else labels.type.size
        count = batch if self.normalization == "batch" else 1
        spatial = prod(g.type.shape[2:]) if self.multi_output else 1
        return b.mul(g, self.grad_scale / max(count * spatial, 1))

    def _valid(self, b: MxBuilder, labels: Value, dtype: DType) -> Value:
        if not self.use_ignore:
            return b.full((), labels.type.size, dtype)
        kept = b.cast(b.ne(labels, self.ignore_label), dtype)
        return b.maximum(b.sum(kept, tuple(range(labels.type.rank))), 1)


class _RegressionOutput(Operator):
    """Shared arguments of several operators.

    Args:
        data: The predictions.
        label: The targets, in data's shape or without its last axis of extent 1.
        grad_scale: Factor of the gradient, which is divided by the number of targets per instance.
    Returns:
        An array of data's shape.
    """

    inputs = ("data", "label")
    grad_scale: Float = 1.0

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        inputs[0] = outputs[0] = data = unify(inputs[0], outputs[0])
        label = inputs[1]
        if data is None:
            return
        if label is None:
            inputs[1] = data[:1] if len(data) == 2 and data[1] == 1 else data
        elif is_known(data) and is_known(label) and (label[0] != data[0] or prod(label) != prod(data)):
            raise ValueError(f"label should be {data}, or have as many numbers for each of {data[0]}, got {label}")

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return inputs[0]

    def difference(self, b: MxBuilder, out: Value, label: Value) -> Value:
        return b.sub(out, label)

    def gradient(  # type: ignore[override]
        self, b: MxBuilder, operands: Sequence[Value], results: Sequence[Value], cotangents: Sequence[Value]
    ) -> list[Value | None]:
        """The difference from the label, times grad_scale, divided by the number of outputs per instance."""
        out, label = results[0], operands[1]
        g = self.difference(b, out, b.reshape(label, out.type.shape))
        return [b.mul(g, self.grad_scale / max(prod(out.type.shape[1:]), 1)), None]


@operator("LinearRegressionOutput", aliases=("_sparse_LinearRegressionOutput",))
class LinearRegressionOutput(_RegressionOutput):
    """Data unchanged, as the last layer of a regression with the gradient of half the squared error.

        output = data;    gradient = (data - label) * grad_scale

    Returns:
        An array of data's shape.
    Example:
        >>> nd.LinearRegressionOutput(nd.array([[1], [2]]), nd.array([[0], [0]])).asnumpy()
        array([[1.],
               [2.]], dtype=float32)
    """


@operator("MAERegressionOutput", aliases=("_sparse_MAERegressionOutput",))
class MAERegressionOutput(_RegressionOutput):
    """Data unchanged, as the last layer of a regression with the gradient of the absolute error.

        output = data;    gradient = grad_scale where data > label, else -grad_scale

    Returns:
        An array of data's shape.
    Example:
        >>> nd.MAERegressionOutput(nd.array([[1], [2]]), nd.array([[0], [0]])).asnumpy()
        array([[1.],
               [2.]], dtype=float32)
    """

    def difference(self, b: MxBuilder, out: Value, label: Value) -> Value:
        return b.where(b.gt(out, label), b.full_like(out, 1), b.full_like(out, -1))


@operator("LogisticRegressionOutput", aliases=("_sparse_LogisticRegressionOutput",))
class LogisticRegressionOutput(_RegressionOutput):
    """The sigmoid of data, as the last layer of a classifier with the gradient of the cross entropy.

        output = 1 / (1 + exp(-data));    gradient = (output - label) * grad_scale

    Returns:
        An array of data's shape.
    Example:
        >>> nd.LogisticRegressionOutput(nd.array([[0]]), nd.array([[1]])).asnumpy()
        array([[0.5]], dtype=float32)
    """

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return b.sigmoid(inputs[0])


@operator("MakeLoss")
class MakeLoss(Elementwise):
    """Data unchanged, as a loss: its gradient does not depend on the cotangent.

        output = data;    gradient = grad_scale, divided as `normalization` specifies

    Args:
        grad_scale: The gradient of each element.
        valid_thresh: Used with "valid": elements above it are counted.
        normalization: The divisor of the gradient: "null" none, "batch" the number of rows along the last axis, "valid"
            the number of elements above `valid_thresh`.
    Returns:
        An array of data's shape.
    Example:
        >>> nd.MakeLoss(nd.array([1, 2])).asnumpy()
        array([1., 2.], dtype=float32)
    """

    grad_scale: Float = 1.0
    valid_thresh: Float = 0.0
    normalization: Literal["batch", "null", "valid"] = "null"

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return inputs[0]

    def gradient(  # type: ignore[override]
        self, b: MxBuilder, operands: Sequence[Value], results: Sequence[Value], cotangents: Sequence[Value]
    ) -> list[Value]:
        """grad_scale, divided by the number of elements above valid_thresh ("valid") or of rows ("batch")."""
        x = operands[0]
        ones = b.full_like(x, self.grad_scale)
        if self.normalization == "batch":
            return [b.mul(ones, 1 / max(prod(x.type.shape[:-1]), 1))]
        if self.normalization == "null":
            return [ones]
        above = b.cast(b.gt(x, self.valid_thresh), x.type.dtype)
        count = b.maximum(b.sum(above, tuple(range(x.type.rank))), 1)
        return [b.div(ones, b.broadcast(count, x.type.shape, ()))]


@operator("SVMOutput")
class SVMOutput(Operator):
    """Data unchanged, as the last layer of a classifier with the gradient of the hinge loss.

    Args:
        data: (N, C), scores.
        label: (N,), the classes.
        margin: Required distance of scores from 0, positive for the right class and negative for the others.
        regularization_coefficient: Factor of the gradient.
        use_linear: True for the hinge loss itself, False for its square.
    Returns:
        An array of data's shape.
    """

    inputs = ("data", "label")
    margin: Float = 1.0
    regularization_coefficient: Float = 1.0
    use_linear: Bool = False

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        inputs[0] = outputs[0] = data = unify(inputs[0], outputs[0])
        if data is not None:
            unify_at(inputs, 1, data[:-1])

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return inputs[0]

    def gradient(  # type: ignore[override]
        self, b: MxBuilder, operands: Sequence[Value], results: Sequence[Value], cotangents: Sequence[Value]
    ) -> list[Value | None]:
        """The signed difference of each score from its margin, times regularization_coefficient."""
        scores, label = operands
        shape, axis = scores.type.shape, scores.type.rank - 1
        kinds = b.broadcast(b.cast(label, DType.I32), shape, tuple(range(axis)))
        right = b.eq(kinds, b.iota(shape, DType.I32, axis))
        one = b.full_like(scores, 1)
        away = b.select(right, b.neg(one), one)
        lack = b.add(b.mul(away, scores), self.margin)
        size = one if self.use_linear else b.mul(lack, 2.0)
        pushed = b.select(b.gt(lack, 0), b.mul(away, size), b.full_like(scores, 0))
        return [b.mul(pushed, self.regularization_coefficient), None]


@operator("IdentityAttachKLSparseReg")
class IdentityAttachKLSparseReg(Elementwise):
    """Data unchanged; in training a penalty pulls the mean activation of each unit towards a target.

    Args:
        data: (batch, units), values of a sigmoid.
        moving_avg: (units,), the mean activations; updated in training.
        sparseness_target: The target.
        penalty: Factor of the penalty.
        momentum: Weight of the old value in an update of the mean activations.
    Returns:
        An array of data's shape.
    """

    inputs = ("data", "moving_avg!")
    sparseness_target: Float = 0.100000001
    penalty: Float = 0.00100000005
    momentum: Float = 0.899999976

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        inputs[0] = outputs[0] = data = unify(inputs[0], outputs[0])
        if data is not None:
            unify_at(inputs, 1, data[1:2])

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x, moving = inputs
        if b.training:
            b.update_in_backward(moving, self._moved(b, x, moving))
        return x

    def _moved(self, b: MxBuilder, x: Value, moving: Value) -> Value:
        return b.add(b.mul(moving, self.momentum), b.mul(b.mean(x, (0,)), 1 - self.momentum))

    def gradient(  # type: ignore[override]
        self, b: MxBuilder, operands: Sequence[Value], results: Sequence[Value], cotangents: Sequence[Value]
    ) -> list[Value | None]:
        """The gradient of the identity plus the gradient of the penalty at the updated mean."""
        x, moving = operands
        mean, target = self._moved(b, x, moving), self.sparseness_target
        slope = b.sub(b.div(1 - target, b.sub(1, mean)), b.div(target, mean))
        spread = b.broadcast_along(b.mul(slope, self.penalty), x.type.shape, 1)
        return [b.add(cotangents[0], spread), None]
