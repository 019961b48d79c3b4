"""The tape: calls that were recorded for gradients, and the backward pass through them.

    Variable    an array with a gradient (`attach_grad`): where the backward pass ends
    Recorded    a call whose results depend on variables, with what its gradient reads
    Entry       one result of a recorded call, or a variable; an array on the tape refers to its entry

Recorded calls refer to those that their operands come from, and arrays to the calls that made them, so what no array
and no later call needs is freed. Threads record separately: a tape is only reached through arrays.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Generator, Hashable, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ...ir.graph import GraphError
from ...ir.types import DType, TensorType
from ...runtime.modes import modes, set_recording
from ...runtime.random_keys import key_in_memory
from ...runtime.writes import written
from ..base import MXNetError
from ..tracebacks import cause_of
from .array_classes import array_at, empty_array, zero_array
from .row_sums import row_sum

if TYPE_CHECKING:
    from ...ir.dialects.mx.operator import Operator
    from ...ir.graph import RandomKey
    from ...runtime.derivative import Compiled, Derivative, Differentiable
    from ...runtime.device import Device
    from ...runtime.function import Specialization
    from ..context import Context
    from .ndarray import NDArray

NOT_RECORDED = (
    "Cannot differentiate node because it is not in a computational graph. You need to set is_recording to true or use "
    "autograd.record() to save computational graphs for backward. If you want to differentiate the same graph twice, "
    "you need to pass retain_graph=True to backward."
)
IN_PLACE = (
    "Assigning to NDArrays that are already in a computational graph will cause undefined behavior when evaluating "
    "gradients. Please call backward first to clear the graph or do this out side of a record section. Also note that "
    "you cannot use inplace operations like +=, *=, relu(x, out=x), y[idx]=x, etc inside a record section."
)


times = itertools.count()
"""The places in time of variables and calls."""


class Variable:
    """The gradient of an array. `array` receives it according to `req`: "write", "add" or "null".

    `make` makes that array when it is first needed. `fresh` is True from a backward pass until an update clears it.
    `number` is unique; `rows` is True if the array is row-sparse. `spent` is True after a backward pass that freed its
    graph, if `req` is "null": as in MXNet, the variable then has no gradient. `final` is a larger number than those of
    variables whose gradients were final before in the last backward pass, if `finality.is_wanted`; `receiver` takes the
    gradient in a backward pass. The array is made once; `req`, `rows` and `number` do not change.
    """

    __slots__ = ("__weakref__", "_array", "_make", "final", "fresh", "number", "receiver", "req", "rows", "spent")
    pull = ()
    """A variable is never freed; see `Recorded`."""

    def __init__(self, req: str, make: Callable[[], NDArray], rows: bool = False) -> None:
        self.req, self.fresh, self.rows, self.number = req, False, rows, next(times)
        self.spent, self.final = False, 0
        self.receiver: Receiver | None = None
        self._make = make
        self._array: NDArray | None = None

    @property
    def is_made(self) -> bool:
        """False while the gradient is zeros that have no memory yet."""
        return self._array is not None

    @property
    def array(self) -> NDArray:
        """The array that receives the gradient."""
        if self._array is None:
            self._array = self._make()
        return self._array


class Receiver(Protocol):
    """Takes the gradients of variables in a backward pass.

    If `is_armed`, a backward pass that computes all gradients of `buckets` writes the elements of each bucket one after
    another to one of `buffers`, and takes a collective of each in this order, `receiving` them."""

    is_armed: bool
    buckets: tuple[tuple[Variable, ...], ...]

    @property
    def buffers(self) -> list[NDArray]:
        """Memory for the buckets; other memory in other passes."""
        ...

    def receiving(self) -> AbstractContextManager[None]:
        """Run the backward pass in the body, and register the writes to the gradients there."""
        ...


class _Finality:
    """Whether a backward pass sets `Variable.final`."""

    is_wanted = False


finality = _Finality()


class Origin(NamedTuple):
    """What a recorded call called: an operator or a symbol, and its operands.

    `wrt` are the positions of the operands that its gradient is by; they can be None. `numbers` begins with the scalar
    parameters of an operator, if they are not part of it.
    """

    function: Any
    operands: Sequence[NDArray | None]
    wrt: Sequence[int]
    numbers: Sequence[NDArray] = ()


class Entry(NamedTuple):
    """The result at `position` of a recorded call, or a variable (position 0)."""

    node: Recorded | Variable
    position: int = 0


class Pullback(Protocol):
    """The gradient of one recorded call."""

    def __call__(self, cotangents: list[NDArray | None], differentiable: bool) -> Sequence[NDArray | None]:
        """The cotangents of the call's `operands` from those of its results, None for one that is zero. They are on
        the tape themselves if they are to be `differentiable`."""
        ...

    def origin(self) -> Origin | None:
        """What was called; None for a function in Python and for gradients."""
        ...


class Recorded:
    """A call on the tape.

    `operands` are the entries of the operands that it is differentiated by, `number` its place in time. `pull` is None
    once the graph was freed.
    """

    __slots__ = ("__weakref__", "number", "operands", "pull", "results")
    rows = False
    """No gradient of a call is row-sparse; see `Variable`."""

    def __init__(self, operands: tuple[Entry, ...], pull: Pullback, results: int) -> None:
        self.number = next(times)
        self.operands, self.results = operands, results
        self.pull: Pullback | None = pull


def entry_of(array: Any) -> Entry | None:
    """The entry of an array on the tape; None for all others, and after a backward pass freed the array's call."""
    entry: Entry | None = getattr(array, "_entry", None)
    if entry is not None and isinstance(entry.node, Recorded) and entry.node.pull is None:
        return None
    return entry


def is_recorded(arrays: Sequence[Any]) -> bool:
    """Whether this thread records and a call on these arrays is part of a gradient."""
    return modes.recording and any(entry_of(a) is not None for a in arrays)


def require_writable(array: NDArray) -> None:
    """MXNetError for an array on the tape while this thread records: its old elements may be part of a gradient."""
    if modes.recording and entry_of(array) is not None:
        raise MXNetError(IN_PLACE)


def variable_of(array: Any) -> Variable | None:
    """The gradient of an array, if it is a variable."""
    entry = entry_of(array)
    return entry.node if entry is not None and isinstance(entry.node, Variable) else None


def record(operands: Sequence[NDArray], wrt: Sequence[int], pull: Pullback, results: Sequence[NDArray]) -> None:
    """Put a call on the tape, whose gradient is by the operands `wrt`."""
    entries = [entry_of(operands[i]) for i in wrt]
    node = Recorded(tuple([e for e in entries if e is not None]), pull, len(results))
    for i, array in enumerate(results):
        array._entry = Entry(node, i)


def record_copy(source: NDArray, copy: NDArray) -> None:
    """Put a copy on the tape, which may be on another device: its gradient is a copy in the other direction."""
    record([source], [0], _CopyPullback(source._context), [copy])


class _CopyPullback:
    """The gradient of a copy."""

    __slots__ = ("context",)

    def __init__(self, context: Context) -> None:
        self.context = context

    def __call__(self, cotangents: list[NDArray | None], differentiable: bool) -> Sequence[NDArray | None]:
        (cotangent,) = cotangents
        return [None if cotangent is None else cotangent.as_in_context(self.context)]

    def origin(self) -> Origin:
        from ...ir.dialects.mx.operator import lookup

        return Origin(lookup("_copyto")(), [None], [0])


def record_without_gradient(operator: Operator, operands: Sequence[NDArray], results: Sequence[NDArray]) -> None:
    """Put a call of an operator without a gradient on the tape: a backward pass through it raises MXNetError."""
    wrt = [i for i, a in enumerate(operands) if entry_of(a) is not None]
    record(operands, wrt, _NoPullback(Origin(operator, operands, wrt)), results)


class _NoPullback:
    __slots__ = ("called",)

    def __init__(self, called: Origin) -> None:
        self.called = called

    def __call__(self, cotangents: list[NDArray | None], differentiable: bool) -> Sequence[NDArray | None]:
        if all([c is None for c in cotangents]):
            return [None] * len(self.called.wrt)
        raise MXNetError(f"Operator {self.called.function.mx_name()} is non-differentiable")

    def origin(self) -> Origin:
        return self.called


# -- calls of compiled functions


def wrt_of(arrays: Sequence[NDArray]) -> tuple[int, ...]:
    """The positions of the operands that a gradient is by."""
    return tuple([i for i, a in enumerate(arrays) if a._dtype.has_cotangent and entry_of(a) is not None])


def call_recorded(
    function: Differentiable,
    arrays: Sequence[NDArray],
    count: int,
    version: Hashable = 0,
    cls: type[NDArray] | None = None,
) -> list[NDArray]:
    """Run a function and record the call. Returns its first `count` results, as arrays of `cls` or of `mx.nd`.

    GraphError names a node that has no gradient.
    """
    wrt = wrt_of(arrays)
    rows = [k for k, i in enumerate(wrt) if getattr(variable_of(arrays[i]), "rows", False)]
    run = ForwardRun(function.derivative(wrt, rows), arrays, (), version)
    results = run.results[:count]
    if cls is not None:
        for result in results:
            result.__class__ = cls
    record(run.operands, wrt, CompiledPullback(function, run, [r._type() for r in results]), results)
    return results


class ForwardRun:
    """A run of the forward program of a derivative, with what its backward program reads.

    `operands` are the arrays and the random key, if the program takes one; `results` begin with `outputs`, which are
    arrays of the right types.
    """

    __slots__ = ("context", "derivative", "kept", "operands", "results", "version")

    def __init__(
        self, derivative: Derivative, arrays: Sequence[NDArray], outputs: Sequence[NDArray], version: Hashable
    ) -> None:
        self.derivative, self.version, self.context = derivative, version, arrays[0]._context
        forward = derivative.forward.specialization
        self.operands = list(arrays)
        if forward.random is not None:
            self.operands.insert(forward.random.input, random_key(forward, self.context))
        more = forward.types[len(outputs) :]
        self.results = [*outputs, *[self._result(t) for t in more]]
        addresses = [a._address for a in self.operands], [r._address for r in self.results]
        with self._python_modes():
            forward.run_with_key(*addresses, version)
        for i in forward.state:
            written(self.operands[i]._storage)
        self.kept = [(self.operands if s.is_input else self.results)[s.position] for s in derivative.residuals]

    @property
    def wrt(self) -> tuple[int, ...]:
        """The positions of the operands that the gradients are by."""
        return self.derivative.wrt

    @property
    def reads_cotangent(self) -> tuple[bool, ...]:
        """For each result that can have a gradient whether the gradients depend on its cotangent: a loss ignores it."""
        return self.derivative.traits.reads_cotangent

    def _python_modes(self, added: Container[int] = ()) -> AbstractContextManager[object]:
        """The modes that functions in Python read, if the programs call some."""
        return _python_modes(self.context, added) if self.derivative.calls_python else _NO_MODES

    def _result(self, type: TensorType) -> NDArray:
        """An array for a result; for a residual in blocks, an array of its physical shape."""
        shape, has_halo = memory_of(type)
        if not has_halo:
            return empty_array(shape, type.dtype, self.context)
        memory = self.derivative.memory.take(type)
        return array_at(memory, memory.address, shape, type.dtype, self.context)

    def gradients(
        self, cotangents: Sequence[NDArray], into: Sequence[NDArray | None] = (), added: Container[int] = ()
    ) -> list[NDArray]:
        """The gradients, in order of the derivative's `wrt`.

        One with an array in `into` is written there. The array must have its type and share no memory with operands.
        The caller adds those by the operands `added` to earlier ones.
        """
        derivative = self.derivative
        with self._python_modes(added):
            gradients = execute(derivative.backward, [*self.kept, *cotangents], self.context, self.version, into)
        if not derivative.rows:
            return gradients
        shapes = [self.operands[i]._shape for i in derivative.wrt]
        results = iter(gradients)
        return [
            row_sum(next(results), next(results), shape) if k in derivative.rows else next(results)
            for k, shape in enumerate(shapes)
        ]


@contextmanager
def _python_modes(context: Context, added: Container[int]) -> Generator[None]:
    before, modes.added = modes.added, added
    try:
        with context:
            yield
    finally:
        modes.added = before


_NO_MODES = nullcontext()


def memory_of(type: TensorType) -> tuple[tuple[int, ...], bool]:
    """The shape in which a value is stored, and whether it has a halo, which is zero."""
    layout = type.layout
    if layout is None:
        return type.shape, False
    return layout.physical_shape(type.shape), any(map(any, layout.halo))


def random_key(program: Specialization, context: Context) -> NDArray:
    """The next random key of a context, for a run of a program that takes one."""
    assert program.random is not None
    return key_array(context, program.random, program.device)


def key_array(context: Context, random: RandomKey, device: Device) -> NDArray:
    """The next random key of a context, in the memory of a device."""
    block = key_in_memory(context, random.draws, device)
    return array_at(block, block.address, (4,), DType.U32, context)


class CompiledPullback:
    """The gradient of a call of a compiled function, whose results had these types. Without the function the gradient
    cannot be differentiated itself."""

    __slots__ = ("forward", "function", "types")

    def __init__(self, function: Differentiable | None, forward: ForwardRun, types: Sequence[TensorType]) -> None:
        self.function, self.forward, self.types = function, forward, types

    def __call__(self, cotangents: list[NDArray | None], differentiable: bool) -> Sequence[NDArray | None]:
        run, derivative = self.forward, self.forward.derivative
        if not derivative.runs(any([c is not None for c in cotangents])):
            return [None] * len(derivative.wrt)
        seeded = [(c, t) for c, t in zip(cotangents, self.types, strict=True) if t.dtype.has_cotangent]
        seeds = [zeros_of(t, run.context) if c is None else dense_cotangent(c) for c, t in seeded]
        if not differentiable or derivative.calls_python:
            return self._once(seeds, differentiable)
        assert self.function is not None
        return differentiable_gradients(self.function, derivative.wrt, run.operands, seeds, run.context, run.version)

    def _once(self, seeds: Sequence[NDArray], recorded: bool) -> Sequence[NDArray | None]:
        """The gradients, which cannot be differentiated again."""
        run = self.forward
        operands = {i: variable_of(run.operands[i]) for i in run.wrt} if run.derivative.calls_python else {}
        gradients = run.gradients(seeds, (), [i for i, v in operands.items() if v is not None and v.req == "add"])
        if recorded:
            record(run.operands, run.wrt, NotTwice(), gradients)
        return [None if z else g for g, z in zip(gradients, run.derivative.traits.zero, strict=True)]

    def reads_cotangent(self, position: int) -> bool:
        """Whether the gradient depends on the cotangent of a result that can have one."""
        number = sum(t.dtype.has_cotangent for t in self.types[:position])
        return self.forward.derivative.traits.reads_cotangent[number]

    def origin(self) -> Origin | None:
        if self.function is None or self.function.origin is None:
            return None
        function, count = self.function.origin
        operands = self.forward.operands
        return Origin(function, operands[:count], self.forward.derivative.wrt, operands[count:])


def dense_cotangent(cotangent: NDArray) -> NDArray:
    """A cotangent as a dense array."""
    return cotangent.tostype("default") if cotangent._is_sparse else cotangent


def differentiable_gradients(
    function: Differentiable,
    wrt: Sequence[int],
    operands: Sequence[NDArray],
    seeds: Sequence[NDArray],
    context: Context,
    version: Hashable = 0,
) -> Sequence[NDArray | None]:
    """The gradients by the operands `wrt` for cotangents of the results that can have one, on the tape themselves."""
    gradient = function.gradient(wrt)
    operands, read = [*operands, *seeds], gradient.read_operands()
    # calls whose results the gradient does not read are not differentiated: a loss would add its own gradient
    operands = [a if i in read or variable_of(a) else a.detach() for i, a in enumerate(operands)]
    if is_recorded(operands):
        return call_recorded(gradient, operands, len(wrt), version)
    return execute(gradient, operands, context, version)


class NotTwice:
    """The gradient of a gradient of functions in Python, which does not exist."""

    def __call__(self, cotangents: list[NDArray | None], differentiable: bool) -> Sequence[NDArray | None]:
        raise MXNetError(
            "Operator _backward_Custom is non-differentiable because it didn't register FGradient attribute."
        )

    def origin(self) -> None:
        return None


def execute(
    function: Differentiable | Compiled,
    arrays: Sequence[NDArray],
    context: Context,
    version: Hashable,
    into: Sequence[NDArray | None] = (),
) -> list[NDArray]:
    """The results of a function that takes no random key. Those with an array in `into` are written there."""
    specialization = function.specialization
    targets = [*into, *[None] * (len(specialization.types) - len(into))]
    results = [
        empty_array(t.shape, t.dtype, context) if a is None else a
        for t, a in zip(specialization.types, targets, strict=True)
    ]
    specialization.run_with_key([a._address for a in arrays], [r._address for r in results], version)
    for i in specialization.state:
        written(arrays[i]._storage)
    return results


def zeros_of(type: TensorType, context: Context) -> NDArray:
    """A new array of zeros."""
    return zero_array(type.shape, type.dtype, context)


# -- the backward pass


Observe = Callable[[Recorded, Sequence["NDArray | None"], Sequence["NDArray | None"]], None]


def entries_of(heads: Sequence[NDArray]) -> list[Entry]:
    """The entries of the heads of a backward pass. MXNetError for a head that is not on the tape."""
    entries: list[Entry] = []
    for head in heads:
        entry = getattr(head, "_entry", None)
        if entry is None or entry[0].pull is None:
            raise MXNetError(NOT_RECORDED)
        entries.append(entry)
    return entries


def reads_cotangent(entry: Entry) -> bool:
    """Whether the gradient of the call that an entry is a result of depends on its cotangent: a loss ignores it."""
    pull = None if isinstance(entry.node, Variable) else entry.node.pull
    reads = getattr(pull, "reads_cotangent", None)
    return True if reads is None else reads(entry.position)


def calls_before(entries: Sequence[Entry]) -> list[Recorded]:
    """The calls that the entries depend on, the last one first. MXNetError if a backward pass freed one of them."""
    nodes: list[Recorded] = []
    seen: set[Recorded | Variable] = set()
    stack: list[Entry] = list(entries)
    while stack:
        node, _ = stack.pop()
        if isinstance(node, Variable) or node in seen:
            continue
        if node.pull is None:
            raise MXNetError(NOT_RECORDED)
        seen.add(node)
        nodes.append(node)
        stack += node.operands
    nodes.sort(key=_NUMBER, reverse=True)
    return nodes


def calls_after(nodes: Sequence[Recorded], variables: Iterable[Variable]) -> list[Recorded]:
    """Those of the calls, the last one first, that depend on the variables."""
    reached: set[Recorded | Variable] = set(variables)
    for node in reversed(nodes):
        if any(entry.node in reached for entry in node.operands):
            reached.add(node)
    return [node for node in nodes if node in reached]


def pull_back(
    nodes: Sequence[Recorded],
    entries: Sequence[Entry],
    cotangents: Sequence[NDArray],
    differentiable: bool = False,
    observe: Observe | None = None,
) -> dict[Variable, NDArray | None]:
    """The gradients of the entries, each weighted by its cotangent, by the variables that they depend on; None for one
    that is zero. `nodes` are the calls before them, or those of them that depend on some variables.
    `observe(call, cotangents, gradients)` is called for each of them."""
    sums: dict[Entry, NDArray] = {}
    for entry, cotangent in zip(entries, cotangents, strict=True):
        _add(sums, entry, cotangent)
    recording = set_recording(differentiable)
    try:
        for node in nodes:
            _pull_node(node, sums, differentiable, observe)
    except GraphError as error:
        raise MXNetError(str(error)) from cause_of(error)
    finally:
        set_recording(recording)
    reached = {e.node: None for node in nodes for e in node.operands if isinstance(e.node, Variable)}
    return {**reached, **{e.node: g for e, g in sums.items() if isinstance(e.node, Variable)}}


def free(nodes: Sequence[Recorded]) -> None:
    """Free what calls keep for their gradients. They cannot be differentiated again."""
    for node in nodes:
        node.pull, node.operands = None, ()


_NUMBER = attrgetter("number")


def _pull_node(node: Recorded, sums: dict[Entry, NDArray], differentiable: bool, observe: Observe | None) -> None:
    cotangents = [sums.pop(Entry(node, i), None) for i in range(node.results)]
    assert node.pull is not None
    gradients = node.pull(cotangents, differentiable)
    if observe is not None:
        observe(node, cotangents, gradients)
    for entry, gradient in zip(node.operands, gradients, strict=True):
        if gradient is not None:
            _add(sums, entry, gradient)


def _add(sums: dict[Entry, NDArray], entry: Entry, gradient: NDArray) -> None:
    before = sums.get(entry)
    sums[entry] = gradient if before is None else before + gradient
