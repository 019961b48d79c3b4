"""Recorded calls whose signature was recorded before: a look-up, allocations, one native call, and an entry on the
tape."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

from ...ir.types import TensorType
from ...runtime.device import DeviceError
from ...runtime.modes import hooks, modes
from ..memory import allocate
from .array_classes import array_class
from .tape import CompiledPullback, Entry, ForwardRun, Recorded, memory_of, random_key

if TYPE_CHECKING:
    from ...runtime.derivative import Differentiable
    from .ndarray import NDArray


def while_watched(call: Any) -> Any:
    """What to call instead of a fast path while `hooks.watched`; None for the slow path.

    That is `call.recorded`, which a fast path has if it can be recorded, as long as only a tape watches.
    """
    if call is None or hooks.intercepted or not modes.recording:
        return None
    return getattr(call, "recorded", None)


OnTape = tuple[tuple[int, ...], tuple[Entry, ...]]


class RecordedCalls:
    """Calls of one function on operands of certain types, which return its first `count` results.

    `function` is called when a call is recorded for the first time.
    """

    __slots__ = ("_candidates", "_count", "_function", "_plans")

    def __init__(self, function: Callable[[], Differentiable], types: Sequence[TensorType], count: int) -> None:
        self._function, self._count = function, count
        self._candidates = [i for i, t in enumerate(types) if t.dtype.has_cotangent]
        self._plans: dict[tuple[int, ...], _Plan] = {}

    def on_tape(self, arrays: Sequence[NDArray]) -> OnTape:
        """The positions of the operands that a gradient is by, with their entries."""
        wrt: list[int] = []
        operands: list[Entry] = []
        for i in self._candidates:
            entry = getattr(arrays[i], "_entry", None)
            if entry is not None and entry[0].pull is not None:
                if entry[0].rows:  # a row-sparse gradient takes the slow path
                    return (), ()
                wrt.append(i)
                operands.append(entry)
        return tuple(wrt), tuple(operands)

    def __call__(
        self, arrays: Sequence[NDArray], version: Hashable = 0, on_tape: OnTape | None = None
    ) -> list[NDArray] | None:
        """The results of a recorded call; None if no operand is on the tape, or if the call must take the slow path.

        GraphError names a node without gradient. DeviceError for arrays that are not on the host.
        """
        wrt, operands = on_tape or self.on_tape(arrays)
        if not wrt:
            return None
        plan = self._plans.get(wrt)
        if plan is None:
            plan = self._plans[wrt] = _Plan(self._function(), wrt, self._count)
        return plan.call(arrays, operands, version) if plan.is_plain else None


class _Plan:
    """What calls with gradients by the same operands have in common. `is_plain` is False for a program with states, or
    with functions in Python."""

    __slots__ = (
        "_count",
        "_direct",
        "_forward",
        "_kept",
        "_made",
        "_random",
        "_run",
        "_types",
        "derivative",
        "function",
        "is_plain",
    )

    def __init__(self, function: Differentiable, wrt: tuple[int, ...], count: int) -> None:
        self.function, self.derivative, self._count = function, function.derivative(wrt), count
        forward = self.derivative.forward.specialization
        self.is_plain = not (forward.state or self.derivative.calls_python)
        self._forward, self._random = forward, forward.random
        self._run, self._direct = forward.executable.run, forward.executable.direct_call()
        stored = [memory_of(t) for t in forward.types]
        self._made = [
            (shape, t.dtype, t.nbytes, t if has_halo else None)
            for (shape, has_halo), t in zip(stored, forward.types, strict=True)
        ]
        self._types = forward.types[:count]
        self._kept = [(s.is_input, s.position) for s in self.derivative.residuals]

    def call(self, arrays: Sequence[NDArray], operands: tuple[Entry, ...], version: Hashable) -> list[NDArray]:
        new, cls, context = object.__new__, array_class(), arrays[0]._context
        made: list[NDArray] = []
        for shape, dtype, nbytes, with_halo in self._made:
            array = new(cls)
            storage = allocate(nbytes) if with_halo is None else self.derivative.memory.take(with_halo)
            array._storage = storage
            array._address, array._shape, array._dtype, array._context = storage.address, shape, dtype, context
            made.append(array)
        given = list(arrays)
        if self._random is not None:
            given.insert(self._random.input, random_key(self._forward, context))
        sources, targets = [a._address for a in given], [a._address for a in made]
        if self._direct is None:
            self._run(sources, targets, version)
        else:
            try:
                self._direct(*sources, *targets)
            except DeviceError:
                self._run(sources, targets, version)
        run = new(ForwardRun)
        run.derivative, run.version, run.context = self.derivative, version, context
        run.operands, run.results = given, made
        run.kept = [given[position] if is_input else made[position] for is_input, position in self._kept]
        node = Recorded(operands, CompiledPullback(self.function, run, self._types), self._count)
        results = made[: self._count]
        for i, array in enumerate(results):
            array._entry = Entry(node, i)
        return results
