"""Normalisation over batch, layer, group, instance, norm and neighbouring channels."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ...graph import Value
from ...group import GroupMoments, GroupSums
from ...scalar import ReduceOp
from ...types import DType, Shape, TensorType
from .nn_activation import relu
from .operator import Elementwise, Operator, operator
from .parameters import Bool, Float, Int, OptionalFloat, Positive, Text
from .shapes import PartialShape, normalize_axis, unify, unify_at

if TYPE_CHECKING:
    from .builder import MxBuilder

Three = tuple[Value, Value, Value]


def _wide(b: MxBuilder, x: Value) -> Value:
    """x in the dtype of statistics: at least float32."""
    return b.cast(x, DType.F32) if x.type.dtype.bits < 32 else x


def _constants(b: MxBuilder, visible: bool, mean: Value, spread: Value) -> tuple[Value, Value]:
    """The statistics as results without gradient; if they are not visible, they have no readers."""
    return (b.stop_gradient(mean), b.stop_gradient(spread)) if visible else (mean, spread)


class _BatchNormBase(Operator):
    """Normalizes along one axis with the batch's statistics or stored statistics.

    Args:
        data: (N, C, ...), with channels on axis 1.
        gamma: (C,), the scale of each channel; replaced by 1 with `fix_gamma`.
        beta: (C,), the shift of each channel.
        moving_mean: (C,), the stored mean; updated in training.
        moving_var: (C,), the stored variance; updated in training.
        eps: Added to the variance.
        momentum: Weight of the old value in an update of the stored statistics.
        fix_gamma: True to use 1 instead of gamma.
        use_global_stats: True to use the stored statistics in training too.
        output_mean_var: True to return the statistics as well.
        min_calib_range: Accepted for quantized models of MXNet; unused.
        max_calib_range: Accepted for quantized models of MXNet; unused.
    """

    if TYPE_CHECKING:  # each subclass declares these at MXNet's own place and with its own defaults
        eps: float
        momentum: float
        fix_gamma: bool
        use_global_stats: bool
        output_mean_var: bool

    inputs = ("data", "gamma", "beta", "moving_mean!", "moving_var!")
    outputs = ("output", "mean", "var")
    hidden = 2
    keeps_variance: ClassVar[bool] = False
    own_dtypes = frozenset(("gamma", "beta", "moving_mean", "moving_var"))

    @property
    def visible_outputs(self) -> int:
        return 3 if self.output_mean_var else 1

    def channel_axis(self, rank: int) -> int:
        return normalize_axis(getattr(self, "axis", 1), rank)

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        inputs[0] = outputs[0] = data = unify(inputs[0], outputs[0])
        if data is None:
            return
        channels = (data[self.channel_axis(len(data))],)
        for shapes in (inputs, outputs):
            for position in range(1, len(shapes)):
                unify_at(shapes, position, channels)

    def complete_dtypes(self, inputs: list[DType | None], outputs: list[DType | None]) -> None:
        inputs[0] = inputs[0] or outputs[0]
        if inputs[0] is not None:
            wide = inputs[0] if inputs[0].bits >= 32 else DType.F32
            inputs[1:] = [d or wide for d in inputs[1:]]

    def output_dtypes(self, inputs: Sequence[DType]) -> Sequence[DType | None]:
        return [inputs[0], inputs[1], inputs[1]]

    def normalize(self, b: MxBuilder, inputs: tuple[Value, ...]) -> Three:
        """Output, then mean and 1/sqrt(var + eps), or var with `keeps_variance`."""
        data, gamma, beta, *moving = inputs
        x = b.cast(data, gamma.type.dtype)
        if not moving or (b.training and not self.use_global_stats):
            y, mean, var = b.custom_gradient(self._by_batch, self._batch_gradient, x, gamma, beta)
            self._update(b, moving, (mean, var), self.momentum)
        else:
            mean, var = moving
            y = self._affine(b, x, gamma, beta, mean, var)
        spread = var if self.keeps_variance else self._inverse(b, var)
        return b.cast(y, data.type.dtype), *_constants(b, self.output_mean_var, mean, spread)

    def _by_batch(self, b: MxBuilder, x: Value, gamma: Value, beta: Value) -> Three:
        """Output, mean and variance with the statistics of x."""
        mean, var = _moments(b, x, self._reduced(x))
        return self._affine(b, x, gamma, beta, mean, var), mean, var

    def _affine(self, b: MxBuilder, x: Value, gamma: Value, beta: Value, mean: Value, var: Value) -> Value:
        """x * scale + shift."""
        scale = self._scale(b, gamma, var)
        shift = b.sub(beta, b.mul(mean, scale))
        return b.add(b.mul(x, self._along(b, scale, x)), self._along(b, shift, x))

    def _batch_gradient(
        self, b: MxBuilder, operands: Sequence[Value], results: object, cotangents: Sequence[Value]
    ) -> list[Value | None]:
        """The gradient of `_by_batch`, whose statistics have no cotangents: one pass for sums of the cotangent, and one
        that applies them. Statistics are computed again, so that the gradient can be differentiated by x."""
        x, gamma, _ = operands
        g, axes = cotangents[0], self._reduced(x)
        mean, var = _moments(b, x, axes)
        inverse = self._inverse(b, var)
        centred = b.sub(x, self._along(b, mean, x))
        count = prod(x.type.shape[k] for k in axes)
        total, left = b.sum(g, axes), b.sum(centred, axes)
        # `left` is the rounding error of the mean, which would not cancel in the gradient by x of a sum
        product = b.sub(b.sum(b.mul(g, centred), axes), b.mul(b.div(total, count), left))
        slope = b.div(b.mul(product, b.square(inverse)), count)
        rest = b.sub(b.sub(g, self._along(b, b.div(total, count), x)), b.mul(centred, self._along(b, slope, x)))
        gradient = b.mul(rest, self._along(b, self._scale(b, gamma, var), x))
        return [gradient, None if self.fix_gamma else b.mul(product, inverse), total]

    def _reduced(self, x: Value) -> tuple[int, ...]:
        """The axes over which statistics are computed: all but that of the channels."""
        channels = self.channel_axis(x.type.rank)
        return tuple(k for k in range(x.type.rank) if k != channels)

    def _along(self, b: MxBuilder, vector: Value, x: Value) -> Value:
        """A number for each channel, broadcast to the shape of x."""
        return b.broadcast_along(vector, x.type.shape, self.channel_axis(x.type.rank))

    def _inverse(self, b: MxBuilder, var: Value) -> Value:
        return b.rsqrt(b.add(var, self.eps))

    def _scale(self, b: MxBuilder, gamma: Value, var: Value) -> Value:
        inverse = self._inverse(b, var)
        return inverse if self.fix_gamma else b.mul(gamma, inverse)

    def require_dtypes(self, types: Sequence[TensorType]) -> None:
        """TypeError unless the vectors have data's dtype, or float32 for 16-bit data."""
        names = self.input_names(len(types))
        if not types[0].dtype.is_float:
            raise TypeError(f"data must have a floating dtype, got {types[0].dtype.full_name}")
        allowed = {types[0].dtype, DType.F32} if types[0].dtype.bits < 32 else {types[0].dtype}
        for name, t in zip(names[1:], types[1:], strict=True):
            if t.dtype not in allowed or t.dtype is not types[1].dtype:
                raise TypeError(
                    f"{name} is {t.dtype.full_name}, which is incompatible with data of {types[0].dtype.full_name}"
                )

    def _update(self, b: MxBuilder, moving: list[Value], new: tuple[Value, Value], momentum: float) -> None:
        for state, value in zip(moving, new, strict=False):
            b.update_in_backward(state, b.add(b.mul(state, momentum), b.mul(value, 1 - momentum)))

    def decompose(self, b: MxBuilder, *inputs: Value) -> Three:
        return self.normalize(b, inputs)


def _moments(b: MxBuilder, x: Value, axes: tuple[int, ...]) -> tuple[Value, Value]:
    """Mean and biased variance over `axes`."""
    mean = b.mean(x, axes)
    kept = tuple(i for i in range(x.type.rank) if i not in axes)
    centred = b.sub(x, b.broadcast(mean, x.type.shape, kept))
    return mean, b.mean(b.square(centred), axes)


class _Normalized:
    """x minus its mean over `axes`, divided by its standard deviation.

    If `exact`, the mean of equal elements is exactly such an element: the mean of what is left after a first
    subtraction corrects the rounding error of the sum.
    """

    def __init__(self, axes: tuple[int, ...], eps: float, exact: bool = True) -> None:
        self.axes, self.eps, self.exact = axes, eps, exact

    def __call__(self, b: MxBuilder, x: Value) -> Three:
        """The result, and without gradients the mean and the biased variance plus eps, without the axes."""
        normal, mean, var = b.custom_gradient(self._forward, self._gradient, x)
        return normal, mean, var

    def _forward(self, b: MxBuilder, x: Value) -> Three:
        mean, var = self._moments(b, x)
        var = b.add(var, self.eps)
        return b.mul(b.sub(x, self._along(b, mean, x)), self._along(b, b.rsqrt(var), x)), mean, var

    def _moments(self, b: MxBuilder, x: Value) -> tuple[Value, Value]:
        mean, var = _moments(b, x, self.axes)
        if not self.exact:
            return mean, var
        left = b.mean(b.sub(x, self._along(b, mean, x)), self.axes)
        return b.add(mean, left), b.maximum(b.sub(var, b.square(left)), 0)

    def _along(self, b: MxBuilder, number: Value, x: Value) -> Value:
        """A number for each mean, broadcast to the shape of x."""
        return b.broadcast(number, x.type.shape, tuple(i for i in range(x.type.rank) if i not in self.axes))

    def _gradient(
        self, b: MxBuilder, operands: Sequence[Value], results: object, cotangents: Sequence[Value]
    ) -> list[Value]:
        """Means are subtracted before anything is multiplied, so that nothing is left of a constant cotangent. The
        result is computed again, so that the gradient can be differentiated by x."""
        (x,), g = operands, cotangents[0]
        normal, _, var = self._forward(b, x)
        rest = b.sub(g, self._along(b, b.mean(g, self.axes), x))
        slope = b.mean(b.mul(g, normal), self.axes)
        return [b.mul(b.sub(rest, b.mul(normal, self._along(b, slope, x))), self._along(b, b.rsqrt(var), x))]


@operator("BatchNorm", aliases=("_npx_batch_norm",))
class BatchNorm(_BatchNormBase):
    """Batch normalization: normalizes each channel to mean beta and standard deviation gamma.

        output = (data - mean) / sqrt(var + eps) * gamma + beta

    In training, mean and variance are computed from the batch, and the stored statistics are updated:

        moving = momentum * moving + (1 - momentum) * batch

    Otherwise, and with `use_global_stats`, the stored statistics are used.

    Args:
        axis: The axis of the channels.
    Returns:
        output: An array of data's shape.
        mean: (C,), with `output_mean_var`.
        var: (C,), 1 / sqrt(var + eps), with `output_mean_var`.
    Example:
        >>> x, one, zero = nd.array([[1, 5], [3, 9]]), nd.ones((2,)), nd.zeros((2,))
        >>> nd.BatchNorm(x, one, zero, nd.array([2, 7]), nd.array([4, 4]), eps=0).asnumpy()
        array([[-0.5, -1. ],
               [ 0.5,  1. ]], dtype=float32)
    """

    eps: Float = 0.0010000000474974513
    momentum: Float = 0.899999976
    fix_gamma: Bool = True
    use_global_stats: Bool = False
    output_mean_var: Bool = False
    axis: Int = 1
    cudnn_off: Bool = False
    min_calib_range: OptionalFloat = None
    max_calib_range: OptionalFloat = None


@operator("_contrib_BatchNormWithReLU")
class BatchNormWithReLU(BatchNorm):
    """Batch normalization followed by max(x, 0); see BatchNorm."""

    def decompose(self, b: MxBuilder, *inputs: Value) -> Three:
        y, mean, inverse = self.normalize(b, inputs)
        return relu(b, y), mean, inverse


@operator("BatchNorm_v1")
class BatchNormV1(_BatchNormBase):
    """The first version of batch normalization, for old models: the output `var` is the variance itself."""

    keeps_variance = True
    eps: Float = 0.00100000005
    momentum: Float = 0.899999976
    fix_gamma: Bool = True
    use_global_stats: Bool = False
    output_mean_var: Bool = False


@operator("_contrib_SyncBatchNorm")
class SyncBatchNorm(_BatchNormBase):
    """Batch normalization with statistics over the batches of all workers, each of which has one device. The output
    `var` is the variance itself; the other results are those of BatchNorm.

    Args:
        ndev: Number of workers: 1, or all of them. In training with another number a run fails.
        key: Unused: workers exchange statistics in the order of their calls.
    """

    keeps_variance = True
    eps: Float = 0.00100000005
    momentum: Float = 0.899999976
    fix_gamma: Bool = True
    use_global_stats: Bool = False
    output_mean_var: Bool = False
    ndev: Int = 1
    key: Text

    def _by_batch(self, b: MxBuilder, x: Value, gamma: Value, beta: Value) -> Three:
        if self.ndev <= 1:
            return super()._by_batch(b, x, gamma, beta)
        mean, var = _moments(b, x, self._reduced(x))
        number = b.constant(prod(x.type.shape[k] for k in self._reduced(x)), mean.type.dtype)
        mean, var = b.host_callback(GroupMoments(self.ndev), [mean.type, var.type], mean, var, number)
        return self._affine(b, x, gamma, beta, mean, var), mean, var

    def _batch_gradient(
        self, b: MxBuilder, operands: Sequence[Value], results: Any, cotangents: Sequence[Value]
    ) -> list[Value | None]:
        """The gradient by this worker's x, and its part of those by gamma and beta. It has no gradient itself."""
        if self.ndev <= 1:
            return super()._batch_gradient(b, operands, results, cotangents)
        (x, gamma, _), (_, mean, var), g = operands, results, cotangents[0]
        axes, inverse = self._reduced(x), self._inverse(b, var)
        centred = b.sub(x, self._along(b, mean, x))
        own = b.sum(g, axes), b.sum(b.mul(g, centred), axes), b.sum(centred, axes)
        number = b.constant(prod(x.type.shape[k] for k in axes), mean.type.dtype)
        sums = b.host_callback(GroupSums(self.ndev), [*(v.type for v in own), number.type], *own, number)
        total, product, left, count = sums
        level = b.div(total, self._along_all(b, count, total))
        product = b.sub(product, b.mul(level, left))
        slope = b.div(b.mul(product, b.square(inverse)), self._along_all(b, count, product))
        rest = b.sub(b.sub(g, self._along(b, level, x)), b.mul(centred, self._along(b, slope, x)))
        gradient = b.mul(rest, self._along(b, self._scale(b, gamma, var), x))
        part = b.mul(b.sub(own[1], b.mul(level, own[2])), inverse)
        return [gradient, None if self.fix_gamma else part, own[0]]

    def _along_all(self, b: MxBuilder, number: Value, like: Value) -> Value:
        return b.broadcast(number, like.type.shape, ())


@operator("LayerNorm", aliases=("_npx_layer_norm",))
class LayerNorm(Operator):
    """Normalizes along one axis, then scales and shifts.

        output = (data - mean) / sqrt(var + eps) * gamma + beta, with mean and biased variance along `axis`

    Args:
        data: Array of any shape; n is its extent along `axis`.
        gamma: (n,), the scale.
        beta: (n,), the shift.
        axis: The normalized axis.
        eps: Added to the variance.
        output_mean_var: True to return mean and standard deviation as well.
    Returns:
        output: An array of data's shape.
        mean: Mean along `axis`, with `output_mean_var`.
        std: Standard deviation along `axis`, with `output_mean_var`.
    Example:
        >>> x = nd.array([[1, 3], [10, 30]])
        >>> nd.LayerNorm(x, nd.ones((2,)), nd.zeros((2,))).asnumpy().round(3)
        array([[-1.,  1.],
               [-1.,  1.]], dtype=float32)
    """

    inputs = ("data", "gamma", "beta")
    floats = True
    outputs = ("output", "mean", "std")
    axis: Int = -1
    eps: Float = 9.99999975e-06
    output_mean_var: Bool = False

    @property
    def visible_outputs(self) -> int:
        return 3 if self.output_mean_var else 1

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        inputs[0] = outputs[0] = data = unify(inputs[0], outputs[0])
        if data is None:
            return
        axis = normalize_axis(self.axis, len(data))
        unify_at(inputs, 1, (data[axis],))
        unify_at(inputs, 2, (data[axis],))

    def decompose(self, b: MxBuilder, *inputs: Value) -> Three:
        data, gamma, beta = inputs
        x = _wide(b, data)
        shape = x.type.shape
        axis = normalize_axis(self.axis, len(shape))
        normal, *moments = _Normalized((axis,), self.eps, exact=False)(b, x)
        mean, var = (b.reshape(v, tuple(1 if i == axis else n for i, n in enumerate(shape))) for v in moments)
        y = _affine(b, normal, gamma, beta, axis)
        dtype = data.type.dtype
        return b.cast(y, dtype), *_constants(b, self.output_mean_var, b.cast(mean, dtype), b.cast(b.sqrt(var), dtype))


def _affine(b: MxBuilder, x: Value, gamma: Value, beta: Value, axis: int) -> Value:
    """x * gamma + beta, with vectors along one axis."""
    scale, shift = (b.broadcast_along(b.cast(v, x.type.dtype), x.type.shape, axis) for v in (gamma, beta))
    return b.add(b.mul(x, scale), shift)


@operator("GroupNorm")
class GroupNorm(Operator):
    """Normalizes over groups of channels and all positions, then scales and shifts.

        output = (data - mean) / sqrt(var + eps) * gamma + beta, with mean and variance of each group of each instance

    Args:
        data: (N, C, ...); C is a multiple of `num_groups`.
        gamma: (num_groups,), the scale of each group.
        beta: (num_groups,), the shift of each group.
        num_groups: Number of groups.
        eps: Added to the variance.
        output_mean_var: True to return mean and standard deviation as well.
    Returns:
        output: An array of data's shape.
        mean: (N, num_groups), with `output_mean_var`.
        std: (N, num_groups), with `output_mean_var`.
    Example:
        >>> x = nd.array([[[1, 3], [10, 30]]])
        >>> nd.GroupNorm(x, nd.ones((2,)), nd.zeros((2,)), num_groups=2).asnumpy().round(3)
        array([[[-1.,  1.],
                [-1.,  1.]]], dtype=float32)
    """

    inputs = ("data", "gamma", "beta")
    floats = True
    outputs = ("output", "mean", "std")
    num_groups: Positive = 1
    eps: Float = 9.99999975e-06
    output_mean_var: Bool = False

    @property
    def visible_outputs(self) -> int:
        return 3 if self.output_mean_var else 1

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        inputs[0] = outputs[0] = unify(inputs[0], outputs[0])
        unify_at(inputs, 1, (self.num_groups,))
        unify_at(inputs, 2, (self.num_groups,))

    def decompose(self, b: MxBuilder, *inputs: Value) -> Three:
        data, gamma, beta = inputs
        shape = data.type.shape
        if shape[1] % self.num_groups:
            raise ValueError(f"{shape[1]} channels are not divisible by num_groups={self.num_groups}")
        grouped: Shape = (shape[0], self.num_groups, prod(shape[1:]) // self.num_groups)
        x = b.reshape(_wide(b, data), grouped)
        normal, mean, var = _Normalized((2,), self.eps)(b, x)
        std = b.sqrt(var)
        y = b.reshape(_affine(b, normal, gamma, beta, 1), shape)
        dtype = data.type.dtype
        return b.cast(y, dtype), *_constants(b, self.output_mean_var, b.cast(mean, dtype), b.cast(std, dtype))


@operator("InstanceNorm")
class InstanceNorm(Operator):
    """Normalizes each channel of each instance over its positions, then scales and shifts.

        output = (data - mean) / sqrt(var + eps) * gamma + beta, with mean and variance over the spatial axes

    Args:
        data: (N, C, *spatial).
        gamma: (C,), the scale.
        beta: (C,), the shift.
        eps: Added to the variance.
    Returns:
        An array of data's shape.
    Example:
        >>> x = nd.array([[[1, 3], [10, 30]]])
        >>> nd.InstanceNorm(x, nd.ones((2,)), nd.zeros((2,)), eps=0).asnumpy()
        array([[[-1.,  1.],
                [-1.,  1.]]], dtype=float32)
    """

    inputs = ("data", "gamma", "beta")
    floats = True
    eps: Float = 0.00100000005

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        inputs[0] = outputs[0] = data = unify(inputs[0], outputs[0])
        if data is not None:
            unify_at(inputs, 1, (data[1],))
            unify_at(inputs, 2, (data[1],))

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        data, gamma, beta = inputs
        x = _wide(b, data)
        normal, _, _ = _Normalized(tuple(range(2, x.type.rank)), self.eps)(b, x)
        return b.cast(_affine(b, normal, gamma, beta, 1), data.type.dtype)


@operator("L2Normalization")
class L2Normalization(Elementwise):
    """Divides by a Euclidean norm.

        output = data / sqrt(sum(data^2) + eps)

    Args:
        data: (N, C, ...).
        eps: Added to the sum of squares.
        mode: The axes of the sum: "instance" all elements of an instance, "channel" the channels at each position,
            "spatial" the positions of each channel.
    Returns:
        An array of data's shape.
    Example:
        >>> nd.L2Normalization(nd.array([[3, 4]])).asnumpy()
        array([[0.6, 0.8]], dtype=float32)
    """

    eps: Float = 1.00000001e-10
    mode: Literal["channel", "instance", "spatial"] = "instance"

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        super().complete(inputs, outputs)
        shape = inputs[0]
        if self.mode != "instance" and shape is not None and len(shape) < 3:
            raise ValueError(f"mode={self.mode!r}: data must have at least 3 axes, got shape {shape}")

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x = inputs[0]
        first = 2 if self.mode == "spatial" else 1
        axes = (1,) if self.mode == "channel" else tuple(range(first, x.type.rank))
        total = b.sum(b.square(x), axes, keepdims=True)
        return b.mul(x, b.broadcast_to(b.rsqrt(b.add(total, self.eps)), x.type.shape))


@operator("LRN")
class LRN(Elementwise):
    """Divides by a power of the sum of squares of neighbouring channels (local response normalization).

        output[c] = data[c] / (knorm + alpha / nsize * sum_{|k - c| <= nsize / 2} data[k]^2) ^ beta

    Args:
        data: (N, C, H, W).
        alpha: Factor of the sum of squares.
        beta: The exponent.
        knorm: The constant under the power.
        nsize: Number of neighbouring channels, an odd number.
    Returns:
        An array of data's shape.
    Example:
        >>> nd.LRN(nd.ones((1, 1, 1, 2)), nsize=1, alpha=2, beta=1, knorm=2).asnumpy()
        array([[[[0.25, 0.25]]]], dtype=float32)
    """

    floats = True

    outputs = ("output", "tmp_norm")
    hidden = 1
    alpha: Float = 9.99999975e-05
    beta: Float = 0.75
    knorm: Float = 2.0
    nsize: Positive

    def decompose(self, b: MxBuilder, *inputs: Value) -> tuple[Value, Value]:
        x = inputs[0]
        rank, half = x.type.rank, (self.nsize - 1) // 2  # an even nsize covers one channel less, as in MXNet
        if rank != 4:
            raise ValueError(f"data must have 4 axes, got shape {x.type.shape}")
        total = b.reduce_window(
            ReduceOp.ADD,
            b.square(x),
            window=(1, 2 * half + 1, *(1,) * (rank - 2)),
            strides=(1,) * rank,
            padding=((0, 0), (half, half), *((0, 0),) * (rank - 2)),
        )
        norm = b.add(b.mul(total, self.alpha / self.nsize), self.knorm)
        return b.mul(x, self._power(b, norm)), norm

    def _power(self, b: MxBuilder, norm: Value) -> Value:
        """norm ^ -beta; the usual exponent by roots, which take a tenth of the time."""
        if self.beta != 0.75:
            return b.pow(norm, -self.beta)
        root = b.sqrt(norm)
        return b.div(1, b.mul(root, b.sqrt(root)))
