"""Cells with convolutional gates on images (Xingjian et al. 2015)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from .base_cell import BaseRNNCell, RNNParams, Sym, ops
from .cells import gru_step, lstm_step

_Pair = tuple[int, int]
_leaky = partial(ops.LeakyReLU, act_type="leaky", slope=0.2)


class BaseConvRNNCell(BaseRNNCell):
    """A cell on images of `input_shape`, in `conv_layout`. Subclasses define the step."""

    def __init__(
        self,
        input_shape: tuple[int, ...],
        num_hidden: int,
        h2h_kernel: _Pair,
        h2h_dilate: _Pair,
        i2h_kernel: _Pair,
        i2h_stride: _Pair,
        i2h_pad: _Pair,
        i2h_dilate: _Pair,
        i2h_weight_initializer: Any,
        h2h_weight_initializer: Any,
        i2h_bias_initializer: Any,
        h2h_bias_initializer: Any,
        activation: Any,
        prefix: str = "",
        params: RNNParams | None = None,
        conv_layout: str = "NCHW",
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        if not (h2h_kernel[0] % 2 and h2h_kernel[1] % 2):
            raise AssertionError(f"Only support odd number, get h2h_kernel= {h2h_kernel}")
        self._num_hidden, self._input_shape, self._conv_layout = num_hidden, input_shape, conv_layout
        self._activation = activation
        pad = tuple(d * (k - 1) // 2 for d, k in zip(h2h_dilate, h2h_kernel, strict=True))
        self._h2h: dict[str, Any] = {"kernel": h2h_kernel, "dilate": h2h_dilate, "pad": pad, "stride": (1, 1)}
        self._i2h: dict[str, Any] = {"kernel": i2h_kernel, "stride": i2h_stride, "pad": i2h_pad, "dilate": i2h_dilate}
        image = ops.Convolution(ops.Variable("data"), num_filter=num_hidden, layout=conv_layout, **self._i2h)
        shape = (image.infer_shape(data=input_shape)[1] or [()])[0]
        self._state_shape = (0, *shape[1:])
        self._iW = self.params.get("i2h_weight", init=i2h_weight_initializer)
        self._hW = self.params.get("h2h_weight", init=h2h_weight_initializer)
        self._iB = self.params.get("i2h_bias", init=i2h_bias_initializer)
        self._hB = self.params.get("h2h_bias", init=h2h_bias_initializer)

    @property
    def _num_gates(self) -> int:
        return len(self._gate_names)

    @property
    def state_info(self) -> list[dict[str, Any]]:
        return [{"shape": self._state_shape, "__layout__": self._conv_layout} for _ in range(2)]

    def _conv_forward(self, inputs: Sym, states: list[Sym], name: str) -> tuple[Sym, Sym]:
        """The convolutions of the input and of the state. Their channels contain all gates."""
        common: dict[str, Any] = {"num_filter": self._num_hidden * self._num_gates, "layout": self._conv_layout}
        i2h = ops.Convolution(inputs, self._iW, self._iB, name=f"{name}i2h", **common, **self._i2h)
        h2h = ops.Convolution(states[0], self._hW, self._hB, name=f"{name}h2h", **common, **self._h2h)
        return i2h, h2h

    def _step(self, inputs: Sym, states: list[Sym]) -> tuple[str, Sym, Sym]:
        self._counter += 1
        name = f"{self._prefix}t{self._counter}_"
        return name, *self._conv_forward(inputs, states, name)

    def _activate(self, x: Sym, **options: Any) -> Sym:
        return self._get_activation(x, self._activation, **options)

    def __call__(self, inputs: Sym, states: list[Sym]) -> tuple[Sym, list[Any]]:
        raise NotImplementedError("BaseConvRNNCell is abstract class for convolutional RNN")


class _ConvCell(BaseConvRNNCell):
    """The constructor of the cells, which differ in their default prefix."""

    _PREFIX = ""

    def __init__(
        self,
        input_shape: tuple[int, ...],
        num_hidden: int,
        h2h_kernel: _Pair = (3, 3),
        h2h_dilate: _Pair = (1, 1),
        i2h_kernel: _Pair = (3, 3),
        i2h_stride: _Pair = (1, 1),
        i2h_pad: _Pair = (1, 1),
        i2h_dilate: _Pair = (1, 1),
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        activation: Any = _leaky,
        prefix: str | None = None,
        params: RNNParams | None = None,
        conv_layout: str = "NCHW",
    ) -> None:
        super().__init__(
            input_shape, num_hidden, h2h_kernel, h2h_dilate, i2h_kernel, i2h_stride, i2h_pad, i2h_dilate,
            i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer, activation,
            self._PREFIX if prefix is None else prefix, params, conv_layout,
        )  # fmt: skip


class ConvRNNCell(_ConvCell):
    """activation(W * x + R * h + b), where * is a convolution."""

    _PREFIX = "ConvRNN_"

    @property
    def _gate_names(self) -> Sequence[str]:
        return ("",)

    @property
    def state_info(self) -> list[dict[str, Any]]:
        return super().state_info[:1]

    def __call__(self, inputs: Sym, states: list[Sym]) -> tuple[Sym, list[Any]]:
        name, i2h, h2h = self._step(inputs, states)
        output = self._activate(i2h + h2h, name=f"{name}out")
        return output, [output]


class ConvLSTMCell(_ConvCell):
    """An LSTM with convolutions."""

    _PREFIX = "ConvLSTM_"

    @property
    def _gate_names(self) -> Sequence[str]:
        return ["_i", "_f", "_c", "_o"]

    def __call__(self, inputs: Sym, states: list[Sym]) -> tuple[Sym, list[Any]]:
        name, i2h, h2h = self._step(inputs, states)
        return lstm_step(self, name, i2h + h2h, states, self._activate, self._conv_layout.find("C"))


class ConvGRUCell(_ConvCell):
    """A GRU with convolutions."""

    _PREFIX = "ConvGRU_"

    @property
    def _gate_names(self) -> Sequence[str]:
        return ["_r", "_z", "_o"]

    @property
    def state_info(self) -> list[dict[str, Any]]:
        return super().state_info[:1]

    def __call__(self, inputs: Sym, states: list[Sym]) -> tuple[Sym, list[Any]]:
        name, i2h, h2h = self._step(inputs, states)
        return gru_step(name, i2h, h2h, states[0], self._activate)
