"""Convolution and its transpose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...graph import Value
from ...types import Shape
from .operator import Operator, operator
from .parameters import Bool, ConvLayout, CudnnTune, ImageLayout, Ints, Natural, Positive
from .shapes import UNKNOWN, Extents, PartialShape, check_layout, check_window, unify_at

if TYPE_CHECKING:
    from .builder import MxBuilder


def is_channels_last(layout: str | None) -> bool:
    """True if the channel is the last axis of arrays with this layout."""
    return layout is not None and layout.endswith("C")


def channels_first(b: MxBuilder, x: Value) -> Value:
    """N, *spatial, C -> N, C, *spatial."""
    rank = x.type.rank
    return b.transpose(x, (0, rank - 1, *range(1, rank - 1)))


def channels_last(b: MxBuilder, x: Value) -> Value:
    """N, C, *spatial -> N, *spatial, C."""
    return b.transpose(x, (0, *range(2, x.type.rank), 1))


def add_channel_bias(b: MxBuilder, y: Value, bias: list[Value]) -> Value:
    return b.add(y, b.broadcast_along(bias[0], y.type.shape, 1)) if bias else y


class _ConvolutionBase(Operator):
    """Shared arguments of several operators.

    Args:
        kernel: Extents of the window, one per spatial axis: (w,), (h, w) or (d, h, w).
        stride: Steps of the window along the spatial axes; 1 by default.
        dilate: Distances between the elements of the window; 1 by default.
        pad: Zeros added on both sides of each spatial axis; 0 by default.
        num_filter: Number of output channels.
        num_group: Number of groups into which channels are split; groups are computed independently.
        no_bias: True to leave out the bias.
        layout: Order of the axes of data; by default NCW, NCHW or NCDHW. With the channel last, the channel axis of
            the weight is last too.
    """

    if TYPE_CHECKING:  # each subclass declares these at MXNet's own place
        no_bias: bool
        layout: Any

    inputs = ("data", "weight", "bias?")
    kernel: Ints
    stride: Ints = ()
    dilate: Ints = ()
    pad: Ints = ()

    def has_input(self, name: str) -> bool:
        return not self.no_bias

    def check(self) -> None:
        rank = len(self.kernel)
        if not 1 <= rank <= 3:
            raise ValueError(f"{self.mx_name()}: kernel={self.kernel}: must have 1 to 3 numbers")
        windows = {"kernel": self.kernel, "stride": self.stride, "dilate": self.dilate, "pad": self.pad}
        check_window(self.mx_name(), rank, **windows)
        check_layout(self.mx_name(), self.layout, rank)

    def check_rank(self, data: PartialShape) -> None:
        """ValueError if data does not have batch, channels and one axis per axis of the kernel."""
        if data is not None and len(data) != len(self.kernel) + 2:
            raise ValueError(f"data should have {len(self.kernel) + 2} axes for kernel={self.kernel}, got {data}")

    @property
    def strides(self) -> Shape:
        return self.stride or (1,) * len(self.kernel)

    @property
    def dilation(self) -> Shape:
        return self.dilate or (1,) * len(self.kernel)

    @property
    def padding(self) -> Shape:
        return self.pad or (0,) * len(self.kernel)

    @property
    def extents(self) -> Shape:
        """Extents of the dilated kernel."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation, strict=True))


class _Convolution(_ConvolutionBase):
    """Shared arguments of several operators.

    Args:
        data: (N, C, *spatial), or with the axes in the order of `layout`.
        weight: (num_filter, C / num_group, *kernel).
        bias: (num_filter,); absent with `no_bias`.
    """

    num_filter: Positive
    num_group: Positive = 1
    workspace: Natural = 1024
    no_bias: Bool = False
    cudnn_tune: CudnnTune = None
    cudnn_off: Bool = False

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        last = is_channels_last(self.layout)
        data, out = inputs[0], outputs[0]
        if data is None:
            return
        unify_at(inputs, 2, (self.num_filter,))
        self.check_rank(data)
        channels = (data[-1] if last else data[1]) // self.num_group
        weight = (self.num_filter, *self.kernel, channels) if last else (self.num_filter, channels, *self.kernel)
        unify_at(inputs, 1, weight)
        spatial = self._output_extents(data[1:-1] if last else data[2:])
        unify_at(outputs, 0, (data[0], *spatial, self.num_filter) if last else (data[0], self.num_filter, *spatial))
        if out is not None:
            spatial = self._input_extents(out[1:-1] if last else out[2:])
            unify_at(inputs, 0, (out[0], *spatial, data[-1]) if last else (out[0], data[1], *spatial))

    def _input_extents(self, spatial: Extents) -> Extents:
        """The extents of data that follow from the result's: known if the stride is 1."""
        sizes = zip(spatial, self.padding, self.extents, self.strides, strict=True)
        return tuple(n + (k - 1 - 2 * p) if s == 1 else UNKNOWN for n, p, k, s in sizes)

    def _output_extents(self, spatial: Extents) -> Extents:
        sizes = list(zip(spatial, self.padding, self.extents, self.strides, strict=True))
        for n, p, k, _ in sizes:
            if n is not UNKNOWN and k > n + 2 * p:
                raise ValueError(f"kernel size ({k}) exceeds input ({n} padded to {n + 2 * p})")
        return tuple((n + 2 * p - k) // s + 1 for n, p, k, s in sizes)

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x, w, *bias = inputs
        last = is_channels_last(self.layout)
        if last:
            x, w = channels_first(b, x), channels_first(b, w)
        padding = tuple((p, p) for p in self.padding)
        y = b.conv(x, w, strides=self.strides, padding=padding, rhs_dilation=self.dilation, groups=self.num_group)
        y = add_channel_bias(b, y, bias)
        return channels_last(b, y) if last else y


@operator("Convolution", aliases=("_npx_convolution",))
class Convolution(_Convolution):
    """Convolves data with a set of filters, in one, two or three dimensions.

        output[n, o, i, j] = bias[o]
            + sum_{c, y, x} data[n, c, i * stride + y * dilate - pad, ...] * weight[o, c, y, x]

    An output extent is floor((n + 2 * pad - dilate * (kernel - 1) - 1) / stride) + 1.

    Returns:
        (N, num_filter, *output extents), or with the axes in the order of `layout`.
    Example:
        >>> x, w = nd.ones((1, 3, 8, 8)), nd.ones((4, 3, 3, 3))
        >>> nd.Convolution(x, w, kernel=(3, 3), num_filter=4, pad=(1, 1), stride=(2, 2), no_bias=True).shape
        (1, 4, 4, 4)
    """

    layout: ConvLayout = None


@operator("Convolution_v1")
class ConvolutionV1(_Convolution):
    """The first version of Convolution, for old models."""

    layout: ImageLayout = None


@operator("Deconvolution", aliases=("_npx_deconvolution",))
class Deconvolution(_ConvolutionBase):
    """Transposed convolution: enlarges data with a set of filters.

        output extent = (n - 1) * stride + dilate * (kernel - 1) + 1 - 2 * pad + adj

    Args:
        data: (N, C, *spatial).
        weight: (C, num_filter / num_group, *kernel).
        bias: (num_filter,); absent with `no_bias`, which is the default.
        adj: Extra extent at the end of each spatial axis of the output, less than the stride; 0 by default.
        target_shape: Spatial extents of the output. If passed, `pad` and `adj` follow from it.
    Returns:
        (N, num_filter, *output extents).
    Example:
        >>> x, w = nd.ones((1, 3, 4, 4)), nd.ones((3, 2, 2, 2))
        >>> nd.Deconvolution(x, w, kernel=(2, 2), num_filter=2, stride=(2, 2)).shape
        (1, 2, 8, 8)
    """

    adj: Ints = ()
    target_shape: Ints = ()
    num_filter: Positive
    num_group: Positive = 1
    workspace: Natural = 512
    no_bias: Bool = True
    cudnn_tune: CudnnTune = None
    cudnn_off: Bool = False
    layout: ConvLayout = None

    def check(self) -> None:
        super().check()
        check_window(self.mx_name(), len(self.kernel), adj=self.adj, target_shape=self.target_shape)
        if not self.target_shape and any(a >= s for a, s in zip(self.adj, self.strides, strict=False)):
            raise ValueError(f"Deconvolution: adj={self.adj}: must be less than stride={self.strides}")

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        last = is_channels_last(self.layout)
        per_group = self.num_filter // self.num_group
        data = inputs[0]
        if data is None:
            return
        unify_at(inputs, 2, (self.num_filter,))
        self.check_rank(data)
        channels = data[-1] if last else data[1]
        weight = (channels, *self.kernel, per_group) if last else (channels, per_group, *self.kernel)
        unify_at(inputs, 1, weight)

    def _padding(self, spatial: Shape) -> list[tuple[int, int]]:
        """Padding and adjustment of each spatial axis."""
        adj = self.adj or (0,) * len(self.kernel)
        if not any(self.target_shape):
            return list(zip(self.padding, adj, strict=True))
        padding: list[tuple[int, int]] = []
        for n, k, s, target in zip(spatial, self.extents, self.strides, self.target_shape, strict=True):
            surplus = s * (n - 1) + k - target
            if surplus < 0:
                raise ValueError(f"target_shape {self.target_shape} is too large for input {spatial}")
            padding.append(((surplus + 1) // 2, surplus % 2))
        return padding

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        x, w, *bias = inputs
        last = is_channels_last(self.layout)
        if last:
            x, w = channels_first(b, x), channels_first(b, w)
        sizes = list(zip(x.type.shape[2:], self._padding(x.type.shape[2:]), self.extents, self.strides, strict=True))
        for n, (p, a), k, s in sizes:
            if n and s * (n - 1) + k - 2 * p + a < 1:
                raise ValueError(f"pad={self.padding} leaves an empty output for an input of {x.type.shape[2:]}")
        padding = tuple((k - 1 - p, k - 1 - p + a) for _, (p, a), k, _ in sizes)
        ones = (1,) * len(self.kernel)
        y = b.conv(
            x,
            self._flipped(b, w),
            strides=ones,
            padding=padding,
            lhs_dilation=self.strides,
            rhs_dilation=self.dilation,
            groups=self.num_group,
        )
        y = add_channel_bias(b, y, bias)
        return channels_last(b, y) if last else y

    def _flipped(self, b: MxBuilder, w: Value) -> Value:
        """(C, F/g, *k) -> (F, C/g, *k), reversed along the spatial axes: the weight of the equivalent convolution."""
        channels, per_group, *kernel = w.type.shape
        groups, rank = self.num_group, w.type.rank
        split = b.reshape(w, (groups, channels // groups, per_group, *kernel))
        swapped = b.transpose(split, (0, 2, 1, *range(3, rank + 1)))
        joined = b.reshape(swapped, (groups * per_group, channels // groups, *kernel))
        return b.reverse(joined, tuple(range(2, rank)))
