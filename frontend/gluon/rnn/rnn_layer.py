"""Recurrent layers that run all time steps in one operator: RNN, LSTM, GRU."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ... import ndarray, symbol
from ...ndarray import NDArray
from ...symbol import Symbol
from ...util import is_np_array, is_np_shape
from ..hybrid_block import HybridBlock
from ..parameter import Parameter
from .basic_cells import GRUCell, LSTMCell, RNNCell
from .modifier_cells import DropoutCell
from .recurrent_cell import HybridRecurrentCell
from .stacked_cells import BidirectionalCell, HybridSequentialRNNCell

__all__ = ["GRU", "LSTM", "RNN"]

_GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}
_PARAMETER = re.compile(r"(l|r)(\d+)_(i2h|h2h|h2r)_(weight|bias)\Z")


class _RNNLayer(HybridBlock):
    """Recurrent layers on a sequence (time, batch, channels), or (batch, time, channels) with layout NTC.

    A call without states returns the outputs; a call with states returns the outputs and the new states. Parameters are
    named `l0_i2h_weight`, ...; names of the reverse direction start with r.
    """

    def __init__(
        self,
        mode: str,
        hidden_size: int,
        num_layers: int,
        layout: str,
        dropout: float,
        bidirectional: bool,
        input_size: int,
        initializers: dict[str, Any],
        dtype: Any,
        projection_size: int | None = None,
        state_clip: tuple[float | None, float | None, bool] = (None, None, False),
        use_sequence_length: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if layout not in ("TNC", "NTC"):
            raise AssertionError(f"Invalid layout {layout}; must be one of ['TNC' or 'NTC']")
        self._mode, self._hidden_size, self._num_layers = mode, hidden_size, num_layers
        self._layout, self._dropout, self._dtype = layout, dropout, dtype
        self._directions = ("l", "r") if bidirectional else ("l",)
        self._dir = len(self._directions)
        self._input_size = input_size
        self._projection_size = projection_size or None
        self._state_clip = state_clip
        self._use_sequence_length = use_sequence_length
        self._gates = _GATES[mode]
        self._initializers = initializers
        self.skip_states: bool | None = None
        self._make_parameters(initializers)

    def _make_parameters(self, initializers: dict[str, Any]) -> None:
        width, gates = self._input_size, self._gates * self._hidden_size
        state = self._projection_size or self._hidden_size
        for layer in range(self._num_layers):
            shapes = {"i2h_weight": (gates, width), "h2h_weight": (gates, state)}
            shapes |= {"i2h_bias": (gates,), "h2h_bias": (gates,)}
            if self._projection_size:
                shapes["h2r_weight"] = (state, self._hidden_size)
            for direction in self._directions:
                for part, shape in shapes.items():
                    self._register_param(f"{direction}{layer}_{part}", shape, initializers[part])
            width = state * self._dir

    def _register_param(self, name: str, shape: tuple[int, ...], init: Any) -> None:
        param = self.params.get(name, shape=shape, init=init, allow_deferred_init=True, dtype=self._dtype)
        setattr(self, name, param)

    def __repr__(self) -> str:
        shape = self._reg_params["l0_i2h_weight"].shape or (0, 0)
        parts = [f"{shape[1] or None} -> {shape[0] // self._gates}", self._layout]
        parts += [f"num_layers={self._num_layers}"] if self._num_layers != 1 else []
        parts += [f"dropout={self._dropout}"] if self._dropout else []
        parts += ["bidirectional"] if self._dir == 2 else []
        return f"{type(self).__name__}({', '.join(parts)})"

    def _collect_params_with_prefix(self, prefix: str = "") -> dict[str, Parameter]:
        """All parameters by structural name. The names are the ones of a stack of cells, as in MXNet's files."""
        dotted = f"{prefix}." if prefix else ""
        return {dotted + self._unfused_name(name): param for name, param in self._reg_params.items()}

    def _unfused_name(self, name: str) -> str:
        match = _PARAMETER.match(name)
        assert match is not None
        direction, layer, group, kind = match.groups()
        cell = f"{direction}_cell." if self._dir == 2 else ""
        return f"_unfused.{layer}.{cell}{group}_{kind}"

    def _unfuse(self) -> HybridSequentialRNNCell:
        """A stack of cells with the same parameters, which runs step by step."""
        if self._projection_size:
            raise AssertionError("_unfuse does not support projection layer yet!")
        if any(self._state_clip[:2]):
            raise AssertionError("_unfuse does not support state clipping yet!")
        stack = HybridSequentialRNNCell(prefix=self.prefix, params=self.params)
        with stack.name_scope():
            width = self._input_size
            for layer in range(self._num_layers):
                cells = [self._cell(f"{direction}{layer}_", width) for direction in self._directions]
                stack.add(BidirectionalCell(cells[0], cells[1]) if self._dir == 2 else cells[0])
                if self._dropout > 0 and layer != self._num_layers - 1:
                    stack.add(DropoutCell(self._dropout))
                width = self._hidden_size * self._dir
        return stack

    def _cell(self, prefix: str, input_size: int) -> HybridRecurrentCell:
        """The cell of one layer in one direction."""
        options = {f"{part}_initializer": init for part, init in self._initializers.items() if part != "h2r_weight"}
        options |= {"prefix": prefix, "input_size": input_size}
        if self._mode.startswith("rnn"):
            return RNNCell(self._hidden_size, activation=self._mode.removeprefix("rnn_"), **options)
        return {"lstm": LSTMCell, "gru": GRUCell}[self._mode](self._hidden_size, **options)

    def cast(self, dtype: Any) -> None:
        super().cast(dtype)
        self._dtype = dtype

    # --- states -----------------------------------------------------------------------------------------------------

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Shape, layout and dtype of each state."""
        layers = self._num_layers * self._dir
        sizes = [self._projection_size or self._hidden_size]
        if self._mode == "lstm":
            sizes.append(self._hidden_size)
        return [{"shape": (layers, batch_size, n), "__layout__": "LNC", "dtype": self._dtype} for n in sizes]

    def begin_state(self, batch_size: int = 0, func: Callable[..., Any] | None = None, **kwargs: Any) -> list[Any]:
        """The initial states, created by `func`: zeros by default."""
        func = ndarray.zeros if func is None else func
        states: list[Any] = []
        for i, info in enumerate(self.state_info(batch_size)):
            options = {**info, **kwargs}
            if func is ndarray.zeros:
                options.pop("__layout__")
            else:
                options["name"] = f"{self.prefix}h0_{i}"
            state = func(**options)
            states.append(state.as_np_ndarray() if is_np_array() and isinstance(state, NDArray) else state)
        return states

    # --- calls ------------------------------------------------------------------------------------------------------

    def __call__(self, inputs: Any, states: Any = None, sequence_length: Any = None, **kwargs: Any) -> Any:  # type: ignore[override]
        self.skip_states = states is None
        if states is None and isinstance(inputs, NDArray):
            batch = inputs.shape[self._layout.find("N")]
            states = self.begin_state(batch, ctx=inputs.context, dtype=inputs.dtype)
        elif states is None:
            states = self.begin_state(-1 if is_np_shape() else 0, func=symbol.zeros)
        if isinstance(states, NDArray | Symbol):
            states = [states]
        if self._use_sequence_length:
            return super().__call__(inputs, states, sequence_length, **kwargs)
        return super().__call__(inputs, states, **kwargs)

    def hybrid_forward(  # type: ignore[override]
        self, F: Any, inputs: Any, states: Any, sequence_length: Any = None, **kwargs: Any
    ) -> Any:
        if F is ndarray:
            self._check_states(inputs, states)
        out = self._forward_kernel(F, inputs, states, sequence_length, **kwargs)
        return out[0] if self.skip_states else out

    def _check_states(self, inputs: NDArray, states: list[NDArray]) -> None:
        batch = inputs.shape[self._layout.find("N")]
        for state, info in zip(states, self.state_info(batch), strict=True):
            if state.shape != info["shape"]:
                raise ValueError(f"Invalid recurrent state shape. Expecting {info['shape']}, got {state.shape}.")

    def _forward_kernel(self, F: Any, inputs: Any, states: Any, sequence_length: Any, **params: Any) -> Any:
        """Call one RNN operator on the concatenated parameters. Returns the outputs and the new states."""
        if self._layout == "NTC":
            inputs = F.swapaxes(inputs, 0, 1)
        packed = F._internal._rnn_param_concat(*self._flat_parameters(params), dim=0)
        extra = [sequence_length] if self._use_sequence_length else []
        low, high, clip_nan = self._state_clip
        results = F.RNN(
            inputs,
            packed,
            *states,
            *extra,
            use_sequence_length=self._use_sequence_length,
            state_size=self._hidden_size,
            projection_size=self._projection_size,
            num_layers=self._num_layers,
            bidirectional=self._dir == 2,
            p=self._dropout,
            state_outputs=True,
            mode=self._mode,
            lstm_state_clip_min=low,
            lstm_state_clip_max=high,
            lstm_state_clip_nan=clip_nan,
        )
        outputs, new_states = results[0], [results[1], results[2]] if self._mode == "lstm" else [results[1]]
        if self._layout == "NTC":
            outputs = F.swapaxes(outputs, 0, 1)
        return outputs, new_states

    def _flat_parameters(self, params: dict[str, Any]) -> list[Any]:
        """All weights, then all biases, as vectors, ordered by layer, direction, and i2h, h2h, h2r."""
        groups = ["i2h", "h2h", "h2r"] if self._projection_size else ["i2h", "h2h"]
        return [
            params[f"{direction}{layer}_{group}_{kind}"].reshape(-1)
            for kind in ("weight", "bias")
            for layer in range(self._num_layers)
            for direction in self._directions
            for group in groups
            if not (group == "h2r" and kind == "bias")
        ]


def _initializers(
    i2h_weight: Any, h2h_weight: Any, i2h_bias: Any, h2h_bias: Any, h2r_weight: Any = None
) -> dict[str, Any]:
    return {
        "i2h_weight": i2h_weight,
        "h2h_weight": h2h_weight,
        "i2h_bias": i2h_bias,
        "h2h_bias": h2h_bias,
        "h2r_weight": h2r_weight,
    }


class RNN(_RNNLayer):
    """Elman layers: h' = activation(W x + b + R h + c), with activation 'relu' or 'tanh'."""

    def __init__(
        self,
        hidden_size: int,
        num_layers: int = 1,
        activation: str = "relu",
        layout: str = "TNC",
        dropout: float = 0,
        bidirectional: bool = False,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
        dtype: Any = "float32",
        **kwargs: Any,
    ) -> None:
        initializers = _initializers(
            i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer
        )
        super().__init__(
            f"rnn_{activation}",
            hidden_size,
            num_layers,
            layout,
            dropout,
            bidirectional,
            input_size,
            initializers,
            dtype,
            **kwargs,
        )


class LSTM(_RNNLayer):
    """Long short-term memory with gates i, f, c, o and states h, c. With `projection_size`, h is projected to that size
    (LSTMP).

    Example:
        >>> layer = mx.gluon.rnn.LSTM(hidden_size=8, num_layers=2)
        >>> layer.initialize()
        >>> outputs, states = layer(mx.nd.ones((5, 3, 4)), layer.begin_state(batch_size=3))  # 5 steps
        >>> outputs.shape, [state.shape for state in states]
        ((5, 3, 8), [(2, 3, 8), (2, 3, 8)])
    """

    def __init__(
        self,
        hidden_size: int,
        num_layers: int = 1,
        layout: str = "TNC",
        dropout: float = 0,
        bidirectional: bool = False,
        input_size: int = 0,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        projection_size: int | None = None,
        h2r_weight_initializer: Any = None,
        state_clip_min: float | None = None,
        state_clip_max: float | None = None,
        state_clip_nan: bool = False,
        dtype: Any = "float32",
        **kwargs: Any,
    ) -> None:
        initializers = _initializers(
            i2h_weight_initializer,
            h2h_weight_initializer,
            i2h_bias_initializer,
            h2h_bias_initializer,
            h2r_weight_initializer,
        )
        clip = (state_clip_min, state_clip_max, state_clip_nan)
        super().__init__(
            "lstm",
            hidden_size,
            num_layers,
            layout,
            dropout,
            bidirectional,
            input_size,
            initializers,
            dtype,
            projection_size,
            clip,
            **kwargs,
        )


class GRU(_RNNLayer):
    """Gated recurrent units with gates r, z, n. The reset gate is applied after the recurrent product, as in cuDNN.

    Example:
        >>> layer = mx.gluon.rnn.GRU(8, bidirectional=True)
        >>> layer.initialize()
        >>> layer(mx.nd.ones((5, 3, 4))).shape
        (5, 3, 16)
    """

    def __init__(
        self,
        hidden_size: int,
        num_layers: int = 1,
        layout: str = "TNC",
        dropout: float = 0,
        bidirectional: bool = False,
        input_size: int = 0,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        dtype: Any = "float32",
        **kwargs: Any,
    ) -> None:
        initializers = _initializers(
            i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer
        )
        super().__init__(
            "gru", hidden_size, num_layers, layout, dropout, bidirectional, input_size, initializers, dtype, **kwargs
        )
