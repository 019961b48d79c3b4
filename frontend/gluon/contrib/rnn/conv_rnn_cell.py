"""Recurrent cells with convolutions in place of matrix products, over one, two and three spatial axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ....base import numeric_types
from ...rnn.recurrent_cell import HybridRecurrentCell

__all__ = [
    "Conv1DGRUCell",
    "Conv1DLSTMCell",
    "Conv1DRNNCell",
    "Conv2DGRUCell",
    "Conv2DLSTMCell",
    "Conv2DRNNCell",
    "Conv3DGRUCell",
    "Conv3DLSTMCell",
    "Conv3DRNNCell",
]

Sizes = int | Sequence[int]
Shape = tuple[int, ...]


def _sizes(value: Sizes, dimensions: int) -> tuple[int, ...]:
    """One number for each spatial axis."""
    sizes = (value,) * dimensions if isinstance(value, numeric_types) else tuple(value)
    if len(sizes) != dimensions:
        raise AssertionError(
            f"For {dimensions}D convolution, the convolution settings can only be either int or list/tuple of length "
            f"{dimensions}, not {value}"
        )
    return sizes  # type: ignore[return-value]


def _get_conv_out_size(
    dimensions: Sequence[int], kernels: Sequence[int], paddings: Sequence[int], dilations: Sequence[int]
) -> tuple[int, ...]:
    """The spatial extents of a convolution's result with stride 1. An unknown extent is 0, in operand and result."""
    options = zip(dimensions, kernels, paddings, dilations, strict=True)
    return tuple(size + 2 * pad - dilate * (kernel - 1) if size else 0 for size, kernel, pad, dilate in options)


class _BaseConvRNNCell(HybridRecurrentCell):
    """A cell with convolutional gates on inputs of shape `input_shape` (without the batch axis).

    The extents of the recurrent kernel are odd and it is padded, so that a step does not change the states' extents.
    """

    _gate_names: ClassVar[Sequence[str]] = ("",)
    _states = 1

    def __init__(
        self,
        input_shape: Sequence[int],
        hidden_channels: int,
        i2h_kernel: Sizes,
        h2h_kernel: Sizes,
        i2h_pad: Sizes,
        i2h_dilate: Sizes,
        h2h_dilate: Sizes,
        i2h_weight_initializer: Any,
        h2h_weight_initializer: Any,
        i2h_bias_initializer: Any,
        h2h_bias_initializer: Any,
        dims: int,
        conv_layout: str,
        activation: Any,
        prefix: str | None = None,
        params: Any = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        self._hidden_channels, self._input_shape = hidden_channels, input_shape
        self._conv_layout, self._activation = conv_layout, activation
        self._stride = (1,) * dims
        self._i2h_kernel, self._h2h_kernel = _sizes(i2h_kernel, dims), _sizes(h2h_kernel, dims)
        self._i2h_dilate, self._h2h_dilate = _sizes(i2h_dilate, dims), _sizes(h2h_dilate, dims)
        self._i2h_pad = _sizes(i2h_pad, dims)
        if any(k % 2 == 0 for k in self._h2h_kernel):
            raise AssertionError(f"Only support odd number, get h2h_kernel= {h2h_kernel}")
        decided = self._decide_shapes()
        self._channel_axis, self._in_channels, i2h_shape, h2h_shape, self._h2h_pad, self._state_shape = decided
        rows = (hidden_channels * self._num_gates,)
        shapes = {"i2h_weight": i2h_shape, "h2h_weight": h2h_shape, "i2h_bias": rows, "h2h_bias": rows}
        initializers = (i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer)
        self._make_parameters(shapes, dict(zip(shapes, initializers, strict=True)))

    @property
    def _num_gates(self) -> int:
        return len(self._gate_names)

    def _decide_shapes(self) -> tuple[int, int, Shape, Shape, Shape, Shape]:
        """The channel axis, the channels of the input, the shapes of both weights, the padding of the recurrent
        convolution, and the shape of the states."""
        axis, hidden = self._conv_layout.find("C"), self._hidden_channels
        channels = self._input_shape[axis - 1]
        spatial = self._input_shape[1:] if axis == 1 else self._input_shape[:-1]
        extents = _get_conv_out_size(spatial, self._i2h_kernel, self._i2h_pad, self._i2h_dilate)
        h2h_pad = tuple(d * (k - 1) // 2 for d, k in zip(self._h2h_dilate, self._h2h_kernel, strict=True))

        def shape(count: int, sizes: Shape) -> Shape:
            return (count, *sizes) if axis == 1 else (*sizes, count)

        rows = hidden * self._num_gates
        i2h_shape, h2h_shape = (rows, *shape(channels, self._i2h_kernel)), (rows, *shape(hidden, self._h2h_kernel))
        return axis, channels, i2h_shape, h2h_shape, h2h_pad, shape(hidden, extents)

    def __repr__(self) -> str:
        shape = self._reg_params["i2h_weight"].shape or (0, 0)
        channels = shape[1 if self._channel_axis == 1 else -1]
        return f"{type(self).__name__}({channels or None} -> {shape[0]}, {self._activation}, {self._conv_layout})"

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        shape = (batch_size, *self._state_shape)
        return [{"shape": shape, "__layout__": self._conv_layout} for _ in range(self._states)]

    def _conv_forward(
        self,
        F: Any,
        inputs: Any,
        states: Any,
        i2h_weight: Any,
        h2h_weight: Any,
        i2h_bias: Any,
        h2h_bias: Any,
        prefix: str,
    ) -> tuple[Any, Any]:
        """The convolution of the input, and that of the last output. `prefix` is that of their names."""
        options = {
            "num_filter": self._hidden_channels * self._num_gates,
            "stride": self._stride,
            "layout": self._conv_layout,
        }
        from_input = F.Convolution(
            data=inputs,
            weight=i2h_weight,
            bias=i2h_bias,
            kernel=self._i2h_kernel,
            pad=self._i2h_pad,
            dilate=self._i2h_dilate,
            name=prefix + "i2h",
            **options,
        )
        from_state = F.Convolution(
            data=states[0],
            weight=h2h_weight,
            bias=h2h_bias,
            kernel=self._h2h_kernel,
            pad=self._h2h_pad,
            dilate=self._h2h_dilate,
            name=prefix + "h2h",
            **options,
        )
        return from_input, from_state


class _ConvRNNCell(_BaseConvRNNCell):
    """h' = activation(W * x + b + R * h + c), where * is a convolution."""

    def _alias(self) -> str:
        return "conv_rnn"

    def hybrid_forward(  # type: ignore[override]
        self, F: Any, inputs: Any, states: Any, i2h_weight: Any, h2h_weight: Any, i2h_bias: Any, h2h_bias: Any
    ) -> Any:
        prefix = f"t{self._counter}_"
        i2h, h2h = self._conv_forward(F, inputs, states, i2h_weight, h2h_weight, i2h_bias, h2h_bias, prefix)
        output = self._get_activation(F, i2h + h2h, self._activation, name=prefix + "out")
        return output, [output]


class _ConvLSTMCell(_BaseConvRNNCell):
    """The convolutional LSTM of Shi et al. 2015."""

    _gate_names = ("_i", "_f", "_c", "_o")
    _states = 2

    def _alias(self) -> str:
        return "conv_lstm"

    def hybrid_forward(  # type: ignore[override]
        self, F: Any, inputs: Any, states: Any, i2h_weight: Any, h2h_weight: Any, i2h_bias: Any, h2h_bias: Any
    ) -> Any:
        prefix = f"t{self._counter}_"
        i2h, h2h = self._conv_forward(F, inputs, states, i2h_weight, h2h_weight, i2h_bias, h2h_bias, prefix)
        sliced = F.SliceChannel(i2h + h2h, num_outputs=4, name=prefix + "slice", axis=self._channel_axis)
        input_gate = F.Activation(sliced[0], act_type="sigmoid", name=prefix + "i")
        forget_gate = F.Activation(sliced[1], act_type="sigmoid", name=prefix + "f")
        candidate = self._get_activation(F, sliced[2], self._activation, name=prefix + "c")
        output_gate = F.Activation(sliced[3], act_type="sigmoid", name=prefix + "o")
        next_c = F.elemwise_add(forget_gate * states[1], input_gate * candidate, name=prefix + "state")
        next_h = F.elemwise_mul(output_gate, self._get_activation(F, next_c, self._activation), name=prefix + "out")
        return next_h, [next_h, next_c]


class _ConvGRUCell(_BaseConvRNNCell):
    """A gated recurrent unit with convolutions in place of matrix products."""

    _gate_names = ("_r", "_z", "_o")

    def _alias(self) -> str:
        return "conv_gru"

    def hybrid_forward(  # type: ignore[override]
        self, F: Any, inputs: Any, states: Any, i2h_weight: Any, h2h_weight: Any, i2h_bias: Any, h2h_bias: Any
    ) -> Any:
        prefix = f"t{self._counter}_"
        i2h, h2h = self._conv_forward(F, inputs, states, i2h_weight, h2h_weight, i2h_bias, h2h_bias, prefix)
        axis = self._channel_axis
        i2h_r, i2h_z, i2h = F.SliceChannel(i2h, num_outputs=3, name=prefix + "i2h_slice", axis=axis)
        h2h_r, h2h_z, h2h = F.SliceChannel(h2h, num_outputs=3, name=prefix + "h2h_slice", axis=axis)
        reset = F.Activation(i2h_r + h2h_r, act_type="sigmoid", name=prefix + "r_act")
        update = F.Activation(i2h_z + h2h_z, act_type="sigmoid", name=prefix + "z_act")
        candidate = self._get_activation(F, i2h + reset * h2h, self._activation, name=prefix + "h_act")
        next_h = F.elemwise_add((1.0 - update) * candidate, update * states[0], name=prefix + "out")
        return next_h, [next_h]


class _Conv1D(_BaseConvRNNCell):
    """Convolutions over one spatial axis."""

    def __init__(
        self,
        input_shape: Sequence[int],
        hidden_channels: int,
        i2h_kernel: Sizes,
        h2h_kernel: Sizes,
        i2h_pad: Sizes = (0,),
        i2h_dilate: Sizes = (1,),
        h2h_dilate: Sizes = (1,),
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        conv_layout: str = "NCW",
        activation: Any = "tanh",
        prefix: str | None = None,
        params: Any = None,
    ) -> None:
        super().__init__(
            input_shape,
            hidden_channels,
            i2h_kernel,
            h2h_kernel,
            i2h_pad,
            i2h_dilate,
            h2h_dilate,
            i2h_weight_initializer,
            h2h_weight_initializer,
            i2h_bias_initializer,
            h2h_bias_initializer,
            1,
            conv_layout,
            activation,
            prefix,
            params,
        )


class _Conv2D(_BaseConvRNNCell):
    """Convolutions over two spatial axes."""

    def __init__(
        self,
        input_shape: Sequence[int],
        hidden_channels: int,
        i2h_kernel: Sizes,
        h2h_kernel: Sizes,
        i2h_pad: Sizes = (0, 0),
        i2h_dilate: Sizes = (1, 1),
        h2h_dilate: Sizes = (1, 1),
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        conv_layout: str = "NCHW",
        activation: Any = "tanh",
        prefix: str | None = None,
        params: Any = None,
    ) -> None:
        super().__init__(
            input_shape,
            hidden_channels,
            i2h_kernel,
            h2h_kernel,
            i2h_pad,
            i2h_dilate,
            h2h_dilate,
            i2h_weight_initializer,
            h2h_weight_initializer,
            i2h_bias_initializer,
            h2h_bias_initializer,
            2,
            conv_layout,
            activation,
            prefix,
            params,
        )


class _Conv3D(_BaseConvRNNCell):
    """Convolutions over three spatial axes."""

    def __init__(
        self,
        input_shape: Sequence[int],
        hidden_channels: int,
        i2h_kernel: Sizes,
        h2h_kernel: Sizes,
        i2h_pad: Sizes = (0, 0, 0),
        i2h_dilate: Sizes = (1, 1, 1),
        h2h_dilate: Sizes = (1, 1, 1),
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        conv_layout: str = "NCDHW",
        activation: Any = "tanh",
        prefix: str | None = None,
        params: Any = None,
    ) -> None:
        super().__init__(
            input_shape,
            hidden_channels,
            i2h_kernel,
            h2h_kernel,
            i2h_pad,
            i2h_dilate,
            h2h_dilate,
            i2h_weight_initializer,
            h2h_weight_initializer,
            i2h_bias_initializer,
            h2h_bias_initializer,
            3,
            conv_layout,
            activation,
            prefix,
            params,
        )


class Conv1DRNNCell(_Conv1D, _ConvRNNCell):
    """Elman's cell on (batch, channels, width)."""


class Conv1DLSTMCell(_Conv1D, _ConvLSTMCell):
    """The LSTM cell on (batch, channels, width)."""


class Conv1DGRUCell(_Conv1D, _ConvGRUCell):
    """The gated recurrent unit on (batch, channels, width)."""


class Conv2DRNNCell(_Conv2D, _ConvRNNCell):
    """Elman's cell on (batch, channels, height, width)."""


class Conv2DLSTMCell(_Conv2D, _ConvLSTMCell):
    """The LSTM cell on (batch, channels, height, width)."""


class Conv2DGRUCell(_Conv2D, _ConvGRUCell):
    """The gated recurrent unit on (batch, channels, height, width)."""


class Conv3DRNNCell(_Conv3D, _ConvRNNCell):
    """Elman's cell on (batch, channels, depth, height, width)."""


class Conv3DLSTMCell(_Conv3D, _ConvLSTMCell):
    """The LSTM cell on (batch, channels, depth, height, width)."""


class Conv3DGRUCell(_Conv3D, _ConvGRUCell):
    """The gated recurrent unit on (batch, channels, depth, height, width)."""
