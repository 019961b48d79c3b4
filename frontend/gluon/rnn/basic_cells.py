"""The basic recurrent cells: RNNCell, LSTMCell, GRUCell."""

from __future__ import annotations

from typing import Any

from .recurrent_cell import HybridRecurrentCell


class _DenseCell(HybridRecurrentCell):
    """A cell with `_gates` gates. Each gate reads the input (i2h) and the last output (h2h)."""

    _gates = 1

    def __init__(
        self,
        hidden_size: int,
        input_size: int,
        initializers: tuple[Any, Any, Any, Any],
        prefix: str | None,
        params: Any,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        self._hidden_size, self._input_size = hidden_size, input_size
        rows = self._gates * hidden_size
        shapes = {"i2h_weight": (rows, input_size), "h2h_weight": (rows, hidden_size)}
        shapes |= {"i2h_bias": (rows,), "h2h_bias": (rows,)}
        self._make_parameters(shapes, dict(zip(shapes, initializers, strict=True)))

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        return [{"shape": (batch_size, self._hidden_size), "__layout__": "NC"}]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._mapping()})"

    def _products(
        self, F: Any, inputs: Any, state: Any, i2h: tuple[Any, Any], h2h: tuple[Any, Any]
    ) -> tuple[str, Any, Any]:
        """The name prefix of this step, and the gates' affine maps of the input and of the last output."""
        prefix = f"t{self._counter}_"
        rows = self._gates * self._hidden_size
        from_input = F.FullyConnected(data=inputs, weight=i2h[0], bias=i2h[1], num_hidden=rows, name=prefix + "i2h")
        from_state = F.FullyConnected(data=state, weight=h2h[0], bias=h2h[1], num_hidden=rows, name=prefix + "h2h")
        return prefix, from_input, from_state


class RNNCell(_DenseCell):
    """Elman's cell: h' = activation(W x + b + R h + c)."""

    def __init__(
        self,
        hidden_size: int,
        activation: Any = "tanh",
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
        prefix: str | None = None,
        params: Any = None,
    ) -> None:
        initializers = (i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer)
        super().__init__(hidden_size, input_size, initializers, prefix, params)
        self._activation = activation

    def _alias(self) -> str:
        return "rnn"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._mapping()}, {self._activation})"

    def hybrid_forward(  # type: ignore[override]
        self, F: Any, inputs: Any, states: Any, i2h_weight: Any, h2h_weight: Any, i2h_bias: Any, h2h_bias: Any
    ) -> Any:
        prefix, i2h, h2h = self._products(F, inputs, states[0], (i2h_weight, i2h_bias), (h2h_weight, h2h_bias))
        total = F.elemwise_add(i2h, h2h, name=prefix + "plus0")
        output = self._get_activation(F, total, self._activation, name=prefix + "out")
        return output, [output]


class LSTMCell(_DenseCell):
    """Long short-term memory with gates i, f, c, o and states h, c: c' = f * c + i * candidate, h' = o * tanh(c').

    Example:
        >>> cell = mx.gluon.rnn.LSTMCell(8)
        >>> cell.initialize()
        >>> outputs, states = cell.unroll(5, mx.nd.ones((3, 5, 4)), merge_outputs=True)
        >>> outputs.shape, len(states)
        ((3, 5, 8), 2)
    """

    _gates = 4

    def __init__(
        self,
        hidden_size: int,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
        prefix: str | None = None,
        params: Any = None,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
    ) -> None:
        initializers = (i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer)
        super().__init__(hidden_size, input_size, initializers, prefix, params)
        self._activation, self._recurrent_activation = activation, recurrent_activation

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        return [*super().state_info(batch_size), *super().state_info(batch_size)]

    def _alias(self) -> str:
        return "lstm"

    def hybrid_forward(  # type: ignore[override]
        self, F: Any, inputs: Any, states: Any, i2h_weight: Any, h2h_weight: Any, i2h_bias: Any, h2h_bias: Any
    ) -> Any:
        prefix, i2h, h2h = self._products(F, inputs, states[0], (i2h_weight, i2h_bias), (h2h_weight, h2h_bias))
        gates = F.elemwise_add(i2h, h2h, name=prefix + "plus0")
        sliced = F.SliceChannel(gates, num_outputs=4, name=prefix + "slice")
        kinds = (self._recurrent_activation, self._recurrent_activation, self._activation, self._recurrent_activation)
        input_gate, forget_gate, candidate, output_gate = (
            self._get_activation(F, sliced[i], activation, name=prefix + letter)
            for i, (activation, letter) in enumerate(zip(kinds, "ifco", strict=True))
        )
        old = F.elemwise_mul(forget_gate, states[1], name=prefix + "mul0")
        new = F.elemwise_mul(input_gate, candidate, name=prefix + "mul1")
        next_c = F.elemwise_add(old, new, name=prefix + "state")
        active = F.Activation(next_c, act_type=self._activation, name=prefix + "activation0")
        next_h = F.elemwise_mul(output_gate, active, name=prefix + "out")
        return next_h, [next_h, next_c]


class GRUCell(_DenseCell):
    """Gated recurrent unit with gates r, z, n. The reset gate is applied after the recurrent product, as in cuDNN."""

    _gates = 3

    def __init__(
        self,
        hidden_size: int,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
        prefix: str | None = None,
        params: Any = None,
    ) -> None:
        initializers = (i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer)
        super().__init__(hidden_size, input_size, initializers, prefix, params)

    def _alias(self) -> str:
        return "gru"

    def hybrid_forward(  # type: ignore[override]
        self, F: Any, inputs: Any, states: Any, i2h_weight: Any, h2h_weight: Any, i2h_bias: Any, h2h_bias: Any
    ) -> Any:
        state = states[0]
        prefix, i2h, h2h = self._products(F, inputs, state, (i2h_weight, i2h_bias), (h2h_weight, h2h_bias))
        i2h_r, i2h_z, i2h = F.SliceChannel(i2h, num_outputs=3, name=prefix + "i2h_slice")
        h2h_r, h2h_z, h2h = F.SliceChannel(h2h, num_outputs=3, name=prefix + "h2h_slice")
        reset = F.elemwise_add(i2h_r, h2h_r, name=prefix + "plus0")
        reset = F.Activation(reset, act_type="sigmoid", name=prefix + "r_act")
        update = F.elemwise_add(i2h_z, h2h_z, name=prefix + "plus1")
        update = F.Activation(update, act_type="sigmoid", name=prefix + "z_act")
        candidate = F.elemwise_add(i2h, F.elemwise_mul(reset, h2h, name=prefix + "mul0"), name=prefix + "plus2")
        candidate = F.Activation(candidate, act_type="tanh", name=prefix + "h_act")
        ones = F.ones_like(update, name=prefix + "ones_like0")
        new = F.elemwise_sub(ones, update, name=prefix + "minus0")
        new = F.elemwise_mul(new, candidate, name=prefix + "mul1")
        old = F.elemwise_mul(update, state, name=prefix + "mul20")
        next_h = F.elemwise_add(new, old, name=prefix + "out")
        return next_h, [next_h]
