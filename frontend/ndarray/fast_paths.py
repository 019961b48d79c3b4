"""Fast paths: functions made for the calls of one signature.

A fast path makes the arrays of the results, passes the addresses of all operands to the program in one call, registers
writes, and puts the call on the tape. It has no loops over operands and no decisions that depend on the signature. Its
text depends on the `Form` of the call. Signatures of one form share the code and have constants of their own: the
program, the shapes and dtypes of the results.

A fast path belongs to one device. It raises DeviceError, and has changed nothing, for operands that are not in the
memory of this device or that the program cannot use, and while launches are observed. Then callers take the slow path,
which makes a fast path for the device of the operands.
"""

from __future__ import annotations

import builtins
import symtable
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ...ir.caches import Cache
from ...ir.types import TensorType
from ...runtime.calls_by_run import bound_by_run, direct_by_run
from ...runtime.device import Address, BoundCall, DeviceError, DirectCall
from ...runtime.writes import clock, watched, written
from ..context import current_context
from .array_classes import array_class, number_class
from .tape import CompiledPullback, Entry, ForwardRun, Recorded, memory_of, random_key, times

if TYPE_CHECKING:
    from ...runtime.function import Specialization


class FastPath(Protocol):
    """A function of the arguments of a call. It belongs to `owner`: a device, or parameters of certain types on one.

    `recorded` is the path of a call that a tape records, None if that takes the slow path.
    """

    owner: object
    recorded: Callable[..., Any] | None

    def __call__(self, *args: Any) -> Any: ...


def as_path(call: Any, owner: object, recorded: Callable[..., Any] | None = None) -> FastPath:
    """A function as a fast path."""
    call.owner, call.recorded = owner, recorded
    return call


def remember(paths: Cache[Any, FastPath], key: Hashable, owner: object, make: Callable[[], FastPath]) -> None:
    """Keep the fast path of an owner. It replaces that of another one: keys have no owners, which would make look-ups
    slower."""
    known = paths.find(key)
    if known is None or known.owner is not owner:
        paths.replace(key, make())


class Form(NamedTuple):
    """What the text of a fast path depends on.

    A call gets `arguments` arrays: "x0", "x1", ... `operands` has, for each input of the program, an argument, a
    parameter ("p0", "p1", ...), "number" or "key". `results` has, for each output of the program, the argument that it
    overwrites, "new", or "halo" for a new array with a halo of zeros. The first `returned` results are returned: one as
    an array, several as a list.

    The program replaces the arguments `replaced`. The call refuses if arguments of a pair in `disjoint` share memory.

    With `keywords` a call gets its arguments as a tuple and a dictionary, which has the numbers, and returns what the
    dictionary has as `out` if its results overwrite arguments. With `bound` the program is bound to the parameters of a
    block. With `kept` a call is recorded. These are the residuals: inputs (True, position) and outputs of the program
    (False, position). The first argument of such a call is the tuple of the entries of the operands that a gradient is
    by. With `numpy` the arrays are those of `mx.np`; the call refuses operands that are not.
    """

    arguments: int
    operands: tuple[str, ...]
    results: tuple[str, ...]
    returned: int
    replaced: tuple[str, ...] = ()
    disjoint: tuple[tuple[str, str], ...] = ()
    keywords: bool = False
    bound: bool = False
    kept: tuple[tuple[bool, int], ...] | None = None
    numpy: bool = False


def arguments(count: int) -> list[str]:
    """The names of the arguments of a call."""
    return [f"x{i}" for i in range(count)]


def new_results(types: Sequence[TensorType]) -> tuple[str, ...]:
    """New results of these types."""
    return tuple(["halo" if memory_of(type)[1] else "new" for type in types])


def with_key(operands: Iterable[str], specialization: Specialization) -> tuple[str, ...]:
    """The operands of a form, with the random key if the program takes one."""
    listed = list(operands)
    if specialization.random is not None:
        listed.insert(specialization.random.input, "key")
    return tuple(listed)


def direct_call(specialization: Specialization) -> DirectCall:
    """A run of a program as a function of addresses. A program that takes a random key is run by `run`, which does not
    refuse while launches are observed: after a refusal the slow path would draw another key."""
    return (
        specialization.executable.direct_call()
        if specialization.random is None
        else direct_by_run(specialization.executable)
    )


def bound_call(specialization: Specialization, fixed: Mapping[int, Address]) -> BoundCall:
    """`direct_call` of a program with parameters at these addresses."""
    return (
        specialization.executable.bound_call(fixed)
        if specialization.random is None
        else bound_by_run(specialization.executable, fixed)
    )


def fast_path(form: Form, specialization: Specialization, **constants: Any) -> Callable[..., Any]:
    """The function of a form for the program of a specialization.

    `constants` are `run`, a direct call of the program, and what else the form needs: `fill`, `values` and `free` for
    numbers; `context`, `bind` and `parameters` for a bound program; `derivative`, `function` and `types` for a recorded
    call. `bind` returns `run`, the version of the parameters and the time of their last write.
    """
    names, make = _text(form)
    constants |= {"program": specialization, "allocate": specialization.device.allocate}
    for i, type in enumerate(specialization.types):
        shape, _ = memory_of(type)
        constants |= {f"type{i}": type, f"shape{i}": shape, f"dtype{i}": type.dtype, f"nbytes{i}": type.nbytes}
    return make(*[constants[name] for name in names])


_SHARED: dict[str, Any] = {
    "__name__": __name__,
    "new": object.__new__,
    "new_tuple": tuple.__new__,
    **{x.__name__: x for x in (CompiledPullback, DeviceError, Entry, ForwardRun, Recorded)},
    **{x.__name__: x for x in (current_context, random_key, written)},
    "clock": clock,
    "watched": watched,
    "times": times,
}
"""What the text of every form can use."""


@cache
def _text(form: Form) -> tuple[list[str], Callable[..., Callable[..., Any]]]:
    """The names of the constants of a form, and a function from these constants to a fast path."""
    lines = ["    run = stamp = seen = None"] if form.bound else []
    lines += [*(f"    {line}" for line in _Text(form).call()), "    return call"]
    array = array_class("numpy" if form.numpy else "default")
    space = {**_SHARED, "array": array, "number": number_class()}
    names = [name for name in _names_used(lines) if name not in space and not hasattr(builtins, name)]
    text = "\n".join([f"def make({', '.join(names)}):", *lines])
    exec(compile(text, "<fast path>", "exec"), space)
    return names, space["make"]


def _names_used(lines: Sequence[str]) -> Sequence[str]:
    """The names that the function in these lines uses, and that nothing in them defines."""
    (outer,) = symtable.symtable("\n".join(["def make():", *lines]), "<fast path>", "exec").get_children()
    (function,) = outer.get_children()
    return sorted(symbol.get_name() for symbol in function.get_symbols() if symbol.is_global())


class _Text:
    """The text of the fast paths of a form. Result i is `ri` if it is new, and `ai` its address."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.arguments = arguments(form.arguments)
        self.new = {i: kind for i, kind in enumerate(form.results) if kind in ("new", "halo")}
        self.results = [f"r{i}" if i in self.new else name for i, name in enumerate(form.results)]
        self.context = "x0._context" if self.arguments and not form.bound else "context"

    def call(self) -> list[str]:
        body = [*self._head(), *self._new_results(), *self._run(), *self._written(), *self._recorded(), *self._end()]
        return [f"def call({self._parameters()}):", *(f"    {line}" for line in body)]

    def _parameters(self) -> str:
        if self.form.keywords:
            return "args, kwargs"
        return ", ".join([*(["entries"] if self.form.kept is not None else []), *self.arguments])

    def _head(self) -> list[str]:
        """Take the arguments, and bind the program again if the parameters changed."""
        form, lines = self.form, list[str]()
        if form.numpy and self.arguments and not form.keywords:
            refused = [f"{x}.__class__ is not array and {x}.__class__ is not number" for x in self.arguments]
            lines += [f"if {' or '.join(refused)}:", "    raise DeviceError"]
        if form.bound:
            lines += ["nonlocal run, stamp, seen", "if seen != clock.now:", "    run, stamp, seen = bind()"]
        elif not self.arguments:
            lines += ["context = current_context()"]
        if form.keywords and self.arguments:
            lines += [f"({', '.join(self.arguments)},) = args"]
        for x, y in form.disjoint:
            lines += [f"if {x}._storage is {y}._storage:", "    raise DeviceError"]
        if "key" in form.operands:
            for x in self.arguments:
                lines += [f"if {x}._storage.device is not program.device:", "    raise DeviceError"]
            lines += [f"key = random_key(program, {self.context})"]
        return lines

    def _new_results(self) -> list[str]:
        lines: list[str] = []
        for i, kind in self.new.items():
            memory = f"allocate(nbytes{i})" if kind == "new" else f"derivative.memory.take(type{i})"
            lines += [f"r{i} = new(array)", f"r{i}._storage = storage = {memory}"]
            lines += [f"r{i}._address = a{i} = storage.address", f"r{i}._shape = shape{i}"]
            lines += [f"r{i}._dtype = dtype{i}", f"r{i}._context = {self.context}"]
        return lines

    def _run(self) -> list[str]:
        addresses: list[str] = []
        numbers = 0
        for name in self.form.operands:
            if name == "number":
                addresses.append(f"numbers[{numbers}]")
                numbers += 1
            elif not name.startswith("p"):
                addresses.append(f"{name}._address")
        addresses += [f"a{i}" if i in self.new else f"{name}._address" for i, name in enumerate(self.form.results)]
        run = f"run({', '.join(addresses)})"
        if not self.form.keywords:
            return [run]
        return ["block = fill(values(kwargs))", "numbers = block.addresses", run, "free.append(block)"]

    def _written(self) -> list[str]:
        changed = dict.fromkeys((*self.form.replaced, *self.form.results))
        return [f"if id({x}._storage) in watched: written({x}._storage)" for x in changed if x in self.arguments]

    def _recorded(self) -> list[str]:
        """Put the call on the tape."""
        form = self.form
        if form.kept is None:
            return []
        inputs = [f"parameters[{name[1:]}]" if name.startswith("p") else name for name in form.operands]
        kept = [inputs[i] if is_input else self.results[i] for is_input, i in form.kept]
        lines = ["forward = new(ForwardRun)", f"forward.derivative, forward.context = derivative, {self.context}"]
        lines += [f"forward.version = {'stamp' if form.bound else 0}", f"forward.operands = [{', '.join(inputs)}]"]
        lines += [f"forward.results = [{', '.join(self.results)}]", f"forward.kept = [{', '.join(kept)}]"]
        lines += ["pull = new(CompiledPullback)", "pull.function, pull.forward, pull.types = function, forward, types"]
        lines += ["node = new(Recorded)", "node.number, node.operands = next(times), entries"]
        lines += [f"node.pull, node.results = pull, {form.returned}"]
        return lines + [f"r{i}._entry = new_tuple(Entry, (node, {i}))" for i in range(form.returned)]

    def _end(self) -> list[str]:
        if self.form.keywords and self.form.results and not self.new:
            return ['return kwargs["out"]']
        returned = ", ".join(self.results[: self.form.returned])
        return [f"return [{returned}]" if self.form.returned > 1 else f"return {returned}"]
