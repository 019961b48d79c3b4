"""Conversion of sequences: one array with a time axis, or a list with one array per step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...ndarray import NDArray
from ...symbol import Symbol
from ...util import is_np_shape
from ..parameter import tensor_types
from ..structure import is_numpy, operators_for


def as_list(value: Any) -> list[Any]:
    """The outputs of an operator as a list."""
    if isinstance(value, Symbol):
        return list(value)
    return list(value) if isinstance(value, list | tuple) else [value]


def _format_sequence(
    length: int | None, inputs: Any, layout: str, merge: bool | None, in_layout: str | None = None
) -> tuple[Any, int, Any, int]:
    """Convert `inputs` to one array (`merge=True`) or to a list of steps (`merge=False`). None leaves the form.

    Returns the converted inputs, the time axis of `layout`, the module `nd` or `sym`, and the batch size (0 if it is
    unknown).
    """
    if inputs is None:
        raise AssertionError("unroll(inputs=None) has been deprecated. Please create input variables outside unroll.")
    axis = layout.find("T")
    in_axis = axis if in_layout is None else in_layout.find("T")
    batch = 0
    first = inputs[0] if isinstance(inputs, list | tuple) else inputs
    F: Any = operators_for(is_numpy(first), isinstance(first, Symbol))
    if isinstance(inputs, Symbol):
        if merge is False:
            inputs = _split_symbol(inputs, in_axis, length)
    elif isinstance(inputs, NDArray):
        batch = inputs.shape[layout.find("N")]
        if merge is False:
            inputs = _split_array(inputs, in_axis, length)
    else:
        if length is not None and len(inputs) != length:
            raise AssertionError(f"unroll over {length} steps requires {length} inputs, not {len(inputs)}")
        batch = 0 if isinstance(first, Symbol) else inputs[0].shape[0]
        if merge is True:
            inputs = F.stack(*inputs, axis=axis)
            in_axis = axis
    if isinstance(inputs, tensor_types) and axis != in_axis:
        inputs = F.swapaxes(inputs, dim1=axis, dim2=in_axis)
    return inputs, axis, F, batch


def _split_symbol(inputs: Symbol, axis: int, length: int | None) -> list[Symbol]:
    if len(inputs) != 1:
        raise AssertionError(
            "unroll doesn't allow grouped symbol as input. Please convert to list with list(inputs) first or let "
            "unroll handle splitting."
        )
    F: Any = operators_for(is_numpy(inputs), True)
    return list(F.split(inputs, axis=axis, num_outputs=length, squeeze_axis=1))


def _split_array(inputs: NDArray, axis: int, length: int | None) -> list[NDArray]:
    steps = inputs.shape[axis]
    if length is not None and length != steps:
        raise AssertionError(
            f"unroll over {length} steps requires {length} steps in axis {axis} of inputs, not {steps} as in "
            f"{inputs.shape}"
        )
    F: Any = operators_for(is_numpy(inputs), False)
    return as_list(F.split(inputs, axis=axis, num_outputs=steps, squeeze_axis=1))


def _get_begin_state(cell: Any, F: Any, begin_state: Any, inputs: Any, batch_size: int) -> Any:
    """`begin_state`, or zeros on the context of the inputs if it is None."""
    if begin_state is not None:
        return begin_state
    first = inputs if isinstance(inputs, NDArray | Symbol) else inputs[0]
    if isinstance(first, Symbol):
        unknown = -1 if is_np_shape() and not batch_size else batch_size
        return cell.begin_state(func=F.zeros, batch_size=unknown)
    with first.context:
        return cell.begin_state(func=F.zeros, batch_size=batch_size)


def _mask_sequence_variable_length(
    F: Any, data: Any, length: int, valid_length: Any, time_axis: int, merge: bool | None
) -> Any:
    """Set the steps after each sequence's valid length to zero. Returns one array if `merge`, else a list."""
    if valid_length is None:
        raise AssertionError("masking a sequence requires valid_length")
    if not isinstance(data, tensor_types):
        data = F.stack(*data, axis=time_axis)
    outputs = F.SequenceMask(data, sequence_length=valid_length, use_sequence_length=True, axis=time_axis)
    if merge:
        return outputs
    return as_list(F.split(outputs, num_outputs=length, axis=time_axis, squeeze_axis=True))


def _reverse_sequences(sequences: Sequence[Any], unroll_step: int, valid_length: Any = None) -> list[Any]:
    """The steps in reverse order. With `valid_length`, only the valid steps of each sequence are reversed."""
    if valid_length is None:
        return list(reversed(sequences))
    is_symbol = isinstance(sequences[0], Symbol)
    F: Any = operators_for(is_numpy(sequences[0]), is_symbol)
    reversed_sequences = F.SequenceReverse(
        F.stack(*sequences, axis=0), sequence_length=valid_length, use_sequence_length=True
    )
    if unroll_step > 1 or is_symbol:
        return as_list(F.split(reversed_sequences, axis=0, num_outputs=unroll_step, squeeze_axis=True))
    return [reversed_sequences[0]]
