"""Runs compiled programs on the host.

A program's code is loaded once. An `Instance` has launch records (`records.py`) and an arena. A run writes the
addresses of its operands into the records and makes one native call.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from ...codegen.llvm.pool import RUN
from ...codegen.records import HOST_CALLS, Layout, as_launch
from ...ir.program import Computation, Launch, Place, Program, Space, all_steps
from ...ir.settings import settings
from ..checks import verify
from ..device import BoundCall, DeviceError, DirectCall
from ..loaded_program import LoadedProgram
from ..memory_limit import require_memory
from ..prepared import Prepared, PreparedPool
from ..storage import Storage
from .allocator import allocate, allocate_zeroed
from .arena import Arena, scratch_pool
from .loader import LoadedObject, load_objects, resolve_libc
from .records import Records
from .threads import ThreadPool, get_pool

if TYPE_CHECKING:
    from .host_calls import HostCalls

_SHORT_BYTES = 128 << 10  # memory of a program that runs while holding Python's lock (at most about 20 us)
_SHORT_LAUNCHES = 8
_OBSERVED = 2  # level of MXFORGE_DEBUG from which each launch is timed
_ONE = ctypes.c_int64(1)
_HAS_LOCK: bool = getattr(sys, "_is_gil_enabled", lambda: True)()  # some builds of Python have none
_ELSEWHERE = "a program of the host got an operand in the memory of another device"

Listener = Callable[[Program, Computation | None, int, int], None]

_listener: Listener | None = None


def listen(listener: Listener | None) -> None:
    """Register a callback `(program, launch, start_ns, end_ns)`, which runs after every launch of any program, and with
    None for the launch after every run of several launches. Times are those of `perf_counter_ns`. None removes the
    callback.

    With a callback programs take longer, because launches are timed one by one, and direct calls refuse to run.
    """
    global _listener  # noqa: PLW0603
    _listener = listener
    get_pool().direct_calls.refuse(listener is not None)


def is_observed() -> bool:
    """True if each launch is timed."""
    return _listener is not None or settings().debug >= _OBSERVED


class Executable(LoadedProgram["Instance"]):
    """A program in memory, ready to run from any number of threads."""

    def __init__(self, program: Program, prepared: PreparedPool | None = None) -> None:
        super().__init__(program, prepared, allocate_zeroed)
        require_memory(program.arena_bytes)  # here, where the caller can name the computation
        self._host = _host_calls(program)
        self._pool = get_pool()
        self._code = load_code(program.code)
        self._constants = filled(program.constants)
        self._scratch_bytes = program.scratch_bytes
        self.instance_bytes -= self._scratch_bytes
        self._layout: _ProgramLayout | None = None

    def run(self, inputs: Sequence[int], outputs: Sequence[int], parameters_version: Hashable = 0) -> None:
        """Run on tensors at these addresses; see `Runnable`. ValueError for a wrong number of addresses."""
        if len(inputs) != len(self.inputs) or len(outputs) != len(self.outputs):
            raise ValueError(
                f"{self.program.name} takes {len(self.inputs)} inputs and {len(self.outputs)} outputs, "
                f"not {len(inputs)} and {len(outputs)}"
            )
        instance = self._take()
        scratch = scratch_pool.take(self._scratch_bytes) if self._scratch_bytes else None
        prepared = self._prepared.take(parameters_version) if self.program.prepare else None
        outer = None if self._host is None else self._host.begin()
        if scratch is not None:
            instance.place_scratch(scratch.address)
        instance.run([*inputs, *outputs, *instance.flags], parameters_version, prepared)
        flags = instance.read_flags() if instance.flags else b""
        self._idle.append(instance)
        if scratch is not None:
            scratch_pool.put(scratch)
        if prepared is not None:
            self._prepared.put(prepared)
        if self._host is not None:
            self._host.finish(outer)
        if flags:
            verify(self.program.checks, flags)

    @contextmanager
    def calling_python(self) -> Generator[None]:
        """Raise the exception of a Python function that a launch in the body calls."""
        outer = None if self._host is None else self._host.begin()
        yield
        if self._host is not None:
            self._host.finish(outer)

    def symbols(self) -> list[tuple[bytes, tuple[str, ...]]]:
        return [(c, tuple(loaded.symbols)) for c, loaded in zip(self.program.code, self._code, strict=True)]

    def direct_call(self) -> DirectCall:
        """See `Runnable`."""
        if self.program.prepare or not self._is_direct:
            return super().direct_call()
        return self.bound_call({}).run

    def bound_call(self, fixed: Mapping[int, int]) -> BoundCall:
        """See `Runnable`. A short program has an instance for these calls alone, with scratch memory of its own."""
        if not self._is_direct:
            return super().bound_call(fixed)
        instance = self._instance_on(Arena(self.program, allocate(self._scratch_bytes)))
        instance.bind(fixed, allocate_zeroed(self.program.prepared_bytes))
        free = [patches for i, patches in enumerate(instance.patches) if i not in fixed]
        run = self._direct(instance, instance.records, free)
        if not self.program.prepare:
            return BoundCall(run, None)
        prepare = self._direct(instance, instance.prepare, ())
        return BoundCall(run, lambda version: prepare())

    @property
    def _is_direct(self) -> bool:
        """True if a run is one native call that holds Python's lock."""
        program, observed = self.program, settings().debug >= _OBSERVED
        special = self._host is not None or program.checks
        return _HAS_LOCK and _is_short(program) and not (special or observed)

    def _direct(
        self,
        instance: Instance,
        records: tuple[ctypes.c_void_p, ctypes.c_int64],
        operands: Sequence[Sequence[tuple[int, int]]],
    ) -> DirectCall:
        """A function of the addresses of operands with these patches. No other run uses the instance."""
        patches = [(k, instance.word(word), offset) for k, patched in enumerate(operands) for word, offset in patched]
        address, count = records[0].value or 0, records[1].value
        return self._pool.direct_calls.function((address, count), len(operands), patches, (self, instance))

    def _make_instance(self) -> Instance:
        return self._instance_on(Arena(self.program))

    def _instance_on(self, arena: Arena) -> Instance:
        addresses = {name: address for loaded in self._code for name, address in loaded.symbols.items()}
        addresses |= self._pool.kernels
        if self._host is not None:
            addresses |= self._host.addresses
        if self._layout is None:
            self._layout = _ProgramLayout(self.program)
        return Instance(self.program, self._layout, addresses, self._constants, self._pool, arena)

    def take_instance(self) -> Instance:
        """An idle instance, or a new one, with scratch memory, which the caller gives back."""
        instance = self._take()
        if self._scratch_bytes:
            instance.borrowed = scratch_pool.take(self._scratch_bytes)
            instance.place_scratch(instance.borrowed.address)
        return instance

    def give_instance(self, instance: Instance) -> None:
        """Take back an instance, for later runs."""
        self._idle.append(instance)
        if instance.borrowed is not None:
            scratch_pool.put(instance.borrowed)
            instance.borrowed = None


def _host_calls(program: Program) -> HostCalls | None:
    """The Python functions and the collectives of a program as kernels; None if it has none."""
    if not any(isinstance(step, HOST_CALLS) for step in all_steps((*program.prepare, *program.steps))):
        return None
    from .host_calls import HostCalls

    return HostCalls(program.functions)


_objects: WeakValueDictionary[bytes, LoadedObject] = WeakValueDictionary()


def load_code(codes: Sequence[bytes]) -> list[LoadedObject]:
    """Objects in memory, which can call each other. Programs with the same code share it."""
    known = {code: known_object for code in codes if (known_object := _objects.get(code)) is not None}
    missing = [code for code in codes if code not in known]
    loaded = load_objects(missing, _resolve, list(known.values()))
    _objects.update(zip(missing, loaded, strict=True))
    known.update(zip(missing, loaded, strict=True))
    return [known[code] for code in codes]


def _resolve(name: str) -> int:
    """The address of a function that code can call: that which runs launches, or one of the C library."""
    return get_pool().run_address if name == RUN else resolve_libc(name)


class _ProgramLayout:
    """The layout of a program's records. `patches` has the words with addresses of each operand, inputs and then
    outputs, `prepared` those of prepared memory, `scratch` those of scratch memory, `own` those of the rest of the
    arena."""

    def __init__(self, program: Program) -> None:
        self.layout = layout = Layout(program.prepare, program.grouped(), shares_groups(program))
        self.patches = layout.operands(len(program.inputs), len(program.outputs))
        arena, split = layout.memory.get((Space.ARENA, 0), ()), program.scratch_bytes
        self.scratch = [(word, offset) for word, offset in arena if offset < split]
        self.own = [(word, offset) for word, offset in arena if offset >= split]
        self.prepared = layout.memory.get((Space.PREPARED, 0), ())
        self.constants = layout.memory.get((Space.CONSTANT, 0), ())


class Instance:
    """A program's records and private memory, which one run at a time uses.

    The records of `prepare` come first. `words` are those of the records, `patches` as in the layout.
    """

    def __init__(
        self,
        program: Program,
        layout: _ProgramLayout,
        addresses: Mapping[str, int],
        constants: Storage,
        pool: ThreadPool,
        arena: Arena,
    ) -> None:
        """`addresses` are those of all symbols. KeyError for a symbol that no code defines."""
        self.program = program
        self.arena, self._constants = arena, constants
        self._own_prepared: Storage | None = None  # prepared memory of its own
        self.borrowed: Storage | None = None  # scratch memory from the pool
        self._scratch_at = self._prepared_at = 0
        self.addresses = [0] * (len(program.inputs) + len(program.outputs))
        count = len(program.checks)
        self._flags = allocate(count) if count else None
        self.flags = [self._flags.address + i for i in range(count)] if self._flags is not None else []
        """The addresses of the outputs of checks."""
        self._layout = layout
        self._records = records = Records(layout.layout, addresses)
        self.words, self.patches = records.words, layout.patches
        records.place(layout.constants, constants.address)
        records.place(layout.own, arena.own_address)
        if arena.scratch is not None:
            self.place_scratch(arena.scratch.address)
        prepare, groups = len(program.prepare), len(program.groups or program.steps)
        self.prepare = ctypes.c_void_p(records.address), ctypes.c_int64(prepare)
        self.records = ctypes.c_void_p(records.record(prepare)), ctypes.c_int64(groups)
        self._both = self.prepare[0], ctypes.c_int64(prepare + groups)
        self._native = pool.run_holding_gil if _is_short(program) else pool.run
        self._prepare_native = pool.run

    def run(self, addresses: list[int], parameters_version: Hashable, prepared: Prepared | None) -> None:
        """Patch changed addresses, prepare if parameters changed, and run."""
        if addresses != self.addresses:
            self._patch(addresses)
        if prepared is not None and self._use(prepared, parameters_version):
            self._run_all()
        elif self.records[1].value:
            self.launch(self._native, self.records)

    def read_flags(self) -> bytes:
        """The outputs of the checks of the last run."""
        return ctypes.string_at(self.flags[0], len(self.flags))

    def bind(self, fixed: Mapping[int, int], prepared: Storage) -> None:
        """Use these addresses of inputs and this prepared memory from now on."""
        self._own_prepared = prepared
        addresses = [fixed.get(i, address) for i, address in enumerate(self.addresses)]
        self.begin(addresses, prepared)

    def begin(self, addresses: list[int], prepared: Storage) -> None:
        """Use these operands and this prepared memory for launches that run one by one."""
        self._patch(addresses)
        self._place_prepared(prepared)

    def run_one(self, number: int) -> None:
        """Run one record: those that prepare are numbered first, then the groups of steps."""
        prepares = number < len(self.program.prepare)
        native = self._prepare_native if prepares else self._native
        native(ctypes.c_void_p(self._records.record(number)), _ONE)

    def word(self, number: int) -> int:
        """The address of a word of the records."""
        return self._records.word(number)

    def _patch(self, addresses: list[int]) -> None:
        current = self.addresses
        try:
            for operand, address in enumerate(addresses):
                if address != current[operand]:
                    current[operand] = address
                    for word, offset in self.patches[operand]:
                        self.words[word] = address + offset
        except TypeError:  # a DeviceAddress is not an int
            raise DeviceError(_ELSEWHERE) from None

    def _use(self, prepared: Prepared, version: Hashable) -> bool:
        """Use this block of prepared memory. True if it was prepared from another version of parameters, so that all
        launches must run."""
        if prepared.storage.address != self._prepared_at:
            self._place_prepared(prepared.storage)
        if prepared.version == version:
            return False
        prepared.set_version(version)
        return True

    def _run_all(self) -> None:
        """Run the launches that prepare and then the others, in one native call unless they are observed."""
        if is_observed():
            self.launch(self._prepare_native, self.prepare)
            if self.records[1].value:
                self.launch(self._native, self.records)
        else:
            self._prepare_native(*self._both)

    def place_scratch(self, address: int) -> None:
        """Use the scratch memory at this address for the runs from now on."""
        if self._scratch_at != address:
            self._scratch_at = address
            self._records.place(self._layout.scratch, address)

    def _place_prepared(self, storage: Storage) -> None:
        self._prepared_at = storage.address
        self._records.place(self._layout.prepared, storage.address)

    def launch(self, native: Callable[..., None], call: tuple[ctypes.c_void_p, ctypes.c_int64]) -> None:
        """One native call for all records, or one per record if launches are observed. A group is reported as its first
        step, if that is a launch."""
        if not is_observed():
            native(*call)
            return
        first, prepare = len(self.program.prepare), call is self.prepare
        groups = [(launch,) for launch in self.program.prepare] if prepare else self.program.grouped()
        begin, launches = time.perf_counter_ns(), 0
        for number, (step, *_) in enumerate(groups):
            start = time.perf_counter_ns()
            native(ctypes.c_void_p(self._records.record(number if prepare else first + number)), _ONE)
            if isinstance(step, Computation):
                self._report(step, start, time.perf_counter_ns())
                launches += 1
        if launches > 1:
            self._report(None, begin, time.perf_counter_ns())

    def _report(self, launch: Computation | None, start: int, end: int) -> None:
        listener = _listener  # another thread can remove it at any time
        if listener is not None:
            listener(self.program, launch, start, end)
        if settings().debug >= _OBSERVED and launch is not None:
            shown = f"{self.program.name} {(end - start) / 1000:9.1f} us  {_shown(self.program, launch)}"
            print(f"mxforge: {shown}", file=sys.stderr)

    def address(self, place: Place) -> int:
        """The address of a place, for the operands of the last run."""
        match place.space:
            case Space.INPUT:
                start = self.addresses[place.index]
            case Space.OUTPUT:
                start = self.addresses[len(self.program.inputs) + place.index]
            case Space.ARENA:
                start = self._scratch_at if place.offset < self.program.scratch_bytes else self.arena.own_address
            case Space.PREPARED:
                start = self._prepared_at
            case Space.CONSTANT:
                start = self._constants.address
        return start + place.offset


def _shown(program: Program, step: Computation) -> str:
    label = program.label(step)
    if not isinstance(step, Launch):
        return f"{step.kind} {label}"
    return f"{step.symbol} over {step.count} in chunks of {step.grain} {label}"


def _is_short(program: Program) -> bool:
    """True if the program is so short that releasing Python's lock costs more than it gains. No launch of such a
    program is split among threads."""
    if len(program.groups or program.steps) > _SHORT_LAUNCHES:
        return False
    alone = all(isinstance(x, Launch) and x.count <= x.grain for x in map(as_launch, program.steps))
    return alone and _own_bytes(program) <= _SHORT_BYTES


def shares_groups(program: Program) -> bool:
    """True if threads share groups of launches: not those of a short program."""
    return bool(program.groups) and _own_bytes(program) > _SHORT_BYTES


def _own_bytes(program: Program) -> int:
    """The bytes of a program's operands and memory."""
    return sum(t.nbytes for t in (*program.inputs, *program.outputs)) + program.arena_bytes + program.prepared_bytes


def filled(content: bytes) -> Storage:
    """Memory with this content."""
    block = allocate(len(content))
    ctypes.memmove(block.address, content, len(content))
    return block
