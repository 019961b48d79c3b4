"""The gradients of an executor for a store that begins to sum them in the backward pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .ndarray import NDArray
from .ndarray.linked_tape import linked_gradients
from .ndarray.tape import CompiledPullback, Entry, ForwardRun, Recorded, Variable


class ReceivedGradients:
    """Gradient arrays as variables of a tape with one call, the executor's; a receiver of the variables takes them."""

    def __init__(self, arrays: Mapping[str, NDArray]) -> None:
        self.variables = {name: Variable("write", lambda array=array: array) for name, array in arrays.items()}

    def compute(self, run: ForwardRun, outputs: int, names: Sequence[str], seeds: Sequence[NDArray]) -> bool:
        """Write the gradients by the arguments `names`, which are all that the run has. False if that is impossible:
        nothing is written. `seeds` are the gradients by the outputs that can have one, of so many `outputs`."""
        if any(name not in self.variables for name in names) or run.derivative.rows:
            return False
        types = [result._type() for result in run.results[:outputs]]
        operands = tuple([Entry(self.variables[name]) for name in names])
        call = Recorded(operands, CompiledPullback(None, run, types), outputs)
        heads = [Entry(call, i) for i, type in enumerate(types) if type.dtype.has_cotangent]
        gradients = linked_gradients([call], heads, seeds, direct=True)
        if gradients is None:
            return False
        by_variable, written = gradients
        for variable, gradient in () if written else by_variable.items():
            if gradient is None:
                variable.array[:] = 0
            else:
                gradient.copyto(variable.array)
        return True
