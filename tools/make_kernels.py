"""Compiles the kernels of networks of the model zoo, and of the programs with which users begin (`first_programs.py`),
into the libraries of the package (`runtime/host/kernel_library.py`).

python -m mxforge.tools.make_kernels        run it after a change of code generation, on a processor with AVX-512; a
                                            test checks that the libraries are current
python -m mxforge.tools.make_kernels aarch64        one library

Schedules depend on the threads and the caches of a processor, so networks are compiled for several. Each text is
compiled once. Programs also run, because a call compiles what the call before it returned. Those for AArch64 run as
code for AVX-512 with vectors of its length, so all decisions are the same, and are compiled for AArch64 too.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import product

from ..codegen.driver import compile_graph
from ..codegen.llvm.target import CpuTarget
from ..frontend.gluon.model_zoo.vision import get_model
from ..frontend.symbol.symbol import Symbol
from ..frontend.symbol.to_graph import symbol_to_graph
from ..frontend.symbol.variable import var
from ..ir.caches import clear_caches
from ..ir.code_store import CodeStore, MemoryStore
from ..ir.graph import Graph
from ..ir.types import DType, TensorType
from ..passes.manager import Options
from ..runtime.atomic import write_atomically
from ..runtime.compile import storing_kernels
from ..runtime.devices import HOST
from ..runtime.host.kernel_library import AARCH64, is_portable, library_file, to_bytes
from ..runtime.host.machine import X86_LEVELS, cpu_flags, target_from_cpuinfo
from . import first_programs

NETWORKS: Mapping[str, int] = {
    "alexnet": 224,
    "densenet121": 224,
    "inceptionv3": 299,
    "mobilenet1.0": 224,
    "mobilenetv2_1.0": 224,
    "resnet18_v1": 224,
    "resnet18_v2": 224,
    "resnet34_v1": 224,
    "resnet50_v1": 224,
    "resnet50_v2": 224,
    "squeezenet1.0": 224,
    "squeezenet1.1": 224,
    "vgg16": 224,
}
"""Networks and the heights of their images."""

_BATCHES = (1, 8)
LEVELS = (*X86_LEVELS, AARCH64)
_MAKERS: tuple[dict[str, str], ...] = ({}, {"vendor_id": "AuthenticAMD", "cpu family": "25"})  # Zen 4: short vectors


_AARCH64_CACHES, _X86_CACHES = ((64, 1024),), ((48, 1024), (32, 512))
"""KiB of the first and second level of caches."""


def targets(level: str) -> list[CpuTarget]:
    """Processors of an x86-64 level, or with AArch64."""
    machine, infos, caches = AARCH64, [dict[str, str]()], _AARCH64_CACHES
    if level != AARCH64:
        flags = " ".join(sorted(X86_LEVELS[level]))
        machine, infos, caches = "x86_64", [{"flags": flags, **maker} for maker in _MAKERS], _X86_CACHES
    bases = [target_from_cpuinfo(machine, info, {}, threads) for info in infos for threads in (2, 1, 4, 8)]
    machines = (replace(base, l1_bytes=l1 << 10, l2_bytes=l2 << 10) for base, (l1, l2) in product(bases, caches))
    return list(dict.fromkeys(machines))


def twin(target: CpuTarget) -> CpuTarget:
    """The target, or for AArch64 on x86-64 one with AVX-512 that has its registers, caches and threads: what is
    compiled for both is the same until instructions are selected."""
    if target.triple == HOST.target.triple:
        return target
    flags = " ".join(sorted(X86_LEVELS["x86-64-v4"]))
    wide = target_from_cpuinfo("x86_64", {"flags": flags}, {}, target.threads)
    return replace(target, triple=wide.triple, cpu=wide.cpu, features=wide.features)


def network_graphs(name: str) -> Iterator[Graph]:
    """The graphs of a network for each size of a batch."""
    net = get_model(name)
    symbol = net(var("data"))
    for batch in _BATCHES:
        yield _graph(symbol, name, {"data": (batch, 3, NETWORKS[name], NETWORKS[name])})


def _graph(symbol: Symbol, name: str, shapes: Mapping[str, tuple[int, ...]]) -> Graph:
    """The graph of a symbol in float32; inputs that have no given shape are parameters."""
    arguments, _, states = symbol.infer_shape(**shapes)
    assert arguments is not None and states is not None, "the shape of the data determines all"
    names = (*symbol.list_arguments(), *symbol.list_auxiliary_states())
    types = {n: TensorType(tuple(shape), DType.F32) for n, shape in zip(names, (*arguments, *states), strict=True)}
    return symbol_to_graph(symbol, types, [n for n in names if n not in shapes], name)


def runnable_programs(level: str) -> Iterator[tuple[first_programs.Program, CpuTarget]]:
    """The programs with which users begin, for processors of a level. This machine must be able to run their `twin`."""
    widths: set[int] = set()
    for target in targets(level):
        calls = () if target.vector_bits in widths else first_programs.CALLS
        widths.add(target.vector_bits)
        yield from ((program, target) for program in (*calls, *first_programs.NETWORKS))


_twins = MemoryStore()  # code of twins, which is only run


@contextmanager
def kernels_captured(store: CodeStore, target: CpuTarget) -> Generator[None]:
    """Compile all that runs in the body for `target`, and find and store code in `store` alone. The machine must have
    the instructions of the target, or of its `twin`; its caches, threads and vectors can differ."""
    clear_caches()
    same = twin(target)
    captured = (store, ()) if same == target else (_twins, ((target, store),))
    try:
        with HOST.compiling_for(same), storing_kernels(*captured):
            yield
    finally:
        clear_caches()


def write_library(level: str) -> None:
    """Compile the library for a level."""
    store = MemoryStore()
    for program, target in runnable_programs(level):
        with kernels_captured(store, target):
            program()
    print(f"{level}: {len(store.code)} kernels of first programs", file=sys.stderr)
    for name in NETWORKS:
        for graph, target in product(network_graphs(name), targets(level)):
            compile_graph(graph, target, Options(), store)
        print(f"{level}: {len(store.code)} kernels with those of {name}", file=sys.stderr)
    data = to_bytes({text: code for text, code in store.code.items() if is_portable(text)})
    write_atomically(library_file(level), data)


if __name__ == "__main__":
    if unknown := set(sys.argv[1:]) - set(LEVELS):
        raise SystemExit(f"unknown: {', '.join(sorted(unknown))}; there are libraries for {', '.join(LEVELS)}")
    if missing := sorted(set[str]().union(*X86_LEVELS.values()) - cpu_flags()):
        raise SystemExit(f"make_kernels runs what it compiles, and this processor lacks {', '.join(missing)}")
    for each in sys.argv[1:] or LEVELS:
        write_library(each)
