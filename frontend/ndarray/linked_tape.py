"""A backward pass as one program: the backward programs of the recorded calls, linked.

The structure of a tape is, for each call, its derivative and the entries of its operands. Each structure has a linked
program (`runtime/linked.py`), made when the structure is seen for the second time, or at once for a few calls. It runs
the same machine code as the calls one by one, so the gradients are the same bit for bit.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

from ...ir.caches import Cache
from ...ir.types import TensorType
from ...runtime.executable import Executable
from ...runtime.host_device import HOST
from ...runtime.linked import LinkedProgram, Part, can_be_linked
from ...runtime.shared_state import shares_state
from ...runtime.writes import written
from .array_classes import empty_array
from .eager import bind, operator_named
from .tape import CompiledPullback, Entry, Recorded, Variable

if TYPE_CHECKING:
    from .ndarray import NDArray

_FEW = 4
"""The calls of a tape that is linked when it is first seen, because that takes less time than to run it."""

_POSITIONS = 1 << 20  # more than a call has results


class _Structure:
    """A structure of tapes: how often it was seen, and its program. None if a call of it cannot be linked."""

    def __init__(self) -> None:
        self.seen = 0
        self.linked: _LinkedTape | None = None


_structures: Cache[Hashable, _Structure] = Cache("tapes", 256)


def linked_gradients(
    nodes: Sequence[Recorded], entries: Sequence[Entry], cotangents: Sequence[NDArray], direct: bool
) -> dict[Variable, NDArray] | None:
    """The gradients as `pull_back` computes them, by one native call; None if the tape has no program.

    With `direct`, the gradient of a variable is written into the variable's array if that is possible.
    """
    variables: dict[Variable, int] = {}
    key = _structure_of(nodes, entries, variables)
    if key is None:
        return None
    structure = _structures.get(key, _Structure)
    structure.seen += 1
    if structure.linked is None:
        if structure.seen != (1 if len(nodes) <= _FEW else 2):
            return None
        structure.linked = _link(nodes, entries, list(variables))
    if structure.linked is None:
        return None
    return structure.linked.run(nodes, cotangents, list(variables), direct)


def _structure_of(
    nodes: Sequence[Recorded], entries: Sequence[Entry], variables: dict[Variable, int]
) -> Hashable | None:
    """The structure of a tape, with variables by their number in `variables`, to which new ones are added. None for a
    tape with a call that has no backward program."""
    if not nodes:
        return None
    numbers = {node: i for i, node in enumerate(nodes)}
    key: list[Any] = []
    for node in nodes:
        pull = node.pull
        if not isinstance(pull, CompiledPullback):
            return None
        key.append(pull.forward.derivative)
        key += _references(node.operands, numbers, variables)
    return (*key, *_references(entries, numbers, variables))


def _references(entries: Sequence[Entry], numbers: dict[Recorded, int], variables: dict[Variable, int]) -> list[int]:
    """A number for each entry; those of variables are negative."""
    found: list[int] = []
    for node, position in entries:
        number = numbers.get(node)  # type: ignore[arg-type]
        if number is None:
            found.append(-1 - variables.setdefault(node, len(variables)))  # type: ignore[arg-type]
        else:
            found.append(number * _POSITIONS + position)
    return found


class _LinkedTape:
    """The program of a structure.

    `types` are those of the gradients of the variables, `sources` the numbers of the calls whose contexts they have.
    """

    def __init__(self, program: LinkedProgram, types: Sequence[TensorType]) -> None:
        self.program, self.types = program, tuple(types)

    def run(
        self, nodes: Sequence[Recorded], cotangents: Sequence[NDArray], variables: Sequence[Variable], direct: bool
    ) -> dict[Variable, NDArray] | None:
        """The gradients of the variables; None if operands share memory with a state that the program replaces."""
        operands = [*cotangents, *chain.from_iterable([_forward(node).kept for node in nodes])]
        addresses = [a._address for a in operands]
        state = self.program.state
        if state and shares_state(addresses, self.program.sizes, state):
            return None
        context = _forward(nodes[0]).context
        targets = _targets(variables, self.types, operands, context) if direct else [None] * len(variables)
        results = [
            empty_array(t.shape, t.dtype, context) if target is None else target
            for t, target in zip(self.types, targets, strict=True)
        ]
        self.program.run(addresses, [r._address for r in results])
        for i in state:
            written(operands[i]._storage)
        return dict(zip(variables, results, strict=True))


def _forward(node: Recorded) -> Any:
    return cast("CompiledPullback", node.pull).forward


def _targets(
    variables: Sequence[Variable], types: Sequence[TensorType], operands: Sequence[NDArray], context: Any
) -> list[NDArray | None]:
    """The array of each variable whose gradient the program can write there."""
    used = {id(a._storage) for a in operands}
    found: list[NDArray | None] = []
    for variable, type in zip(variables, types, strict=True):
        target = variable.array if variable.req == "write" else None
        if target is not None:
            fits = not target._is_sparse and target._shape == type.shape and target._dtype is type.dtype
            storage = id(target._storage) if fits else 0
            if not fits or target._context != context or storage in used:
                target = None
            used.add(storage)
        found.append(target)
    return found


def _link(nodes: Sequence[Recorded], entries: Sequence[Entry], variables: Sequence[Variable]) -> _LinkedTape | None:
    """The program of the structure of these calls; None if one of them cannot be linked."""
    derivatives = [_forward(node).derivative for node in nodes]
    contexts = {_forward(node).context for node in nodes}
    if len(contexts) > 1 or any(d.backward.device is not HOST for d in derivatives):
        return None
    if not all(can_be_linked(d.backward.specialization.executable) for d in derivatives):
        return None
    return _Linker(nodes, entries).linked(variables)


class _Linker:
    """Makes the parts of a linked program. Its inputs are the cotangents of the heads, then what each call keeps."""

    def __init__(self, nodes: Sequence[Recorded], entries: Sequence[Entry]) -> None:
        self.nodes = nodes
        self.sizes: list[int] = []
        self.parts: list[Part] = []
        self.sums: dict[Entry, tuple[int, TensorType]] = {}
        self.heads = [self._value(_type_of(entry)) for entry in entries]
        self.kept = [[self._value(t) for t in _kept_types(node)] for node in nodes]
        self.inputs = len(self.sizes)
        for entry, value in zip(entries, self.heads, strict=True):
            self._add(entry, value, _type_of(entry))

    def _value(self, type: TensorType) -> int:
        self.sizes.append(type.nbytes)
        return len(self.sizes) - 1

    def _add(self, entry: Entry, value: int, type: TensorType) -> None:
        """Add a gradient to those of an entry, in the order of `pull_back` and by the same program."""
        known = self.sums.get(entry)
        if known is None:
            self.sums[entry] = value, type
            return
        found = bind(operator_named("broadcast_add"), {}).function.specialise((type, type), training=False)
        total = self._value(type)
        self.parts.append(Part(cast("Executable", found.executable), (known[0], value), (total,)))
        self.sums[entry] = total, type

    def linked(self, variables: Sequence[Variable]) -> _LinkedTape:
        for node, kept in zip(self.nodes, self.kept, strict=True):
            self._pull(node, kept)
        found = [self.sums[Entry(variable)] for variable in variables]
        program = LinkedProgram(self.parts, self.inputs, [value for value, _ in found], self.sizes)
        return _LinkedTape(program, [type for _, type in found])

    def _pull(self, node: Recorded, kept: Sequence[int]) -> None:
        pull = cast("CompiledPullback", node.pull)
        given = [self.sums.pop(Entry(node, i), None) for i in range(node.results)]
        seeds = [
            self._value(type) if cotangent is None else cotangent[0]
            for cotangent, type in zip(given, pull.types, strict=True)
            if type.dtype.is_float
        ]
        backward = pull.forward.derivative.backward.specialization
        results = [self._value(type) for type in backward.types]
        self.parts.append(Part(cast("Executable", backward.executable), (*kept, *seeds), tuple(results)))
        for entry, value, type in zip(node.operands, results, backward.types, strict=True):
            self._add(entry, value, type)


def _type_of(entry: Entry) -> TensorType:
    """The type of an entry of the tape that is a head."""
    node = entry.node
    if isinstance(node, Variable):
        return node.array._type()
    return cast("CompiledPullback", node.pull).types[entry.position]


def _kept_types(node: Recorded) -> Sequence[TensorType]:
    derivative = _forward(node).derivative
    return derivative.backward.specialization.executable.inputs[: len(derivative.residuals)]
