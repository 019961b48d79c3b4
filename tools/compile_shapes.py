"""Compiles a model for several shapes, for `mxforge compile`.

A variant without ranges has a program that is specialised for its shape, and so has the best shape of ranges. Other
shapes of ranges have programs of dynamic programs, as calls with changing shapes have: each shape is evaluated here,
and one that no dynamic program accepts compiles another one. So a folder covers its ranges, or is not written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..codegen.target import Target
from ..frontend.base import MXNetError
from ..ir.graph import GraphError
from ..ir.program import Program
from ..ir.program_table import ProgramTables
from ..ir.types import DType, Shape
from ..runtime.compile import compile_dynamic_for, compile_for, compile_program
from ..runtime.compiled_folder import require_no_functions
from ..runtime.compiled_shapes import StoredShapes
from ..runtime.devices import HOST
from ..runtime.freeze import FrozenMemory, lay_out_parameters
from ..runtime.shape_variants import Variant
from ..runtime.shape_variants import described as variant_of
from .errors import ToolError, UsageError
from .models import Model, data_types, model_graph, parameter_memory
from .progress import Progress
from .shape_grammar import Declared
from .shape_ranges import Types, best_of, described, has_best, is_fixed, types_in

if TYPE_CHECKING:
    from ..codegen.dynamic_program import DynamicProgram

MOST_DYNAMIC = 32
"""The most dynamic programs of a folder."""


def compile_shapes(
    model: Model,
    variants: Mapping[str, Declared],
    gpu: Target | None,
    gpu_name: str,
    progress: Progress,
    *,
    unpacked: bool,
) -> StoredShapes:
    """The model for all shapes of the variants, for a GPU or for the host, as a folder stores it. UsageError for shapes
    that the model does not take; ToolError if ranges need too many programs. `unpacked`: with parameters as they are,
    which programs pack in their first runs, as on GPUs."""
    packs = unpacked or gpu is not None
    compiler = _Compiler(model, gpu, progress, packs=packs)
    described_variants = [compiler.add(name, declared) for name, declared in variants.items()]
    bound, memory = lay_out_parameters(parameter_memory(model)) if packs else ((), compiler.memory.block())
    return StoredShapes(
        model.name,
        tuple(zip(model.data_names, compiler.dtypes[0], strict=True)),
        tuple(zip(model.symbol.list_outputs(), compiler.dtypes[1], strict=True)),
        tuple(described_variants),
        tuple(compiler.tables.tables()),
        memory,
        gpu_name,
        bound,
        unpacked,
    )


class _Compiler:
    """Compiles variant after variant, and collects programs, their memory, and the dtypes of inputs and outputs."""

    def __init__(self, model: Model, gpu: Target | None, progress: Progress, *, packs: bool) -> None:
        self._model, self._gpu, self._progress, self._packs = model, gpu, progress, packs
        self._dynamic: list[DynamicProgram] = []
        self._seen: set[tuple[Shape, ...]] = set()
        self.memory = FrozenMemory({} if packs else parameter_memory(model))
        self.tables = ProgramTables()
        self.dtypes: tuple[tuple[DType, ...], tuple[DType, ...]] = ((), ())

    def add(self, name: str, declared: Declared) -> Variant:
        """Compile a variant."""
        fixed = is_fixed(declared)
        best = data_types(self._model, best_of(declared))
        inputs: list[tuple[Shape, ...]] = []
        outputs: list[tuple[Shape, ...]] = []
        if fixed or has_best(declared):
            self._progress.step(f"compiling {self._model.name} for {described(best)}")
            inputs.append(_shapes(best))
            outputs.append(self._store(best, self._specialised(best)))
        for types in () if fixed else types_in(self._model, declared):
            if _shapes(types) not in inputs[:1]:
                self._progress.step(f"compiling {self._model.name} for {described(types)}")
                inputs.append(_shapes(types))
                outputs.append(self._store(types, self._general(types)))
        return variant_of(name, inputs, outputs, _shapes(best) if has_best(declared) else None)

    def _store(self, types: Types, program: Program) -> tuple[Shape, ...]:
        """Store the program for inputs of these types, unless an earlier one is; returns the shapes of its outputs."""
        require_no_functions(program, self._model.name)
        dtypes = tuple([t.dtype for t in types.values()]), tuple([t.dtype for t in program.results])
        if self._seen and dtypes != self.dtypes:
            raise UsageError(f"{described(types)}: all variants must have the same dtypes of inputs and outputs")
        self.dtypes = dtypes
        if _shapes(types) not in self._seen:
            self._seen.add(_shapes(types))
            self.tables.add(self._bound(program))
        return tuple([t.shape for t in program.results])

    def _bound(self, program: Program) -> Program:
        if not self._packs:
            return self.memory.freeze(program)
        if program.state:
            raise ToolError(f"{self._model.name} replaces its inputs: omit --unpacked")
        return program

    def _specialised(self, types: Types) -> Program:
        graph, options = model_graph(self._model, types), self._model.options()
        return compile_program(graph, options, HOST) if self._gpu is None else compile_for(graph, options, self._gpu)

    def _general(self, types: Types) -> Program:
        """The program of a dynamic program."""
        inputs = self._model.input_types(types)
        for dynamic in self._dynamic:
            program = dynamic.at(inputs)
            if program is not None:
                return program
        if len(self._dynamic) == MOST_DYNAMIC:
            ways = "give smaller ranges, or single shapes as variants"
            raise ToolError(
                f"the ranges need more than {MOST_DYNAMIC} programs, none of which takes {described(types)}: {ways}"
            )
        dynamic = self._compiled(types)
        self._dynamic.insert(0, dynamic)  # neighbouring shapes are likely to need it too
        program = dynamic.at(inputs)
        assert program is not None, "the extents of a compilation satisfy its guards"
        return program

    def _compiled(self, types: Types) -> DynamicProgram:
        target = (HOST.target if self._gpu is None else self._gpu).dynamic
        if target is None:
            raise UsageError("programs for the target have fixed shapes: pass shapes without ranges, as variants")
        try:
            graph = model_graph(self._model, types)
            if graph.calls_python():
                raise UsageError(f"{self._model.name} calls Python functions, which cannot be written")
            return compile_dynamic_for(graph, self._model.options(), target)
        except (GraphError, MXNetError) as error:
            raise UsageError(f"{described(types)}: {error}") from error


def _shapes(types: Types) -> tuple[Shape, ...]:
    return tuple([t.shape for t in types.values()])
