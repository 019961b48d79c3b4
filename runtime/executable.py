"""Runs compiled programs on the host.

A program's code is loaded once. An `Instance` has launch records (`runtime/records.py`) and an arena. A run writes the
addresses of its operands into the records and makes one native call.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable, Hashable, Sequence
from weakref import WeakValueDictionary

from ..codegen.llvm.support import PIECES
from ..ir.program import Launch, Place, Program, Space
from ..ir.settings import settings
from .device import BoundCall, DeviceError, DirectCall
from .elf import LoadedObject, load_objects, resolve_libc
from .host_calls import HostCalls
from .loaded_program import LoadedProgram
from .prepared import Prepared, PreparedPool
from .records import Records
from .storage import Storage, allocate, allocate_zeroed
from .threads import RECORD_BYTES, ThreadPool, get_pool

_SHORT_BYTES = 128 << 10  # memory of a program that runs while holding Python's lock (at most about 20 us)
_SHORT_LAUNCHES = 8
_OBSERVED = 2  # level of MXFORGE_DEBUG from which each launch is timed
_ONE = ctypes.c_int64(1)
_ELSEWHERE = "a program of the host got an operand in the memory of another device"

Listener = Callable[[Program, Launch | None, int, int], None]

_listener: Listener | None = None


def listen(listener: Listener | None) -> None:
    """Register a callback `(program, launch, start_ns, end_ns)`, which runs after every launch of any program, and with
    None for the launch after every run of several launches. Times are those of `perf_counter_ns`. None removes the
    callback.

    With a callback programs take longer, because launches are timed one by one; without, a run costs one comparison.
    """
    global _listener  # noqa: PLW0603  (a global is read faster than anything else, on a path of one microsecond)
    _listener = listener


def is_observed() -> bool:
    """True if each launch is timed."""
    return _listener is not None or settings().debug >= _OBSERVED


class Executable(LoadedProgram["Instance"]):
    """A program in memory, ready to run from any number of threads."""

    def __init__(self, program: Program, prepared: PreparedPool | None = None) -> None:
        super().__init__(program, prepared, allocate_zeroed)
        self._host = HostCalls(program.functions) if program.functions else None
        self._pool = get_pool()
        self._code = _load(program.code, self._pool, self._host)
        self._constants = _filled(program.constants)
        first = self._new_instance()
        self._patches = first.patches
        self._idle.append(first)

    @property
    def _is_single(self) -> bool:
        """True if the program is one launch, without preparation, copies or Python functions."""
        program = self.program
        return len(program.launches) == 1 and not (program.prepare or program.copies or program.functions)

    def run(self, inputs: Sequence[int], outputs: Sequence[int], parameters_version: Hashable = 0) -> None:
        """Run on tensors at these addresses; see `Runnable`. ValueError for a wrong number of addresses."""
        if len(inputs) != len(self.inputs) or len(outputs) != len(self.outputs):
            raise ValueError(
                f"{self.program.name} takes {len(self.inputs)} inputs and {len(self.outputs)} outputs, "
                f"not {len(inputs)} and {len(outputs)}"
            )
        instance = self._take()
        prepared = self._prepared.take(parameters_version) if self.program.prepare else None
        outer = None if self._host is None else self._host.begin()
        instance.run([*inputs, *outputs], parameters_version, prepared)
        self._idle.append(instance)
        if prepared is not None:
            self._prepared.put(prepared)
        if self._host is not None:
            self._host.finish(outer)

    def symbols(self) -> list[tuple[bytes, tuple[str, ...]]]:
        """The objects of the program and the symbols that each defines."""
        return [(c, tuple(loaded.symbols)) for c, loaded in zip(self.program.code, self._code, strict=True)]

    def direct_call(self) -> DirectCall | None:
        """A function that patches the addresses and calls the code, for a tiny program of two or three operands; None
        for other programs."""
        if not _is_short(self.program) or not self._is_single or settings().debug >= _OBSERVED:
            return None
        if any(len(patches) != 1 or patches[0][1] for patches in self._patches):
            return None
        words = [patches[0][0] for patches in self._patches]
        make = {2: self._call_of_two, 3: self._call_of_three}.get(len(words))
        return make(*words) if make else None

    def bound_call(self, position: int, inputs: Callable[[], list[int]]) -> BoundCall | None:
        """See `Runnable`."""
        program = self.program
        if not _is_short(program) or program.copies or program.functions or settings().debug >= _OBSERVED:
            return None
        free = [self._patches[position], *self._patches[len(program.inputs) :]]
        if len(free) != 2 or any(len(patches) != 1 or patches[0][1] for patches in free):
            return None
        (((i, _),), ((j, _),)) = free
        idle: list[Instance] = []
        make, native, block = self._new_instance, self._pool.run_holding_gil, program.prepared_bytes

        def run(a: int, b: int, version: Hashable) -> None:
            try:
                instance = idle.pop()
            except IndexError:
                instance = make()
                instance.own_prepared = Prepared(allocate_zeroed(block))
            if instance.own_prepared.version is not version:
                instance.bind(inputs(), version)
            words = instance.words
            try:
                words[i] = a
                words[j] = b
            except TypeError:
                idle.append(instance)
                raise DeviceError(_ELSEWHERE) from None
            if _listener is None:
                native(instance.records, instance.count)
            else:
                instance.launch(native, (instance.records, instance.count))
            idle.append(instance)

        return run

    def _make_instance(self) -> Instance:
        return Instance(self.program, self._address_of, self._constants, self._pool)

    def take_instance(self) -> Instance:
        """An idle instance, or a new one, which the caller keeps or gives back."""
        return self._take()

    def give_instance(self, instance: Instance) -> None:
        """Take back an instance, for later runs."""
        self._idle.append(instance)

    def instance_on(self, arena: Storage) -> Instance:
        """A new instance on the arena of another one, which never runs at the same time."""
        return Instance(self.program, self._address_of, self._constants, self._pool, arena)

    def _address_of(self, symbol: str) -> int:
        found = self._host.address(symbol) if self._host is not None else self._pool.kernels.get(symbol)
        return _find(self._code, symbol) if found is None else found

    def _call_of_two(self, i: int, j: int) -> DirectCall:
        # These instances are separate from those of `run`, which remember the addresses in their records.
        idle: list[Instance] = []
        make, native, one = self._new_instance, self._pool.run_holding_gil, _ONE

        def run(a: int, b: int) -> None:
            try:
                instance = idle.pop()
            except IndexError:
                instance = make()
            words = instance.words
            try:
                words[i] = a
                words[j] = b
            except TypeError:
                idle.append(instance)
                raise DeviceError(_ELSEWHERE) from None
            if _listener is None:
                native(instance.records, one)
            else:
                instance.launch(native, (instance.records, one))
            idle.append(instance)

        return run

    def _call_of_three(self, i: int, j: int, k: int) -> DirectCall:
        idle: list[Instance] = []
        make, native, one = self._new_instance, self._pool.run_holding_gil, _ONE

        def run(a: int, b: int, c: int) -> None:
            try:
                instance = idle.pop()
            except IndexError:
                instance = make()
            words = instance.words
            try:
                words[i] = a
                words[j] = b
                words[k] = c
            except TypeError:
                idle.append(instance)
                raise DeviceError(_ELSEWHERE) from None
            if _listener is None:
                native(instance.records, one)
            else:
                instance.launch(native, (instance.records, one))
            idle.append(instance)

        return run


_objects: WeakValueDictionary[bytes, LoadedObject] = WeakValueDictionary()


def _load(codes: Sequence[bytes], pool: ThreadPool, host: HostCalls | None) -> list[LoadedObject]:
    """Objects in memory, which can call each other. Programs with the same code share it, except programs that call
    Python functions."""
    if host is not None:
        return load_objects(codes, lambda name: host.address(name) or pool.function(name) or resolve_libc(name))
    known = {code: found for code in codes if (found := _objects.get(code)) is not None}
    missing = [code for code in codes if code not in known]
    loaded = load_objects(missing, lambda name: pool.function(name) or resolve_libc(name), list(known.values()))
    _objects.update(zip(missing, loaded, strict=True))
    known.update(zip(missing, loaded, strict=True))
    return [known[code] for code in codes]


class Instance:
    """A program's records and private memory, which one run at a time uses.

    The records of `prepare` come first. `words` and `patches` are those of the records. `own_prepared` is the prepared
    memory of an instance that no other run uses.
    """

    own_prepared: Prepared

    def __init__(
        self,
        program: Program,
        address_of: Callable[[str], int],
        constants: Storage,
        pool: ThreadPool,
        arena: Storage | None = None,
    ) -> None:
        self.program = program
        self.arena = allocate_zeroed(program.arena_bytes) if arena is None else arena
        self._spaces = {Space.ARENA: self.arena, Space.CONSTANT: constants}
        self._prepared_at = 0
        self.addresses = [0] * (len(program.inputs) + len(program.outputs))
        prepare, groups = [(launch,) for launch in program.prepare], program.grouped()
        self._records = records = Records(
            (*prepare, *groups),
            (len(program.inputs), len(program.outputs)),
            {space: storage.address for space, storage in self._spaces.items()},
            address_of,
            pool.kernels[PIECES],
            shared=_own_bytes(program) > _SHORT_BYTES,
        )
        self.words, self.patches = records.words, records.patches
        self._prepare = ctypes.c_void_p(records.address), ctypes.c_int64(len(prepare))
        self.records = ctypes.c_void_p(records.record(len(prepare)))
        self.count = ctypes.c_int64(len(groups))
        self._both = self._prepare[0], ctypes.c_int64(len(prepare) + len(groups))
        self._native = pool.run_holding_gil if _is_short(program) else pool.run
        self._prepare_native = pool.run
        self._copies = [(copy.target, copy.source, copy.nbytes) for copy in program.copies]

    def run(self, addresses: list[int], parameters_version: Hashable, prepared: Prepared | None) -> None:
        """Patch changed addresses, prepare if parameters changed, run, and copy outputs that no launch computes."""
        if addresses != self.addresses:
            self._patch(addresses)
        if prepared is not None and self._use(prepared, parameters_version):
            self._run_all()
        elif self.count.value:
            self.launch(self._native, (self.records, self.count))
        try:
            for target, source, nbytes in self._copies:
                ctypes.memmove(self._address(target), self._address(source), nbytes)
        except (TypeError, ctypes.ArgumentError):
            raise DeviceError(_ELSEWHERE) from None

    def bind(self, inputs: Sequence[int], version: Hashable) -> None:
        """Use these inputs and `own_prepared` for parameters of this version from now on."""
        self._patch([*inputs, *self.addresses[len(self.program.inputs) :]])
        if self._use(self.own_prepared, version) and self.program.prepare:
            self.launch(self._prepare_native, self._prepare)

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
            self.run_linked()
        else:
            self._prepare_native(*self._both)

    def _place_prepared(self, storage: Storage) -> None:
        self._prepared_at = storage.address
        for word, offset in self._records.prepared:
            self.words[word] = storage.address + offset

    def link(self, prepared: Storage) -> bytes:
        """Use this block of prepared memory from now on. Returns the records of all launches, those that prepare first,
        which stay valid as long as the instance."""
        self._prepared_storage = prepared
        self._place_prepared(prepared)
        count = (self._prepare[1].value or 0) + self.count.value
        return ctypes.string_at(self._prepare[0], count * RECORD_BYTES)

    def run_linked(self) -> None:
        """Run all launches, each on its own, so that they are observed."""
        self.launch(self._prepare_native, self._prepare)
        if self.count.value:
            self.launch(self._native, (self.records, self.count))

    def launch(self, native: Callable[..., None], call: tuple[ctypes.c_void_p, ctypes.c_int64]) -> None:
        """One native call for all launches, or one per record if launches are observed. A group of launches is reported
        as its first launch."""
        if not is_observed():
            native(*call)
            return
        first, prepare = len(self.program.prepare), call is self._prepare
        groups = [(launch,) for launch in self.program.prepare] if prepare else self.program.grouped()
        begin = time.perf_counter_ns()
        for number, group in enumerate(groups):
            start = time.perf_counter_ns()
            native(ctypes.c_void_p(self._records.record(number if prepare else first + number)), _ONE)
            self._report(group[0], start, time.perf_counter_ns())
        if len(groups) > 1:
            self._report(None, begin, time.perf_counter_ns())

    def _report(self, launch: Launch | None, start: int, end: int) -> None:
        listener = _listener  # another thread can remove it at any time
        if listener is not None:
            listener(self.program, launch, start, end)
        if settings().debug >= _OBSERVED and launch is not None:
            shown = f"{self.program.name} {(end - start) / 1000:9.1f} us  {_shown(self.program, launch)}"
            print(f"mxforge: {shown}", file=sys.stderr)

    def own_address(self, place: Place) -> int:
        """The address of a place in the memory of the program."""
        return (
            self._prepared_at + place.offset
            if place.space is Space.PREPARED
            else self._spaces[place.space].address + place.offset
        )

    def _address(self, place: Place) -> int:
        if place.space is Space.PREPARED:
            return self._prepared_at + place.offset
        own = self._spaces.get(place.space)
        if own is not None:
            return own.address + place.offset
        operand = place.index if place.space is Space.INPUT else len(self.program.inputs) + place.index
        return self.addresses[operand] + place.offset


def _shown(program: Program, launch: Launch) -> str:
    return f"{launch.symbol} over {launch.count} in chunks of {launch.grain} {program.label(launch)}"


def _is_short(program: Program) -> bool:
    """True if the program is so short that releasing Python's lock costs more than it gains. No launch of such a
    program is split among threads."""
    few = len(program.groups or program.launches) <= _SHORT_LAUNCHES
    return few and _own_bytes(program) <= _SHORT_BYTES and all(x.count <= x.grain for x in program.launches)


def _own_bytes(program: Program) -> int:
    """The bytes of a program's operands and memory."""
    return sum(t.nbytes for t in (*program.inputs, *program.outputs)) + program.arena_bytes + program.prepared_bytes


def _find(objects: Sequence[LoadedObject], symbol: str) -> int:
    for loaded in objects:
        if symbol in loaded.symbols:
            return loaded.symbols[symbol]
    raise KeyError(f"no object of the program defines {symbol!r}")


def _filled(content: bytes) -> Storage:
    block = allocate(len(content))
    ctypes.memmove(block.address, content, len(content))
    return block
