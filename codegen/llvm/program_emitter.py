"""The emitter of CPU programs: collects the kernels of one program, and returns their machine code.

Equal kernels are emitted once. Functions move to inner kernels (`inner_kernels.py`), which a store can have from other
programs; LLVM compiles the rest. Kernels without constant extents are shared by programs of any shapes (`shared.py`).
The modules that emit a kind of kernel are imported where a program has one, so that the first call of an operator does
not wait for the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Never, Protocol, TypeVar, runtime_checkable

from ...ir.dialects.core import Fused
from ...ir.gather_steps import Part
from ...ir.graph import Graph, Node
from ...ir.hashing import structural_hash, trace_hash
from ...ir.kernel import Kernel
from ...ir.program import Program
from ...ir.types import TensorType
from ...passes.manager import Context
from ..chains import ChainedKernel
from ..elf.kernels import function_names
from ..elf.merge import self_contained
from ..emission import Emission, LaunchSpec, Packing
from ..generalize import GeneralKernel, generalize
from ..observe import observe_kernel, observe_text
from .compile import Compilations, emit_assembly
from .cpu import Cpu
from .dynamic_function import DynamicModule
from .emit import emit_kernel, is_contraction
from .emitter import ModuleBuilder
from .inner_kernels import InnerKernels
from .kernel_module import KernelModule
from .loops.emit import emit_loops
from .schedule.vector_axis import SHUFFLED
from .shared import DYNAMIC, LOOPS, PRODUCTS, share_code, shared_code

if TYPE_CHECKING:
    from .contract.general_form import GeneralProduct
    from .halos import HaloClearing
    from .target import CpuTarget

_FEW_REGIONS = 3  # with more regions shape-free kernels are compact: faster code would not repay its compile time
_E = TypeVar("_E")
_SYMBOL_DIGITS = 24  # hexadecimal, of a hash: equal symbols of different code are improbable
_ASSEMBLY = 5  # level of MXFORGE_DEBUG from which assembly is printed


@runtime_checkable
class LlvmPacking(Packing, Protocol):
    """A form of an operand whose kernel LLVM compiles."""

    def emit(self, module: ModuleBuilder, target: Cpu, symbol: str) -> LaunchSpec: ...

    def repeated(self) -> LlvmPacking:
        """The same form, packed often: by faster code that takes longer to compile."""
        ...


class LlvmEmitter:
    """Collects the kernels of one program: kernels for its shapes in `module`, shape-free kernels that are not yet
    compiled in `fresh`. Most move to the inner kernels of the module, which LLVM compiles on several threads and
    `context.kernels` stores. `general` names all shape-free kernels; programs share their code."""

    def __init__(self, target: CpuTarget, graph: Graph, context: Context) -> None:
        self.target, self.context = target, context
        self._machine = target.identity
        self.compact = sum(isinstance(node.op, Fused) for node in graph.nodes) > _FEW_REGIONS
        self.is_nested = False
        self.trains = bool(graph.private) or not context.options.keeps_prepared  # a part of a training step
        inner, shared = (InnerKernels(target, context.kernels, self._begin) for _ in range(2))
        if context.options.dynamic:
            self.module = self.fresh = DynamicModule(target, shared)
        else:
            self.module, self.fresh = KernelModule(target, inner), KernelModule(target, shared, shares=False)
        self.compilations = Compilations(target)
        self.texts: dict[str, str] = {}
        self.emissions: dict[tuple[str, bool], Emission] = {}
        self.packings: dict[Packing, LaunchSpec] = {}
        self.clearings: dict[HaloClearing, LaunchSpec] = {}
        self.chains: dict[str, Emission | None] = {}
        self.routines: dict[str, Emission] = {}
        self.general: dict[str, bytes | None] = {}  # shape-free code; None: this program compiles it

    def nested(self) -> LlvmEmitter:
        """An emitter into the same module for a nested graph, whose kernels have no run-time extents."""
        inner = copy(self)
        inner.is_nested = True
        return inner

    # -- symbols

    def _symbol(self, prefix: str, *content: object) -> str:
        """The symbol of the code for `content` on this target: programs that define it have the same code."""
        return f"{prefix}_{trace_hash(self._machine, *content)[:_SYMBOL_DIGITS]}"

    def _node_symbol(self, prefix: str, node: Node) -> str:
        """The symbol of the code of a primitive, which ends with the primitive's name."""
        types = tuple(v.type for v in (*node.inputs, *node.outputs))
        return f"{self._symbol(prefix, node.op, types)}_{node.op.name.rpartition('.')[2]}"

    # -- kernels

    def emit(self, kernel: Kernel, parameters: frozenset[str], aligned: bool) -> Emission:
        """See `Emitter`. Loads and stores on a CPU require only the alignment of an element."""
        options = self.context.options
        if not self.is_nested and (options.dynamic or not options.static_shape):
            emission = self._emit_shape_free(kernel, parameters)
            if emission is not None:
                return emission
        once = parameters.issuperset(b.name for b in kernel.buffers)
        parameters = parameters if is_contraction(kernel) else frozenset()
        name = trace_hash(kernel, parameters) if parameters else trace_hash(kernel)
        key = name, once
        emission = self.emissions.get(key)
        if emission is None:
            symbol, first = self._symbol("k", name, once), len(kernel.buffers) + len(kernel.extents) + 1
            emission = self._dynamic(symbol, first, lambda: self._emit_fixed(kernel, symbol, parameters, once))
            self.emissions[key] = emission
        return emission

    def _emit_fixed(self, kernel: Kernel, symbol: str, parameters: frozenset[str], once: bool) -> Emission:
        observe_kernel(kernel, self.context)
        return emit_kernel(kernel, self.target, self.module, symbol, parameters, once)

    def emit_packing(self, packing: Packing) -> LaunchSpec:
        launch = self.packings.get(packing)
        if launch is None:
            assert isinstance(packing, LlvmPacking)
            form = packing.repeated() if self.trains else packing
            symbol = self._symbol("pack", type(form).__name__, form)
            emission = self._dynamic(symbol, 2, lambda: Emission((form.emit(self.module, self.target, symbol),)))
            (launch,) = emission.launches
            self.packings[packing] = launch
        return launch

    def emit_clearing(self, type: TensorType, position: int, grouped: bool) -> LaunchSpec | None:
        """Code for run-time extents and for nested graphs keeps memory that is zeroed once."""
        if self.is_nested or self.context.options.dynamic:
            return None
        from .halos import halo_clearing

        form = halo_clearing(type, position, grouped)
        if form is not None and form not in self.clearings:
            symbol = self._symbol("halo", form)
            self.clearings[form] = self._emitted(lambda: form.emit(self.module, symbol))
        return None if form is None else self.clearings[form]

    @property
    def chained_bytes(self) -> int:
        """Values that the L2 caches of all threads hold are read back fast. Code for run-time extents has no blocks."""
        options = self.context.options
        is_fixed = not options.dynamic and (options.static_shape or self.is_nested)
        return self.target.l2_bytes if is_fixed else 0

    def emit_chain(self, chain: Sequence[ChainedKernel]) -> Emission | None:
        from .chain import emit_chain

        name = trace_hash(*((link.kernel, link.source, link.parameters) for link in chain))
        if name not in self.chains:
            for link in chain:
                observe_kernel(link.kernel, self.context)
            symbol = self._symbol("x", name)
            self.chains[name] = self._emitted(lambda: emit_chain(chain, self.target, self.module, symbol))
        return self.chains[name]

    def _emitted(self, emit: Callable[[], _E]) -> _E:
        """The result of `emit`, which adds functions to the module. LLVM begins to compile those that can move."""
        emission = emit()
        self.module.release()
        return emission

    # -- kernels with symbolic extents

    def _dynamic(self, symbol: str, first: int, emit: Callable[[], Emission]) -> Emission:
        """The emission of `emit`, which adds functions to the module whose names start with `symbol`. With symbolic
        extents the functions are shape-free: they are renamed after a digest of their code, and removed if the process
        already has them."""
        module = self.module
        if not isinstance(module, DynamicModule):
            return self._emitted(emit)
        mark = module.mark()
        module.begin_kernel(first)
        emission = emit()
        kernel = module.end_kernel(symbol)
        name = f"{DYNAMIC}{kernel.digest}"
        launches = tuple(
            replace(s, symbol=name + s.symbol.removeprefix(symbol), numbers=s.numbers + kernel.numbers(s.symbol))
            for s in emission.launches
        )
        if any([self._is_new(spec.symbol) for spec in launches]):
            module.rename(kernel, name)
        else:
            module.undo(mark)
        return replace(emission, launches=launches)

    # -- kernels of run-time extents

    def _emit_shape_free(self, kernel: Kernel, parameters: frozenset[str]) -> Emission | None:
        """The kernel with run-time extents; None if it has no such form."""
        if is_contraction(kernel):
            from .contract.general_form import general_product

            product = general_product(kernel, self.target, parameters if self.context.options.dynamic else frozenset())
            return None if product is None or product.has_known_weights else self._emit_product(product)
        general = generalize(kernel, SHUFFLED, weaves=True)
        return None if general is None else self._emit_general(general)

    def _emit_product(self, product: GeneralProduct) -> Emission:
        from .contract.general_product import emit_general_product, general_launches, general_symbols

        symbol = f"{PRODUCTS}{structural_hash(product.form)[:24]}"
        launches = general_launches(product, self.target, symbol)
        if any([self._is_new(name) for name in general_symbols(product.form, symbol)]):
            emit_general_product(self.fresh, product.form, symbol)
        return replace(launches, operands=product.operands, extents=product.values())

    def _emit_general(self, general: GeneralKernel) -> Emission:
        """A shape-free kernel. Its code is compiled once per process."""
        name = f"{LOOPS}{structural_hash(general.kernel)[:24]}"
        emission = emit_loops(general.kernel, self.target, None, name, general.extents, self.compact)
        if any([self._is_new(spec.symbol) for spec in emission.launches]):
            observe_kernel(general.kernel, self.context)
            emit_loops(general.kernel, self.target, self.fresh, name, general.extents, self.compact)
        return replace(emission, operands=general.operands, extents=general.extents)

    def _is_new(self, symbol: str) -> bool:
        """Register the use of shape-free code; returns True if it must be emitted."""
        if symbol in self.general:
            return False
        self.general[symbol] = shared_code(symbol, self.target)
        return self.general[symbol] is None

    # -- primitives without a Kernel

    def emit_node(self, node: Node, aligned: bool, in_place: bool) -> Emission | None:
        from .routines.emit import emit_routine, has_routine, shape_free_routine

        if not has_routine(node.op):
            return None
        if (routine := shape_free_routine(node, self.target)) is not None:
            emission, functions = routine
            for name, emit in functions.items():
                if self._is_new(name):
                    emit(self.fresh)
            return emission
        operands, symbol = (*node.inputs, *node.outputs), self._node_symbol("r", node)
        emission = self.routines.get(symbol)
        if emission is None:
            emission = self._dynamic(symbol, len(operands) + 1, lambda: emit_routine(node, self.module, symbol))
            self.routines[symbol] = emission
        return emission

    # -- code

    joins = False

    def join(self, program: Program, parts: Sequence[Part]) -> Never:
        raise AssertionError("the thread pool starts groups of launches together")

    def code(self) -> tuple[bytes, ...]:
        """The objects of the kernels of this program's shapes, and those of the shape-free kernels, which are compiled
        if no program has them yet."""
        missing = [symbol for symbol, code in self.general.items() if code is None]
        own = () if self.module is self.fresh else (self.module,)
        modules = (*own, self.fresh) if missing else own
        for module in modules:
            module.release()
            module.kernels.finish_module()
            self.context.dump("thunks", "txt", module.describe_thunks())
        remaining = {m: self._add(f"module{k}", m.text()) for k, m in enumerate(modules) if m.has_functions()}
        compiled = self._compiled()
        objects = {
            m: [
                *m.kernels.objects(compiled, m.thunks, m.constants),
                *([compiled[remaining[m]]] if m in remaining else []),
            ]
            for m in modules
        }
        if missing:
            objects[self.fresh] = self_contained(objects[self.fresh])
        for code in objects[self.fresh] if missing else ():
            names = function_names(code)
            share_code(names, self.target, code)
            self.general.update({symbol: code for symbol in names if symbol in self.general})
        shared = self.general.values()
        codes = [code for module in own for code in objects[module]]
        return tuple(dict.fromkeys([*codes, *(code for code in shared if code is not None)]))

    def _begin(self, text: str) -> int:
        """Compile a module of inner kernels while others are emitted."""
        number = self._add(f"inner{len(self.texts)}", text)
        self.compilations.begin()
        return number

    def _add(self, name: str, text: str) -> int:
        """Let LLVM compile a text; returns the position of its object."""
        self.texts[name] = text
        self.context.dump(name, "ll", text)
        self.compilations.add(text)
        return len(self.texts) - 1

    def _compiled(self) -> list[bytes]:
        """The objects of all modules. The first call imports LLVM."""
        if not self.texts:
            return []
        start = time.perf_counter()
        code = self.compilations.objects()
        self.context.trace.append(("llvm", time.perf_counter() - start))
        if self.context.settings.debug >= _ASSEMBLY or self.context.settings.dump is not None:
            for name, text in self.texts.items():
                observe_text(name, "s", emit_assembly(text, self.target), _ASSEMBLY, self.context)
        return code
