"""A forward pass of an executor with sparse arrays: its operators run one by one, on a tape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..runtime.modes import set_recording
from .dtypes import dtype_of
from .ndarray import NDArray, zeros
from .ndarray.gradients import attach
from .ndarray.tape import Variable, calls_before, entry_of, pull_back, reads_cotangent, variable_of

if TYPE_CHECKING:
    from .symbol.stepwise import StepwiseSpecialization


class RecordedRun:
    """Implements the interface of `ForwardRun`. Its gradients are by the arrays at `wrt`.

    A gradient is row-sparse where every operator on its way has one.
    """

    def __init__(self, function: StepwiseSpecialization, arrays: Sequence[NDArray], wrt: Sequence[int]) -> None:
        self.operands, self.wrt = list(arrays), tuple(wrt)
        self._variables = [a.detach() for a in arrays]
        for i in self.wrt:
            attach(self._variables[i], "null", self._variables[i].copy)
        recording = set_recording(True)
        try:
            self.results = function.call(self._variables, 0)
        finally:
            set_recording(recording)
        self._entries = [entry_of(a) for a in self.results if has_cotangent(a)]

    @property
    def reads_cotangent(self) -> tuple[bool, ...]:
        """For each result that can have a gradient whether the gradients depend on its cotangent: a loss ignores it."""
        return tuple([entry is not None and reads_cotangent(entry) for entry in self._entries])

    def gradients(
        self, cotangents: Sequence[NDArray], into: Sequence[NDArray | None] = (), added: Sequence[int] = ()
    ) -> list[NDArray]:
        """The gradients, in order of `wrt`, from those of the results that can have one. One with an array in `into` is
        written there."""
        heads = [(e, c) for e, c in zip(self._entries, cotangents, strict=True) if e is not None]
        entries = [e for e, _ in heads]
        sums = pull_back(calls_before(entries), entries, [c for _, c in heads])
        gradients = [self._gradient(i, sums) for i in self.wrt]
        for array, gradient in zip(into, gradients, strict=False):
            if array is not None:
                gradient.copyto(array)
        return gradients

    def _gradient(self, position: int, sums: Mapping[Variable, NDArray | None]) -> NDArray:
        array = self._variables[position]
        variable = variable_of(array)
        assert variable is not None
        gradient = sums.get(variable)
        return zeros(array.shape, array.context, array.dtype) if gradient is None else gradient


def has_cotangent(array: NDArray) -> bool:
    """Whether an array of any storage type can have a gradient."""
    return dtype_of(array.dtype).has_cotangent
