"""Cells with several layers: fused into one operator, stacked, and bidirectional."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .. import initializer, ndarray
from ..ndarray import NDArray
from ..symbol import Symbol
from .base_cell import Arrays, BaseRNNCell, RNNParams, Sym, _normalize_sequence, ops
from .cells import GRUCell, LSTMCell, RNNCell

_GATES = {"rnn_relu": [""], "rnn_tanh": [""], "lstm": ["_i", "_f", "_c", "_o"], "gru": ["_r", "_z", "_o"]}


class FusedRNNCell(BaseRNNCell):
    """Several layers as one RNN operator, with all weights in one vector. Supports only `unroll`, not single steps."""

    def __init__(
        self,
        num_hidden: int,
        num_layers: int = 1,
        mode: str = "lstm",
        bidirectional: bool = False,
        dropout: float = 0.0,
        get_next_state: bool = False,
        forget_bias: float = 1.0,
        prefix: str | None = None,
        params: RNNParams | None = None,
    ) -> None:
        if mode not in _GATES:
            raise ValueError(f"mode must be one of {list(_GATES)}, not {mode!r}")
        super().__init__(prefix=f"{mode}_" if prefix is None else prefix, params=params)
        self._num_hidden, self._num_layers, self._mode = num_hidden, num_layers, mode
        self._bidirectional, self._dropout, self._get_next_state = bidirectional, dropout, get_next_state
        self._directions = ["l", "r"] if bidirectional else ["l"]
        fill = initializer.FusedRNN(None, num_hidden, num_layers, mode, bidirectional, forget_bias)
        self._parameter: Any = self.params.get("parameters", init=fill)

    @property
    def state_info(self) -> list[dict[str, Any]]:
        shape = (len(self._directions) * self._num_layers, 0, self._num_hidden)
        return [{"shape": shape, "__layout__": "LNC"} for _ in range(2 if self._mode == "lstm" else 1)]

    @property
    def _gate_names(self) -> Sequence[str]:
        return _GATES[self._mode]

    @property
    def _num_gates(self) -> int:
        return len(self._gate_names)

    def _slice_weights(self, arr: NDArray, li: int, lh: int) -> Arrays:
        """Views of the packed vector by weight name, for `li` inputs and `lh` hidden units. The names are the ones of
        the cells of `unfuse`."""
        cells = [
            (f"{self._prefix}{d}{layer}", li if layer == 0 else len(self._directions) * lh)
            for layer in range(self._num_layers)
            for d in self._directions
        ]
        shapes: dict[str, tuple[int, ...]] = {}
        for cell, width in cells:
            for group, columns in (("i2h", width), ("h2h", lh)):
                shapes.update({f"{cell}_{group}{gate}_weight": (lh, columns) for gate in self._gate_names})
        for cell, _ in cells:
            for group in ("i2h", "h2h"):
                shapes.update({f"{cell}_{group}{gate}_bias": (lh,) for gate in self._gate_names})
        slices: Arrays = {}
        begin = 0
        for name, shape in shapes.items():
            end = begin + shape[0] * (shape[1] if len(shape) > 1 else 1)
            slices[name] = arr[begin:end].reshape(shape)
            begin = end
        if begin != arr.size:
            raise AssertionError(f"Invalid parameters size for FusedRNNCell: {arr.size} instead of {begin}")
        return slices

    def unpack_weights(self, args: Arrays) -> Arrays:
        """Split the packed weights into separate arrays per gate, layer and direction. Returns all parameters."""
        args = dict(args)
        packed = args.pop(self._parameter.name)
        directions, gates, h = len(self._directions), self._num_gates, self._num_hidden
        inputs = packed.size // directions // h // gates - (self._num_layers - 1) * (h + directions * h + 2) - h - 2
        return {**args, **{name: piece.copy() for name, piece in self._slice_weights(packed, inputs, h).items()}}

    def pack_weights(self, args: Arrays) -> Arrays:
        """The inverse of `unpack_weights`."""
        args = dict(args)
        directions, gates, h = len(self._directions), self._num_gates, self._num_hidden
        first = args[f"{self._prefix}l0_i2h{self._gate_names[0]}_weight"]
        inputs = first.shape[1]
        size = (inputs + h + 2) * h * gates * directions
        size += (self._num_layers - 1) * gates * h * (h + directions * h + 2) * directions
        packed = ndarray.zeros((size,), ctx=first.context, dtype=first.dtype)
        for name, piece in self._slice_weights(packed, inputs, h).items():
            piece[:] = args.pop(name)
        return {**args, self._parameter.name: packed}

    def __call__(self, inputs: Sym, states: list[Sym]) -> tuple[Sym, list[Any]]:
        raise NotImplementedError("FusedRNNCell cannot be stepped. Please use unroll")

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: list[Sym] | None = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
    ) -> tuple[Any, list[Any]]:
        """Run `length` steps. Returns the outputs, and the last states if `get_next_state`, else an empty list."""
        self.reset()
        inputs, axis = _normalize_sequence(length, inputs, layout, True)
        if axis == 1:
            warnings.warn("NTC layout detected. Consider using TNC for FusedRNNCell for faster speed", stacklevel=2)
            inputs = ops.swapaxes(inputs, dim1=0, dim2=1)
        elif axis != 0:
            raise AssertionError(f"Unsupported layout {layout}")
        states = self.begin_state() if begin_state is None else begin_state
        rnn: Any = ops.RNN(
            data=inputs,
            parameters=self._parameter,
            state_size=self._num_hidden,
            num_layers=self._num_layers,
            bidirectional=self._bidirectional,
            p=self._dropout,
            state_outputs=self._get_next_state,
            mode=self._mode,
            name=f"{self._prefix}rnn",
            **dict(zip(("state", "state_cell"), states, strict=False)),
        )
        outputs, states = rnn, []
        if self._get_next_state:
            outputs, *states = rnn
            for state in states:
                state._set_attr(__layout__="LNC")
        if axis == 1:
            outputs = ops.swapaxes(outputs, dim1=0, dim2=1)
        return _normalize_sequence(length, outputs, layout, merge_outputs)[0], states

    def unfuse(self) -> SequentialRNNCell:
        """The same layers as a sequence of cells that can be stepped."""
        stack = SequentialRNNCell()
        for i in range(self._num_layers):
            cells = [self._plain_cell(f"{self._prefix}{d}{i}_") for d in self._directions]
            name = f"{self._prefix}bi_l{i}_"
            stack.add(BidirectionalCell(cells[0], cells[1], output_prefix=name) if self._bidirectional else cells[0])
            if self._dropout > 0 and i != self._num_layers - 1:
                stack.add(DropoutCell(self._dropout, prefix=f"{self._prefix}_dropout{i}_"))
        return stack

    def _plain_cell(self, prefix: str) -> BaseRNNCell:
        if self._mode == "lstm":
            return LSTMCell(self._num_hidden, prefix=prefix)
        if self._mode == "gru":
            return GRUCell(self._num_hidden, prefix=prefix)
        return RNNCell(self._num_hidden, activation=self._mode.removeprefix("rnn_"), prefix=prefix)


class _Cells(BaseRNNCell):
    """A cell that combines other cells, with their states and weights."""

    def __init__(self, params: RNNParams | None, cells: Iterable[BaseRNNCell] = ()) -> None:
        super().__init__(prefix="", params=params)
        self._override_cell_params = params is not None
        self._cells: list[BaseRNNCell] = []
        for cell in cells:
            self._adopt(cell)

    def _adopt(self, cell: BaseRNNCell) -> None:
        if self._override_cell_params:
            if not cell._own_params:
                raise AssertionError(f"Either specify params for {type(self).__name__} or child cells, not both.")
            cell.params._params.update(self.params._params)
        self._cells.append(cell)
        self.params._params.update(cell.params._params)

    @property
    def state_info(self) -> list[dict[str, Any]]:
        return [info for cell in self._cells for info in cell.state_info]

    def begin_state(self, func: Callable[..., Sym] = ops.zeros, **kwargs: Any) -> list[Sym]:
        """The initial states of all cells."""
        self._check_unmodified()
        return [state for cell in self._cells for state in cell.begin_state(func, **kwargs)]

    def unpack_weights(self, args: Arrays) -> Arrays:
        """Unpack the weights of all cells."""
        for cell in self._cells:
            args = cell.unpack_weights(args)
        return args

    def pack_weights(self, args: Arrays) -> Arrays:
        """The inverse of `unpack_weights`."""
        for cell in self._cells:
            args = cell.pack_weights(args)
        return args

    def _split_states(self, states: Sequence[Sym]) -> list[tuple[BaseRNNCell, list[Sym]]]:
        """Each cell with its part of `states`."""
        parts: list[tuple[BaseRNNCell, list[Sym]]] = []
        begin = 0
        for cell in self._cells:
            end = begin + len(cell.state_info)
            parts.append((cell, list(states[begin:end])))
            begin = end
        return parts


class SequentialRNNCell(_Cells):
    """A stack of cells. Each cell reads the output of the previous one."""

    def __init__(self, params: RNNParams | None = None) -> None:
        super().__init__(params)

    def add(self, cell: BaseRNNCell) -> None:
        """Append a cell."""
        self._adopt(cell)

    def __call__(self, inputs: Sym, states: list[Sym]) -> tuple[Sym, list[Any]]:
        self._counter += 1
        next_states: list[Any] = []
        for cell, own in self._split_states(states):
            if isinstance(cell, BidirectionalCell):
                raise AssertionError("a BidirectionalCell cannot be stepped. Please use unroll")
            inputs, new = cell(inputs, own)
            next_states += new
        return inputs, next_states

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: list[Sym] | None = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
    ) -> tuple[Any, list[Any]]:
        """Unroll all cells. Returns the outputs of the last cell and the last states of all cells."""
        self.reset()
        states = self.begin_state() if begin_state is None else begin_state
        next_states: list[Any] = []
        for cell, own in self._split_states(states):
            merge = merge_outputs if cell is self._cells[-1] else None
            inputs, new = cell.unroll(length, inputs=inputs, begin_state=own, layout=layout, merge_outputs=merge)
            next_states += new
        return inputs, next_states


class BidirectionalCell(_Cells):
    """One cell forwards and one backwards over a sequence. Their outputs are concatenated."""

    def __init__(
        self,
        l_cell: BaseRNNCell,
        r_cell: BaseRNNCell,
        params: RNNParams | None = None,
        output_prefix: str = "bi_",
    ) -> None:
        super().__init__(params, (l_cell, r_cell))
        self._output_prefix = output_prefix

    def __call__(self, inputs: Sym, states: list[Sym]) -> tuple[Sym, list[Any]]:
        raise NotImplementedError("Bidirectional cannot be stepped. Please use unroll")

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: list[Sym] | None = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
    ) -> tuple[Any, list[Any]]:
        """Unroll both cells. Returns the concatenated outputs, and a list of last states for each direction."""
        self.reset()
        steps, axis = _normalize_sequence(length, inputs, layout, False)
        states = self.begin_state() if begin_state is None else begin_state
        directions = (list(steps), list(reversed(steps)))
        unrolled = [
            cell.unroll(length, inputs=own, begin_state=begin, layout=layout, merge_outputs=merge_outputs)
            for own, (cell, begin) in zip(directions, self._split_states(states), strict=True)
        ]
        left, right = (outputs for outputs, _ in unrolled)
        merged = merge_outputs
        if merged is None:
            merged = isinstance(left, Symbol) and isinstance(right, Symbol)
            if not merged:
                left, right = (_as_steps(x, axis, length) for x in (left, right))
        if merged:
            right = ops.reverse(right, axis=axis)
            outputs: Any = ops.Concat(left, right, dim=2, name=f"{self._output_prefix}out")
        else:
            pairs = zip(left, reversed(right), strict=True)
            outputs = [ops.Concat(x, y, dim=1, name=f"{self._output_prefix}t{i}") for i, (x, y) in enumerate(pairs)]
        return outputs, [last for _, last in unrolled]


def _as_steps(outputs: Any, axis: int, length: int) -> list[Sym]:
    if not isinstance(outputs, Symbol):
        return outputs
    return list(ops.SliceChannel(outputs, axis=axis, num_outputs=length, squeeze_axis=1))


class DropoutCell(BaseRNNCell):
    """Dropout between cells."""

    def __init__(self, dropout: float, prefix: str = "dropout_", params: RNNParams | None = None) -> None:
        super().__init__(prefix, params)
        if not isinstance(dropout, int | float):
            raise AssertionError("dropout probability must be a number")
        self.dropout = dropout

    @property
    def state_info(self) -> list[dict[str, Any]]:
        return []

    def __call__(self, inputs: Sym, states: list[Sym]) -> tuple[Sym, list[Any]]:
        if self.dropout > 0:
            inputs = ops.Dropout(data=inputs, p=self.dropout)
        return inputs, states

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: list[Sym] | None = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
    ) -> tuple[Any, list[Any]]:
        """Apply dropout to the whole sequence at once if it is one symbol, otherwise step by step."""
        self.reset()
        inputs, _ = _normalize_sequence(length, inputs, layout, merge_outputs)
        if isinstance(inputs, Symbol):
            return self(inputs, [])
        return super().unroll(length, inputs, begin_state, layout, merge_outputs)
