"""Finds or creates the executable of a graph: from this process's cache, from the disk cache, or by compiling.

The key of a program on disk is the graph's structure, the target, the options, and the identity of the compiler. A warm
start runs no pass and does not import LLVM.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import contextmanager
from dataclasses import astuple, replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary

from ..codegen.target import DynamicTarget, Target
from ..ir.caches import Cache
from ..ir.code_store import NO_STORE, CodeStore
from ..ir.collection import collection_paused
from ..ir.computation import Computation
from ..ir.graph import Graph
from ..ir.locks import ForkSafeLock
from ..ir.manifest import program_from_bytes, program_to_bytes
from ..ir.program import Program
from ..ir.settings import settings
from ..ir.target import REFERENCE, Capabilities
from ..passes.manager import Options
from .cache import default_cache
from .compiler_identity import compiler_identity
from .device import Device, Runnable
from .devices import COMPILED, HOST
from .dynamic import D, DynamicPrograms
from .loaded_program import LoadedProgram
from .progress import progress
from .watch import watched

if TYPE_CHECKING:
    from ..codegen.dynamic_program import DynamicProgram

_REMEMBERED = 4096  # executables; each loaded program takes three mappings of the 65530 that Linux allows a process

_REMEMBERED_BYTES = 32 << 20  # users of a program hold it too, so the limit applies to unused programs
_Key = tuple[str, str, str]


class _Capture(NamedTuple):
    """What `storing_kernels` gets."""

    kernels: CodeStore
    others: Sequence[tuple[Target, CodeStore]]


_hashes: WeakKeyDictionary[Graph, str] = WeakKeyDictionary()
_programs: Cache[_Key, Runnable] = Cache("programs", _REMEMBERED, lambda p: p.own_bytes, _REMEMBERED_BYTES)
_families: Cache[tuple[str, str, str, Options], DynamicPrograms] = Cache("dynamic programs", 256)

_locks: WeakValueDictionary[Hashable, ForkSafeLock] = WeakValueDictionary()
_locking = ForkSafeLock()
_captures: list[_Capture] = []  # of `storing_kernels`


def executable_for(graph: Graph, options: Options | None = None, device: Device = HOST) -> Runnable:
    """An executable of the graph on a device; on the host for the target of the settings. Equal graphs share one,
    unless they call Python functions, which can have state.

    Raises GraphError, which names the node that cannot be compiled, and ValueError for an unknown target.
    """
    options = options or Options()
    if options.dynamic and _why_fixed(device):
        options = replace(options, dynamic=False)
    if graph.calls_python():
        return _make(graph, options, device)
    stored = stores_programs(device)
    identity = disk_key(graph, options, device.target) if stored else _digest(hash_of(graph), astuple(options))
    key = (device.name, settings().target, identity)
    known = _programs.find(key)
    return _programs.add(key, _make(graph, options, device)) if known is None else known


def _make(graph: Graph, options: Options, device: Device) -> Runnable:
    if _is_interpreter(device):
        from .reference import ReferenceExecutable

        return ReferenceExecutable(graph, options)
    if options.dynamic:
        return dynamic_programs(graph, options, device).executable(graph.input_types(), lambda: graph)
    return _compiled(graph, options, device)


def stores_programs(device: Device) -> bool:
    """True if programs of the device are compiled and stored on disk: the settings can ask the host to interpret
    graphs instead."""
    return device is not HOST or settings().target in COMPILED


def capabilities(device: Device) -> Capabilities:
    """What passes know about the target for which graphs on a device are made: the reference if the settings ask the
    host to interpret them."""
    return REFERENCE if _is_interpreter(device) else device.target


def _is_interpreter(device: Device) -> bool:
    """True if the device interprets graphs. ValueError for an unknown target."""
    if stores_programs(device):
        return False
    if settings().target != "reference":
        raise ValueError(f"MXFORGE_TARGET={settings().target!r} is unknown: use {', '.join(COMPILED)} or reference")
    return True


def dynamic_programs(source: Graph | Computation, options: Options, device: Device = HOST) -> DynamicPrograms:
    """The dynamic programs of a computation, on a device that has such programs. Graphs that differ only in the extents
    of inputs share them, unless they call Python functions. Nodes must be of mx: attributes of core nodes hold constant
    extents."""
    family = family_of(source)

    def make() -> DynamicPrograms:
        from ..codegen.dynamic import compile_dynamic

        target = dynamic_target(device)
        compiler = DynamicCompiler(compile_dynamic, options, device, target, family)
        return DynamicPrograms(compiler, device, options)

    shares = isinstance(source, Computation) or not source.calls_python()
    return _families.get((device.name, settings().cpu, family, options), make) if shares else make()


def family_of(source: Graph | Computation) -> str:
    """What is equal for computations that differ only in the extents of inputs that are not parameters."""
    from ..ir.hashing import family_hash

    return source.family if isinstance(source, Computation) else family_hash(source)


def dynamic_target(device: Device) -> DynamicTarget:
    """The target of a device that has dynamic programs."""
    target = device.target.dynamic
    assert target is not None, f"programs of {device.name} have fixed shapes"
    return target


def why_specialised(source: Graph | Computation, device: Device) -> str:
    """Why each signature of a computation has a program of its own; "" if it has dynamic programs."""
    calls = isinstance(source, Graph) and source.calls_python()
    return _why_fixed(device) or ("it calls Python functions, which take arrays of known shapes" if calls else "")


def _why_fixed(device: Device) -> str:
    """Why all programs of a device have fixed shapes; "" if they have not."""
    if not stores_programs(device):
        return f"the {settings().target} target has no dynamic shapes"
    return f"programs of {device.name} have fixed shapes" if device.target.dynamic is None else ""


class DynamicCompiler(Generic[D]):
    """Compiles dynamic programs of one family of graphs by `run`, and stores them on disk with the symbols of their
    code, which other programs share. `content` identifies what is compiled."""

    def __init__(
        self,
        run: Callable[[Graph | Computation, Target, Options, CodeStore], D],
        options: Options,
        device: Device,
        target: DynamicTarget,
        *content: object,
    ) -> None:
        self._run, self.content = run, content
        self.options, self.device, self.target = options, device, target

    def stored(self, number: int) -> D | None:
        data = _read(self._key(number))
        if data is None:
            return None
        program, symbols = pickle.loads(data)  # the cache runs what it reads as machine code anyway
        for code, names in symbols:
            self.target.share(names, code)
        return program

    def compile(self, source: Graph | Computation) -> D:
        name = source.name if isinstance(source, Graph) else "a computation for arrays of any shape"
        with _alone(self.target, self.content), collection_paused(), progress(name):
            for target, kernels in _others():
                if target.dynamic is not None:
                    self._run(source, target.dynamic, self.options, kernels)
            return self._run(source, self.target, self.options, kernel_store(self.device))

    def store(self, number: int, program: D, loaded: Sequence[LoadedProgram[Any]]) -> None:
        if not any(p.program.calls_python for p in loaded):
            _write(self._key(number), pickle.dumps((program, [symbol for p in loaded for symbol in p.symbols()])))

    def _key(self, number: int) -> str:
        return _digest(self.content, number, astuple(self.options), self.target.identity, compiler_identity())


def _compiled(graph: Graph, options: Options, device: Device) -> Runnable:
    if graph.calls_python():
        return _watched(graph, options, device, compile_program(graph, options, device))
    key = disk_key(graph, options, device.target)
    executable = _stored(StoredProgram(key, graph.name, graph.names()), device)
    if executable is not None:
        return executable
    in_memory = device.name, settings().target, key
    with _alone(device.target, key):
        executable = _programs.find(in_memory)  # another thread can have compiled it in the meantime
        if executable is None:
            program = compile_program(graph, options, device)
            _write(key, program_to_bytes(program))
            executable = _programs.add(in_memory, _watched(graph, options, device, program))
    return executable


def _watched(graph: Graph, options: Options, device: Device, program: Program) -> Runnable:
    """A new program, loaded."""
    return watched(device, lambda: graph, options, device.load(program))


class StoredProgram(NamedTuple):
    """The name of a program in the disk cache, and the names of its graph and of the graph's nodes."""

    key: str
    name: str
    names: tuple[str, ...]


def stored_as(graph: Graph, options: Options, device: Device) -> StoredProgram | None:
    """Where the program of a graph is on disk; None for programs that are not stored."""
    if graph.calls_python() or not stores_programs(device):
        return None
    return StoredProgram(disk_key(graph, options, device.target), graph.name, graph.names())


def load_stored(stored: StoredProgram, device: Device) -> Runnable | None:
    """The program, loaded; None if the disk does not have it."""
    key = (device.name, settings().target, stored.key)
    executable = _programs.find(key)
    if executable is None:
        loaded = _stored(stored, device)
        executable = None if loaded is None else _programs.add(key, loaded)
    return executable


def record_key(kind: str, options: Options, device: Device, *content: object) -> str:
    """The name on disk of what is known about `content`, whose text identifies it."""
    return _digest(kind, astuple(options), device.target.identity, compiler_identity(), *content)


def hash_of(graph: Graph) -> str:
    """The structural hash of a graph, computed once."""
    digest = _hashes.get(graph)
    if digest is None:
        from ..ir.hashing import structural_hash

        digest = _hashes[graph] = structural_hash(graph)
    return digest


def get_record(key: str) -> bytes | None:
    """What is stored under a `record_key`."""
    return _read(key)


def put_record(key: str, data: bytes) -> None:
    """Store what is known about a graph."""
    _write(key, data)


def _stored(stored: StoredProgram, device: Device) -> Runnable | None:
    """The program stored on disk, loaded, or None. Programs of other shapes share its shape-free code."""
    data = _read(stored.key)
    if data is None:
        return None
    try:
        loaded = device.load(program_from_bytes(data).renamed(stored.name, stored.names))
    except (KeyError, ValueError):
        return None  # the same compiler wrote it, so it is damaged: it is compiled again and replaced
    if (dynamic := device.target.dynamic) is not None:
        for code, symbols in loaded.symbols():
            dynamic.share(symbols, code)
    return loaded


def compile_program(graph: Graph, options: Options, device: Device) -> Program:
    """Run the compiler."""
    return _compile(graph, options, device.target, kernel_store(device))


def compile_for(graph: Graph, options: Options, target: Target) -> Program:
    """Run the compiler for a target of which this process needs no device."""
    return _compile(graph, options, target, _kernel_store(target, on_host=False))


def compile_dynamic_for(graph: Graph, options: Options, target: Target) -> DynamicProgram:
    """Run the compiler for the extents of a graph's inputs and for others, for a target that has dynamic programs and
    of which this process needs no device."""
    from ..codegen.dynamic import compile_dynamic

    kernels = _kernel_store(target, on_host=target is HOST.target)
    with _alone(target, object()), collection_paused():
        return compile_dynamic(graph, target, replace(options, dynamic=True), kernels)


def _compile(graph: Graph, options: Options, target: Target, kernels: CodeStore) -> Program:
    from ..codegen.driver import compile_graph

    with _alone(target, object()), collection_paused(), progress(graph.name):
        for other, own in _others():
            compile_graph(graph, other, options, own)
        return compile_graph(graph, target, options, kernels)


@contextmanager
def _alone(target: Target, what: Hashable) -> Generator[None]:
    """Run the body while no other thread compiles `what`, or anything for a target that is not concurrent."""
    with _locking:
        name = what if target.concurrent else target.name
        lock = _locks.get(name) or _locks.setdefault(name, ForkSafeLock())
    with lock:
        yield


def load_joined(program: Program, device: Device) -> LoadedProgram[Any]:
    """A combination of compiled programs, loaded, with the launches that its target joins."""
    if stores_programs(device):
        with _alone(device.target, object()):
            program = device.target.join(program, kernel_store(device))
    return device.load(program)


def kernel_store(device: Device) -> CodeStore:
    """Where the code of a device's kernels is. With MXFORGE_DUMP all are compiled, because their text is dumped."""
    return _kernel_store(device.target, on_host=device is HOST)


def _kernel_store(target: Target, *, on_host: bool) -> CodeStore:
    if _captures:
        return _captures[-1].kernels
    if settings().dump is not None:
        return NO_STORE
    from .kernel_store import KernelStore

    library = HOST.kernel_library() if on_host else NO_STORE
    return KernelStore(target.code_identity, library, default_cache(), compiler_identity())


@contextmanager
def storing_kernels(kernels: CodeStore, others: Sequence[tuple[Target, CodeStore]] = ()) -> Generator[None]:
    """Find and store the code of kernels in `kernels` in the body, and nothing on disk. What is compiled is also
    compiled for the `others`, which have stores of their own."""
    _captures.append(_Capture(kernels, others))
    try:
        yield
    finally:
        _captures.pop()


def _others() -> Sequence[tuple[Target, CodeStore]]:
    return _captures[-1].others if _captures else ()


def disk_key(graph: Graph, options: Options, target: Target) -> str:
    """The name of the graph's program in the disk cache."""
    return _digest(hash_of(graph), astuple(options), target.identity, compiler_identity())


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _read(key: str) -> bytes | None:
    """What the disk has under this key. None if MXFORGE_DUMP asks for the stages of compilations, or if kernels are
    captured: then all compile."""
    return None if settings().dump is not None or _captures else default_cache().get(key)


def _write(key: str, data: bytes) -> None:
    if not _captures:
        default_cache().put(key, data)
