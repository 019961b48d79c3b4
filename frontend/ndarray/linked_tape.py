"""A backward pass as one program: the backward programs of the recorded calls in sequence.

The structure of a tape is, for each call, its derivative and the entries of its operands. Each structure has a program
(`ir/program_combination.py`), made when the structure is seen for the second time, or at once for a few calls. It runs
the same machine code as the calls one by one, so the gradients are the same bit for bit.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

from ...ir.caches import Cache
from ...ir.program_combination import Use, sequence, why_alone
from ...ir.program_rewrite import combine_outputs
from ...ir.step_accesses import last_accesses
from ...ir.types import TensorType
from ...runtime.device import DeviceError, Runnable
from ...runtime.loaded_program import LoadedProgram
from ...runtime.program_bytes import count_program
from ...runtime.shared_state import shares_state
from ...runtime.writes import WrittenTogether, written
from .array_classes import empty_array
from .eager import bind, operator_named
from .tape import CompiledPullback, Entry, ForwardRun, Receiver, Recorded, Variable, finality

if TYPE_CHECKING:
    from ...runtime.device import Device
    from ..context import Context
    from .ndarray import NDArray

_FEW = 4
"""The calls of a tape that is linked when it is first seen, because that takes less time than to run it."""

_MUCH_SCRATCH = 64 << 20
"""Bytes of temporary values of the programs of a tape from which it is linked at once: linked, they share memory."""

Buckets = tuple[tuple[int, ...], ...]
"""Positions of gradients among those of a tape, which are exchanged together."""

_POSITIONS = 1 << 20  # more than a call has results


class _Structure:
    """A structure of tapes: how often it was seen, and its program. None if a call of it cannot be linked. `final` are
    the numbers of `Variable.final`."""

    def __init__(self) -> None:
        self.seen = 0
        self.linked: _LinkedTape | None = None
        self.final: list[int] = []


_structures: Cache[Hashable, _Structure] = Cache("tapes", 256, ages=True)


def linked_gradients(
    nodes: Sequence[Recorded], entries: Sequence[Entry], cotangents: Sequence[NDArray | None], direct: bool
) -> tuple[Mapping[Variable, NDArray | None], bool] | None:
    """The gradients as `pull_back` computes them, by one native call; None if the tape has no program. A cotangent that
    is None is ones.

    With `direct`, the gradients are written into the variables' arrays if that is possible for all of them. Returns
    whether they were.
    """
    variables: dict[Variable, int] = {}
    key = _structure_of(nodes, entries, variables)
    if key is None:
        return None
    structure = _structures.recent.get(key) or _structures.get(key, _Structure)
    structure.seen += 1
    if structure.linked is None and structure.seen == (1 if _is_linked_at_once(nodes) else 2):
        structure.linked = _link(nodes, entries, list(variables))
    if finality.is_wanted:
        structure.final = structure.final or _final(nodes, variables)
        for variable, number in zip(variables, structure.final, strict=True):
            variable.final = number
    if structure.linked is None:
        return None
    return structure.linked.run(nodes, cotangents, tuple(variables), direct)


def _is_linked_at_once(nodes: Sequence[Recorded]) -> bool:
    """True for a tape that is linked when it is first seen. One with a dynamic program may be that of shapes which do
    not return."""
    few = len(nodes) <= _FEW and not any(_forward(node).derivative.is_dynamic for node in nodes)
    return few or _scratch_bytes(nodes) > _MUCH_SCRATCH


def _scratch_bytes(nodes: Sequence[Recorded]) -> int:
    """The temporary values of all backward programs of these calls."""
    programs = {_forward(node).derivative.backward.specialization.executable for node in nodes}
    return sum(p.program.scratch_bytes for p in programs if isinstance(p, LoadedProgram))


def _structure_of(
    nodes: Sequence[Recorded], entries: Sequence[Entry], variables: dict[Variable, int]
) -> Hashable | None:
    """The structure of a tape, with variables by their number in `variables`, to which new ones are added. None for a
    tape with a call that has no backward program."""
    if not nodes:
        return None
    numbers: dict[Any, int] = {}
    key: list[Any] = []
    for node in nodes:
        pull = node.pull
        if pull.__class__ is not CompiledPullback or pull.forward.derivative.rows:  # type: ignore[union-attr]
            return None
        numbers[node] = len(numbers) * _POSITIONS
        key.append(pull.forward.derivative)  # type: ignore[union-attr]
    for group in (*map(_OPERANDS, nodes), entries):
        for operand, position in group:
            first = numbers.get(operand)
            if first is None:
                key.append(-1 - variables.setdefault(operand, len(variables)))  # type: ignore[arg-type]
            else:
                key.append(first + position)
    return tuple(key)


_OPERANDS = attrgetter("operands")


def _final(nodes: Sequence[Recorded], variables: Mapping[Variable, int]) -> list[int]:
    """The step of the backward pass after which the gradient by each variable is final."""
    final: dict[Any, int] = {}
    steps = 0
    for node in nodes:
        executable = _forward(node).derivative.backward.specialization.executable
        if not isinstance(executable, LoadedProgram):
            continue
        program = executable.program
        last, count = last_accesses(program), len(program.steps)
        for i, operand in enumerate(node.operands):
            final[operand.node] = steps + last.get(i, count)
        steps += count + 1
    return [final.get(variable, 0) for variable in variables]


class _LinkedTape:
    """The program of a structure: its results are the gradients of the variables. `heads` are the types of the
    cotangents, its first operands."""

    def __init__(self, program: Runnable, heads: Sequence[TensorType], device: Device) -> None:
        self.program, self.heads, self.types = program, tuple(heads), program.outputs
        self._device = device
        self._sizes = [t.nbytes for t in program.inputs]
        self._direct = program.direct_call()
        self._targets: _Targets | None = None
        self._sending: dict[Buckets, Runnable] = {}

    def run(
        self,
        nodes: Sequence[Recorded],
        cotangents: Sequence[NDArray | None],
        variables: Sequence[Variable],
        direct: bool,
    ) -> tuple[dict[Variable, NDArray], bool] | None:
        """The gradients of the variables, and whether their arrays are the variables' own. None if operands share
        memory with a state that the program replaces."""
        context = nodes[0].pull.forward.context  # type: ignore[union-attr]
        operands: list[NDArray] = []
        for type, cotangent in zip(self.heads, cotangents, strict=True):
            operands.append(_ones(type, context) if cotangent is None else cotangent)
        for node in nodes:
            operands += node.pull.forward.kept  # type: ignore[union-attr]
        addresses = list(map(_ADDRESS, operands))
        state = self.program.state
        if state and shares_state(addresses, self._sizes, state):
            return None
        targets = self._targets_of(variables, operands, context) if direct else None
        if targets is None:
            results = [empty_array(t.shape, t.dtype, context) for t in self.types]
            addresses += [r._address for r in results]
        else:
            results = targets.arrays
            addresses += targets.addresses
        receiver = targets.receiver() if finality.is_wanted and targets is not None else None
        if receiver is not None and targets is not None:
            self._send(receiver, targets, addresses, len(operands))
        else:
            try:
                self._direct(*addresses)
            except DeviceError:  # launches are observed
                self.program.run(addresses[: len(operands)], addresses[len(operands) :])
            if targets is not None:
                targets.written()
        for i in state:
            written(operands[i]._storage)
        return dict(zip(variables, results, strict=True)), targets is not None

    def _send(self, receiver: Receiver, targets: _Targets, addresses: list[Any], inputs: int) -> None:
        """Run the program, whose first addresses are its inputs, and let the receiver take the gradients."""
        buffers = [buffer._address for buffer in receiver.buffers]
        with receiver.receiving():
            self._sending_to(targets).run(addresses[:inputs], [*addresses[inputs:], *buffers])
            targets.written()

    def _sending_to(self, targets: _Targets) -> Runnable:
        """The program that also writes the buckets of gradients of a receiver, and takes a collective of each."""
        if targets.buckets not in self._sending:
            program = cast("LoadedProgram[Any]", self.program).program
            self._sending[targets.buckets] = self._device.load(combine_outputs(program, targets.buckets))
        return self._sending[targets.buckets]

    def _targets_of(
        self, variables: Sequence[Variable], operands: Sequence[NDArray], context: Context
    ) -> _Targets | None:
        """Where the program can write the gradients: the variables' arrays. None if it cannot write all of them."""
        targets = self._targets
        if targets is None or targets.numbers != tuple(map(_NUMBER, variables)):
            targets = self._targets = _Targets(variables, self.types, context)
        used = map(id, map(_STORAGE, operands))
        return targets if targets.are_possible and targets.storages.isdisjoint(used) else None


_ADDRESS, _STORAGE, _NUMBER = attrgetter("_address"), attrgetter("_storage"), attrgetter("number")


class _Targets:
    """The arrays that receive the gradients of variables, which these numbers identify.

    `are_possible` if each variable's array is replaced, has the type of the gradient, and shares memory with no other.
    """

    def __init__(self, variables: Sequence[Variable], types: Sequence[TensorType], context: Context) -> None:
        self.numbers = tuple([v.number for v in variables])
        self.are_possible = all(
            v.req == "write" and _fits(v.array, t, context) for v, t in zip(variables, types, strict=True)
        )
        self.arrays = [v.array for v in variables] if self.are_possible else []
        self.addresses = [a._address for a in self.arrays]
        self.storages = frozenset(id(a._storage) for a in self.arrays)
        self.are_possible = self.are_possible and 0 < len(self.storages) == len(self.arrays)
        self.written = WrittenTogether(a._storage for a in self.arrays)
        self._variables = tuple(variables)
        self._known: tuple[tuple[Variable, ...], ...] | None = None
        self.buckets: Buckets = ()

    def receiver(self) -> Receiver | None:
        """What takes the gradients in this pass: it is armed, and the pass computes all that it expects. `buckets` are
        then the positions of its gradients."""
        receiver = next((v.receiver for v in self._variables if v.receiver is not None), None)
        if receiver is None or not receiver.is_armed:
            return None
        if self._known is not receiver.buckets:
            positions = {variable: i for i, variable in enumerate(self._variables)}
            self._known = receiver.buckets
            buckets = tuple(tuple(positions.get(v, -1) for v in bucket) for bucket in receiver.buckets)
            self.buckets = () if any(-1 in bucket for bucket in buckets) else buckets
        return receiver if self.buckets else None


def _fits(array: NDArray, type: TensorType, context: Context) -> bool:
    """True if an array is dense, of this type and on this context."""
    if array._is_sparse or array._context != context:
        return False
    return array._shape == type.shape and array._dtype is type.dtype


_ones_by_type: Cache[Any, NDArray] = Cache("ones", 64, lambda array: array._nbytes(), 16 << 20)
_recent_ones = _ones_by_type.recent


def _ones(type: TensorType, context: Context) -> NDArray:
    """Ones, which must not be written."""
    key = type.shape, type.dtype, context.device_typeid, context.device_id
    known_ones = _recent_ones.get(key)
    return known_ones if known_ones is not None else _ones_by_type.get(key, lambda: _new_ones(type, context))


def _new_ones(type: TensorType, context: Context) -> NDArray:
    ones = empty_array(type.shape, type.dtype, context)
    ones[:] = 1
    return ones


def _forward(node: Recorded) -> ForwardRun:
    return cast("CompiledPullback", node.pull).forward


def _link(nodes: Sequence[Recorded], entries: Sequence[Entry], variables: Sequence[Variable]) -> _LinkedTape | None:
    """The program of the structure of these calls; None if one of them cannot be linked."""
    derivatives = [_forward(node).derivative for node in nodes]
    if len({_forward(node).context for node in nodes}) > 1:
        return None
    if not all(_can_be_linked(d.backward.specialization.executable) for d in derivatives):
        return None
    return _Linker(nodes, entries).linked(variables)


def _can_be_linked(program: Runnable) -> bool:
    """True for a program that takes no random key and can be part of a sequence."""
    return isinstance(program, LoadedProgram) and program.random is None and not why_alone(program.program)


class _Linker:
    """Makes the uses of a sequence. Its inputs are the cotangents of the heads, then what each call keeps."""

    def __init__(self, nodes: Sequence[Recorded], entries: Sequence[Entry]) -> None:
        self.nodes, self.device = nodes, _forward(nodes[0]).derivative.backward.device
        self.types: list[TensorType] = []
        self.uses: list[Use] = []
        self.sums: dict[Entry, tuple[int, TensorType]] = {}
        self.head_types = [_type_of(entry) for entry in entries]
        heads = [self._value(type) for type in self.head_types]
        self.kept = [[self._value(t) for t in _kept_types(node)] for node in nodes]
        self.inputs = len(self.types)
        for entry, value, type in zip(entries, heads, self.head_types, strict=True):
            self._add(entry, value, type)

    def _value(self, type: TensorType) -> int:
        self.types.append(type)
        return len(self.types) - 1

    def _add(self, entry: Entry, value: int, type: TensorType) -> None:
        """Add a gradient to those of an entry, in the order of `pull_back` and by the same program."""
        known = self.sums.get(entry)
        if known is None:
            self.sums[entry] = value, type
            return
        addition = bind(operator_named("broadcast_add"), {}).function.specialise((type, type), False, self.device)
        total = self._value(type)
        self.uses.append(Use(cast("LoadedProgram[Any]", addition.executable).program, (known[0], value), (total,)))
        self.sums[entry] = total, type

    def linked(self, variables: Sequence[Variable]) -> _LinkedTape:
        for node, kept in zip(self.nodes, self.kept, strict=True):
            self._pull(node, kept)
        values = [(self.sums.get(Entry(variable)) or self._zeros(variable))[0] for variable in variables]
        programs = [_forward(node).derivative.backward.specialization.executable for node in self.nodes]
        loaded = cast("list[LoadedProgram[Any]]", programs)
        alignment = max(p.alignment for p in loaded)
        program = sequence("backward", self.types, self.inputs, self.uses, values, alignment)
        for p in loaded:  # from now on their programs run here, in other memory
            p.release()
        linked = self.device.load(program)
        count_program(linked)
        return _LinkedTape(linked, self.head_types, self.device)

    def _zeros(self, variable: Variable) -> tuple[int, TensorType]:
        """A gradient that no program computes."""
        type = variable.array._type()
        return self._value(type), type

    def _pull(self, node: Recorded, kept: Sequence[int]) -> None:
        pull = cast("CompiledPullback", node.pull)
        derivative = pull.forward.derivative
        cotangents = [self.sums.pop(Entry(node, i), None) for i in range(node.results)]
        if not derivative.runs(any(cotangents)):
            return
        seeds = [
            self._value(type) if cotangent is None else cotangent[0]
            for cotangent, type in zip(cotangents, pull.types, strict=True)
            if type.dtype.has_cotangent
        ]
        backward = derivative.backward.specialization
        results = [self._value(type) for type in backward.types]
        self.uses.append(Use(cast("LoadedProgram[Any]", backward.executable).program, (*kept, *seeds), tuple(results)))
        gradients = zip(node.operands, results, backward.types, derivative.traits.zero, strict=True)
        for entry, value, type, is_zero in gradients:
            if not is_zero:
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
