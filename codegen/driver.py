"""The compiler, top to bottom: a graph in, a program out."""

from __future__ import annotations

import sys
import time
from dataclasses import replace

from ..ir.graph import Graph
from ..ir.program import Program
from ..ir.target import CpuTarget
from ..passes.manager import Context, Options, run_passes
from ..passes.pipeline import FOR_CPU
from ..passes.plan_memory import share_memory
from .assemble import assemble
from .compiler import KernelCompiler, compiled


def compile_graph(graph: Graph, target: CpuTarget, options: Options | None = None) -> Program:
    """Compile a graph of mx or core nodes for a CPU.

    GraphError names the node that cannot be compiled. Nothing is cached here: the runtime keeps programs.
    """
    start = time.perf_counter()
    context = Context(target, options or Options())
    if context.settings.dump is not None:
        context.dump("input", "mlir", str(graph))

    fused = run_passes(FOR_CPU, graph, context)
    sharing = share_memory(fused)
    compiler = KernelCompiler(target, context)
    steps = compiler.steps(fused, sharing)
    code = _compile_module(compiler, context)
    program = replace(assemble(fused, sharing, steps, code, graph.names()), functions=tuple(compiler.functions or ()))
    if context.settings.verify:
        from ..ir.verifier import verify_program

        verify_program(program)

    _report(program, context, time.perf_counter() - start)
    return program


def _compile_module(compiler: KernelCompiler, context: Context) -> tuple[bytes, ...]:
    """Machine code of all kernels: what is of this program's shapes in one object, and what programs share."""
    shared = compiler.shared_code()
    if compiler.module is compiler.fresh:
        return shared
    if not compiler.emissions and not compiler.routines and not compiler.controls:
        return shared
    return (compiled(compiler.module, "module", context), *shared)


def _report(program: Program, context: Context, seconds: float) -> None:
    """One line for each compilation and for each contraction without a schedule at MXFORGE_DEBUG=1, the launches at 2,
    and the program in the dump."""
    if context.settings.debug >= 1:
        times = ", ".join(f"{name} {1e3 * t:.1f}" for name, t in context.trace)
        launches = f"{len(program.launches)} launches, arena {program.arena_bytes >> 10} KiB"
        print(f"mxforge: compiled {program.name} in {1e3 * seconds:.1f} ms ({launches}; {times})", file=sys.stderr)
        for label, reason in program.fallbacks():
            print(f"mxforge: {label} runs as plain loops: {reason}", file=sys.stderr)
    if context.settings.debug >= 2 or context.settings.dump is not None:
        from ..ir.printer import print_program

        text = print_program(program)
        if context.settings.debug >= 2:
            print(text, file=sys.stderr)
        context.dump("program", "mlir", text)
