"""Symbolic cells: RNN, LSTM and GRU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import initializer
from .base_cell import BaseRNNCell, RNNParams, Sym, ops


def lstm_step(cell: BaseRNNCell, name: str, gates: Sym, states: list[Sym], activate: Any, axis: int) -> Any:
    """An LSTM step: the output and the new states.

    `gates` are the sums of the gates i, f, c and o, concatenated along `axis`. `activate(x, name=...)` is applied to
    the candidate c and to the new state.
    """
    options = {"axis": axis} if axis >= 0 else {}
    i, f, c, o = ops.SliceChannel(gates, num_outputs=4, name=f"{name}slice", **options)
    in_gate = ops.Activation(i, act_type="sigmoid", name=f"{name}i")
    forget_gate = ops.Activation(f, act_type="sigmoid", name=f"{name}f")
    in_transform = activate(c, name=f"{name}c")
    out_gate = ops.Activation(o, act_type="sigmoid", name=f"{name}o")
    old, new = forget_gate * states[1], in_gate * in_transform
    next_c = ops._internal._plus(old, new, name=f"{name}state")
    next_h = ops._internal._mul(out_gate, activate(next_c), name=f"{name}out")
    return next_h, [next_h, next_c]


def gru_step(name: str, i2h: Sym, h2h: Sym, state: Sym, activate: Any) -> Any:
    """A GRU step: the output and the new state. `i2h` and `h2h` are the products for the gates r, z and o,
    concatenated along axis 1. The reset gate is applied to `h2h`."""
    i2h_r, i2h_z, i2h_o = ops.SliceChannel(i2h, num_outputs=3, name=f"{name}_i2h_slice")
    h2h_r, h2h_z, h2h_o = ops.SliceChannel(h2h, num_outputs=3, name=f"{name}_h2h_slice")
    reset_gate = ops.Activation(i2h_r + h2h_r, act_type="sigmoid", name=f"{name}_r_act")
    update_gate = ops.Activation(i2h_z + h2h_z, act_type="sigmoid", name=f"{name}_z_act")
    new = activate(i2h_o + reset_gate * h2h_o, name=f"{name}_h_act")
    next_h = ops._internal._plus((1.0 - update_gate) * new, update_gate * state, name=f"{name}out")
    return next_h, [next_h]


class _DenseCell(BaseRNNCell):
    """A cell whose gates are sums of two fully connected layers, on the input and on the state."""

    _SUFFIX = ""

    def __init__(self, num_hidden: int, prefix: str, params: RNNParams | None, **bias: Any) -> None:
        super().__init__(prefix=prefix, params=params)
        self._num_hidden = num_hidden
        self._iW = self.params.get("i2h_weight")
        self._iB = self.params.get("i2h_bias", **bias)
        self._hW = self.params.get("h2h_weight")
        self._hB = self.params.get("h2h_bias")

    @property
    def state_info(self) -> list[dict[str, Any]]:
        return [{"shape": (0, self._num_hidden), "__layout__": "NC"}]

    def _products(self, inputs: Sym, state: Sym) -> tuple[str, Sym, Sym]:
        """The name prefix of this step, and both fully connected layers."""
        self._counter += 1
        name = f"{self._prefix}t{self._counter}_"
        size, suffix = self._num_hidden * len(self._gate_names), self._SUFFIX
        i2h = ops.FullyConnected(inputs, self._iW, self._iB, num_hidden=size, name=f"{name}{suffix}i2h")
        h2h = ops.FullyConnected(state, self._hW, self._hB, num_hidden=size, name=f"{name}{suffix}h2h")
        return name, i2h, h2h


class RNNCell(_DenseCell):
    """activation(W x + R h + b)."""

    def __init__(
        self, num_hidden: int, activation: Any = "tanh", prefix: str = "rnn_", params: RNNParams | None = None
    ) -> None:
        super().__init__(num_hidden, prefix, params)
        self._activation = activation

    @property
    def _gate_names(self) -> Sequence[str]:
        return ("",)

    def __call__(self, inputs: Sym, states: list[Sym]) -> tuple[Sym, list[Any]]:
        name, i2h, h2h = self._products(inputs, states[0])
        output = self._get_activation(i2h + h2h, self._activation, name=f"{name}out")
        return output, [output]


class LSTMCell(_DenseCell):
    """Long short-term memory (Hochreiter and Schmidhuber 1997). `forget_bias` is the forget gate's initial bias."""

    def __init__(
        self, num_hidden: int, prefix: str = "lstm_", params: RNNParams | None = None, forget_bias: float = 1.0
    ) -> None:
        super().__init__(num_hidden, prefix, params, init=initializer.LSTMBias(forget_bias=forget_bias))

    @property
    def state_info(self) -> list[dict[str, Any]]:
        return [{"shape": (0, self._num_hidden), "__layout__": "NC"} for _ in range(2)]

    @property
    def _gate_names(self) -> Sequence[str]:
        return ["_i", "_f", "_c", "_o"]

    def __call__(self, inputs: Sym, states: list[Sym]) -> tuple[Sym, list[Any]]:
        name, i2h, h2h = self._products(inputs, states[0])

        def tanh(x: Sym, **options: Any) -> Sym:
            return ops.Activation(x, act_type="tanh", **options)

        return lstm_step(self, name, i2h + h2h, states, tanh, -1)


class GRUCell(_DenseCell):
    """Gated recurrent unit in cuDNN's form (Cho et al. 2014)."""

    _SUFFIX = "_"

    def __init__(self, num_hidden: int, prefix: str = "gru_", params: RNNParams | None = None) -> None:
        super().__init__(num_hidden, prefix, params)

    @property
    def _gate_names(self) -> Sequence[str]:
        return ["_r", "_z", "_o"]

    def __call__(self, inputs: Sym, states: list[Sym]) -> tuple[Sym, list[Any]]:
        name, i2h, h2h = self._products(inputs, states[0])

        def tanh(x: Sym, **options: Any) -> Sym:
            return ops.Activation(x, act_type="tanh", **options)

        return gru_step(name, i2h, h2h, states[0], tanh)
