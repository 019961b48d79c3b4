"""The compiler, top to bottom: compiles a graph to a program."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace

from ..ir.code_store import NO_STORE, CodeStore
from ..ir.graph import Graph
from ..ir.lazy_dataclass import dataclass
from ..ir.program import HostFunction, Program
from ..ir.symbolic import concrete
from ..passes.manager import Context, Options, run_passes
from ..passes.plan_memory import Sharing, share_memory
from .assemble import Placement, assemble_placed
from .compiler import KernelCompiler, Step
from .control import compile_control
from .target import Target


@dataclass(frozen=True)
class Compilation:
    """A program with what it is assembled from, for reports: the graph after all passes, the steps, the shared memory
    and the places of values."""

    program: Program
    graph: Graph
    steps: Sequence[Step]
    sharing: Sharing
    placement: Placement


def compile_graph(
    graph: Graph, target: Target, options: Options | None = None, kernels: CodeStore = NO_STORE
) -> Program:
    """Compile a graph of mx or core nodes for a target. `kernels` stores the code of kernels between compilations.

    Raises GraphError, which names the node that cannot be compiled. Programs are not cached here: the runtime caches
    them.
    """
    return compile_steps(graph, target, options, kernels, joins=True).program


def compile_steps(
    graph: Graph,
    target: Target,
    options: Options | None = None,
    kernels: CodeStore = NO_STORE,
    *,
    joins: bool = False,
) -> Compilation:
    """`compile_graph`, with what the program is assembled from. Unless `joins`, each launch is of one step."""
    start = time.perf_counter()
    context = Context(target, options or Options(), kernels=kernels)
    if context.settings.dump is not None:
        context.dump("input", "mlir", str(graph))

    fused = run_passes(target.passes, graph, context)
    sharing = share_memory(fused)
    emitter = target.emitter(fused, context)
    functions: list[HostFunction] = []
    steps = KernelCompiler(emitter, context, functions, compile_control).steps(fused, sharing)
    keeps = context.options.keeps_prepared
    joins = joins and emitter.joins
    assembled, placement = assemble_placed(fused, sharing, steps, (), graph.names(), keeps, joins=joins)
    program = replace(assembled, functions=tuple(functions))
    if joins:
        program = emitter.join(program, [(steps[n].node, n) for n in placement.prepare + placement.run])
    program = replace(program, code=emitter.code())
    if context.settings.verify and not context.options.dynamic:  # `DynamicProgram.at` verifies those
        from ..ir.verifier import verify_program

        verify_program(program)

    _report(program, context, time.perf_counter() - start)
    return Compilation(program, fused, steps, sharing, placement)


def _report(program: Program, context: Context, seconds: float) -> None:
    """Print one line for the compilation and one for each contraction without a schedule at MXFORGE_DEBUG=1, and the
    launches at 2; write the program to the dump."""
    if context.settings.debug >= 1:
        times = ", ".join(f"{name} {1e3 * t:.1f}" for name, t in context.trace)
        launches = f"{len(program.computations)} launches, arena {concrete(program.arena_bytes) >> 10} KiB"
        print(f"mxforge: compiled {program.name} in {1e3 * seconds:.1f} ms ({launches}; {times})", file=sys.stderr)
        for label, reason in program.fallbacks():
            print(f"mxforge: {label}: {reason}", file=sys.stderr)
    if context.settings.debug >= 2 or context.settings.dump is not None:
        from ..ir.printer import print_program

        text = print_program(program)
        if context.settings.debug >= 2:
            print(text, file=sys.stderr)
        context.dump("program", "mlir", text)
