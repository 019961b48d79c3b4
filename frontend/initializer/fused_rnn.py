"""The initializer of the packed weights of a recurrent network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .base import InitDesc, Initializer, create, register

if TYPE_CHECKING:
    from ..ndarray import NDArray


@register
class FusedRNN(Initializer):
    """Fills each weight in the packed parameters of the RNN operator. `init` None selects the global initializer."""

    _GATES = {"rnn_relu": ("",), "rnn_tanh": ("",), "lstm": ("_i", "_f", "_c", "_o"), "gru": ("_r", "_z", "_o")}

    def __init__(
        self,
        init: Any,
        num_hidden: int,
        num_layers: int,
        mode: str,
        bidirectional: bool = False,
        forget_bias: float = 1.0,
    ) -> None:
        init = create(init) if isinstance(init, str) else init
        super().__init__(
            init=init.dumps() if init is not None else None,
            num_hidden=num_hidden,
            num_layers=num_layers,
            mode=mode,
            bidirectional=bidirectional,
            forget_bias=forget_bias,
        )
        self._init = init
        self._num_hidden, self._num_layers, self._mode = num_hidden, num_layers, mode
        self._directions = ("l", "r") if bidirectional else ("l",)
        self._forget_bias = forget_bias

    def _pieces(self, size: int) -> list[tuple[str, tuple[int, ...]]]:
        """Name and shape of each gate's weights and biases, in the order of the packed vector."""
        gates, hidden, directions = self._GATES[self._mode], self._num_hidden, len(self._directions)
        per_unit = size // directions // hidden // len(gates)
        inputs = per_unit - (self._num_layers - 1) * (hidden + directions * hidden + 2) - hidden - 2
        cells = [
            (f"{d}{i}", inputs if i == 0 else directions * hidden)
            for i in range(self._num_layers)
            for d in self._directions
        ]
        weights = [
            (f"{cell}_{group}{gate}_weight", (hidden, width))
            for cell, columns in cells
            for group, width in (("i2h", columns), ("h2h", hidden))
            for gate in gates
        ]
        biases = [(f"{cell}_{g}{gate}_bias", (hidden,)) for cell, _ in cells for g in ("i2h", "h2h") for gate in gates]
        return weights + biases

    def _init_weight(self, name: str, arr: NDArray) -> None:
        from ..ndarray import concat, zeros

        fallback = name.global_init if isinstance(name, InitDesc) else None
        init = self._init or fallback
        if init is None:
            raise ValueError(f"FusedRNN has neither an initializer nor a global one for {name}")
        filled: list[NDArray] = []
        for piece, shape in self._pieces(arr.size):
            part = zeros(shape, dtype=arr.dtype)
            if self._mode == "lstm" and piece.endswith("_f_bias"):
                part[:] = self._forget_bias
            else:
                init(InitDesc(piece, global_init=fallback), part)
            filled.append(part.reshape((-1,)))
        arr[:] = concat(*filled, dim=0)
