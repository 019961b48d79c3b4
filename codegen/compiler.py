"""Lowers every region of a fused graph to kernels, schedules and emits them, each distinct one once."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ..ir.dialects.core import Cond, Constant, Fused, HostCallback, Scan, While
from ..ir.graph import Graph, GraphError, Node, Value
from ..ir.hashing import structural_hash, trace_hash
from ..ir.kernel import Kernel
from ..ir.program import HostFunction
from ..ir.target import CpuTarget
from ..passes.manager import Context
from ..passes.plan_memory import Sharing, concat_of, view_of
from .emission import Emission, LaunchSpec, Packing
from .llvm.contract.open_form import OpenProduct, open_product
from .llvm.contract.open_product import emit_open_product, open_launches
from .llvm.dynamic_function import DynamicModule
from .llvm.emit import emit_kernel, is_contraction
from .llvm.emitter import ModuleBuilder
from .llvm.loops.emit import emit_loops
from .llvm.loops.generalize import GeneralKernel, generalize
from .llvm.routines import emit_routine, has_routine
from .lower import Strides, lower_concat, lower_region
from .lower_contract import read_apart
from .shared import DYNAMIC, LOOPS, NESTED, PRODUCTS, share_code, shared_code

_FEW_REGIONS = 3  # beyond, what shape-free kernels gain by more code is less than the time to compile it


@dataclass(frozen=True)
class Step:
    """One kernel of the program on the graph's values: `operands` are those of its buffers, in order."""

    node: Node
    emission: Emission
    operands: tuple[Value, ...]
    packs: tuple[tuple[int, Packing, LaunchSpec], ...]  # position of the operand, its form, and the kernel that packs
    extents: tuple[int, ...] = ()


@dataclass
class KernelCompiler:
    """Collects the kernels of one program: those of its own shapes in `module`, shape-free ones that no program had
    before in `fresh`. `general` names all shape-free ones; programs share their code."""

    target: CpuTarget
    context: Context
    module: ModuleBuilder = field(init=False)
    fresh: ModuleBuilder = field(init=False)
    compact: bool = False
    emissions: dict[tuple[str, bool], Emission] = field(default_factory=dict[tuple[str, bool], Emission])
    packings: dict[tuple[Packing, bool], LaunchSpec] = field(default_factory=dict[tuple[Packing, bool], LaunchSpec])
    general: dict[str, None] = field(default_factory=dict[str, None])
    routines: dict[str, Emission] = field(default_factory=dict[str, Emission])
    controls: dict[str, Emission] = field(default_factory=dict[str, Emission])
    functions: list[HostFunction] | None = field(default_factory=list[HostFunction])
    is_nested: bool = False

    def __post_init__(self) -> None:
        dynamic = self.context.options.dynamic
        self.fresh = DynamicModule(self.target) if dynamic else ModuleBuilder(self.target)
        self.module = self.fresh if dynamic else ModuleBuilder(self.target)

    def steps(self, graph: Graph, sharing: Sharing) -> list[Step]:
        """The kernels of all nodes of `graph`, in order; views need none."""
        made: list[Step] = []
        self.compact = sum(isinstance(node.op, Fused) for node in graph.nodes) > _FEW_REGIONS
        for node in graph.nodes:
            if isinstance(node.op, Constant) or view_of(node) is not None:
                continue
            concat = concat_of(node)
            if concat is not None:
                made += self._pieces(node, concat.axis, sharing)
            elif isinstance(node.op, Fused):
                made.append(self._region(node, node.op, sharing))
            elif has_routine(node.op):
                made.append(self._routine(node))
            elif isinstance(node.op, HostCallback):
                made.append(self._host_call(node, node.op))
            elif isinstance(node.op, Cond | While | Scan):
                made.append(self._control(node))
            else:
                raise GraphError(
                    f"{node.describe()} has no kernel on the cpu target; MXFORGE_TARGET=reference interprets it"
                )
        return made

    def _routine(self, node: Node) -> Step:
        """A primitive that no Kernel describes, emitted from the node itself."""
        symbol = f"r{len(self.routines)}_{node.op.name.rpartition('.')[2]}"
        operands = (*node.inputs, *node.outputs)
        key = trace_hash(node.op, *(v.type for v in operands), self._is_apart)
        emission = self.routines.get(key)
        if emission is None:
            first = len(operands) + 1
            emission = self._dynamic(symbol, first, lambda: emit_routine(node, self.target, self.module, symbol))
            self.routines[key] = emission
        return Step(node, emission, operands, ())

    def _host_call(self, node: Node, op: HostCallback) -> Step:
        """A call of a Python function, in a launch of its own."""
        if self.functions is None:
            raise GraphError(
                f"{node.describe()} is a Python function inside a loop that data end, which cannot call it"
            )
        types, results = (tuple(v.type for v in values) for values in (node.inputs, node.outputs))
        symbol = f"host{len(self.functions)}"
        self.functions.append(HostFunction(symbol, op.evaluate, types, results, node.describe()))
        return Step(node, Emission((LaunchSpec(symbol, 1, 1),)), (*node.inputs, *node.outputs), ())

    def _control(self, node: Node) -> Step:
        """A branch or a loop, whose nested graphs are compiled into this module."""
        from .control import emit_control

        operands = (*node.inputs, *node.outputs)
        symbol = f"c{len(self.controls)}_{node.op.name.rpartition('.')[2]}"
        self.controls[symbol] = Emission(())  # the number is taken; nested loops get others
        emission = self._dynamic(symbol, len(operands) + 1, lambda: emit_control(node, self, symbol))
        self.controls[symbol] = emission
        return Step(node, emission, operands, ())

    def nested(self, context: Context, endless: bool) -> KernelCompiler:
        """A compiler that adds to the same module, for a nested graph. One that runs until data end it (`endless`) has
        no Python functions: it might never end when one of them fails."""
        made = KernelCompiler(self.target, context)
        made.module, made.emissions, made.packings = self.module, self.emissions, self.packings
        made.routines, made.controls = self.routines, self.controls
        made.fresh, made.general = self.fresh, self.general
        made.functions = None if endless else self.functions
        made.is_nested = True
        return made

    def _region(self, node: Node, op: Fused, sharing: Sharing) -> Step:
        operands = (*node.inputs, *node.outputs)
        kernel, positions = read_apart(lower_region(op, strides=[sharing.resolve(v).strides for v in operands]))
        return self._step(node, kernel, tuple(operands[i] for i in positions), sharing.prepared)

    def _pieces(self, node: Node, axis: int, sharing: Sharing) -> list[Step]:
        """A copy for each operand of a concatenation that does not stand in its place already."""
        whole = node.outputs[0]
        types = [v.type for v in node.inputs]
        made: list[Step] = []
        for i, piece in enumerate(node.inputs):
            if (whole, i) in sharing.placed:
                continue
            strides: list[Strides] = [sharing.resolve(v).strides for v in (piece, whole)]
            kernel = lower_concat(types, whole.type, axis, i, "kernel", strides)
            made.append(self._step(node, kernel, (piece, whole), sharing.prepared))
        return made

    def _step(self, node: Node, kernel: Kernel, operands: tuple[Value, ...], prepared: frozenset[Value]) -> Step:
        self._verify(kernel)
        parameters = frozenset(b.name for b, v in zip(kernel.buffers, operands, strict=True) if v in prepared)
        if not self.is_nested and (self.context.options.dynamic or not self.context.options.static_shape):
            open_step = self._open_step(node, kernel, operands, parameters)
            if open_step is not None:
                return open_step
        emission = self._emit(node, kernel, parameters if is_contraction(kernel) else frozenset())
        return Step(node, emission, operands, self._packs(emission))

    def _packs(self, emission: Emission) -> tuple[tuple[int, Packing, LaunchSpec], ...]:
        return tuple((position, packing, self._packing(packing)) for position, packing in emission.packings)

    def _verify(self, kernel: Kernel) -> None:
        if self.context.settings.verify:
            from ..ir.verifier import verify_kernel

            verify_kernel(kernel)

    def _emit(self, node: Node, kernel: Kernel, parameters: frozenset[str]) -> Emission:
        name = trace_hash(kernel, parameters) if parameters else trace_hash(kernel)
        key = name, self._is_apart
        emission = self.emissions.get(key)
        if emission is None:
            symbol, first = f"k_{name[:16]}", len(kernel.buffers) + len(kernel.extents) + 1
            emission = self._dynamic(symbol, first, lambda: self._emit_into(node, kernel, symbol, parameters))
            self.emissions[key] = emission
        return emission

    @property
    def _is_apart(self) -> bool:
        """True for the dynamic kernels of a loop or a branch: its function calls them, so they are in its object and
        not in those that programs share."""
        return self.is_nested and self.context.options.dynamic

    def _dynamic(self, symbol: str, first: int, emit: Callable[[], Emission]) -> Emission:
        """What `emit` adds to the module as functions whose names begin with `symbol`. With symbolic extents these are
        shape-free: they are named by their code, and left out where the process has them."""
        module = self.module
        if not isinstance(module, DynamicModule):
            return emit()
        mark = module.mark()
        module.begin_kernel(first)
        emission = emit()
        kernel = module.end_kernel(symbol)
        name = f"{NESTED if self.is_nested else DYNAMIC}{kernel.digest}"
        launches = tuple(
            replace(s, symbol=name + s.symbol.removeprefix(symbol), numbers=s.numbers + kernel.numbers(s.symbol))
            for s in emission.launches
        )
        if self.is_nested:
            known = all(module.has_function(spec.symbol) for spec in launches)
        else:
            known = not any([self._is_new(spec.symbol) for spec in launches])
        if known:
            module.undo(mark)
        else:
            module.rename(kernel, name)
        return replace(emission, launches=launches)

    def _emit_into(self, node: Node, kernel: Kernel, symbol: str, parameters: frozenset[str]) -> Emission:
        self._observe(kernel)
        try:
            return emit_kernel(kernel, self.target, self.module, symbol, parameters)
        except (NotImplementedError, TypeError, ValueError) as error:
            raise GraphError(f"{node.describe()}: {error}") from error

    def _open_step(
        self, node: Node, kernel: Kernel, operands: tuple[Value, ...], parameters: frozenset[str]
    ) -> Step | None:
        """The step with a kernel of run-time extents, if the kernel has such a form."""
        if is_contraction(kernel):
            product = open_product(kernel, self.target, parameters if self.context.options.dynamic else frozenset())
            if product is None:
                return None
            used = tuple(operands[i] for i in product.operands)
            emission = self._emit_product(product)
            return Step(node, emission, used, self._packs(emission), product.values())
        general = generalize(kernel)
        if general is None:
            return None
        used = tuple(operands[i] for i in general.operands)
        return Step(node, self._emit_general(node, general), used, (), general.extents)

    def _emit_product(self, product: OpenProduct) -> Emission:
        symbol = f"{PRODUCTS}{structural_hash(product.form)[:24]}"
        if self._is_new(symbol):
            emit_open_product(self.fresh, product.form, symbol)
        return open_launches(product, self.target, symbol)

    def _is_new(self, symbol: str) -> bool:
        """Note the use of shape-free code, and tell whether it must be emitted."""
        new = symbol not in self.general and shared_code(symbol, self.target) is None
        self.general[symbol] = None
        return new

    def _emit_general(self, node: Node, general: GeneralKernel) -> Emission:
        """A shape-free kernel: its code is compiled once in the life of the process."""
        name = f"{LOOPS}{structural_hash(general.kernel)[:24]}"
        emission = emit_loops(general.kernel, self.target, None, name, general.extents, self.compact)
        symbol = emission.launches[0].symbol
        if self._is_new(symbol):
            self._observe(general.kernel)
            try:
                emit_loops(general.kernel, self.target, self.fresh, name, general.extents, self.compact)
            except (NotImplementedError, TypeError, ValueError) as error:
                raise GraphError(f"{node.describe()}: {error}") from error
        return emission

    def shared_code(self) -> tuple[bytes, ...]:
        """The objects that define the shape-free kernels; those that are new are compiled as one."""
        missing = [s for s in self.general if shared_code(s, self.target) is None]
        if missing:
            share_code(missing, self.target, compiled(self.fresh, "shared", self.context))
        found = (shared_code(symbol, self.target) for symbol in self.general)
        return tuple(dict.fromkeys(code for code in found if code is not None))

    def _packing(self, packing: Packing) -> LaunchSpec:
        key = packing, self._is_apart
        launch = self.packings.get(key)
        if launch is None:
            symbol = f"pack_{len(self.packings)}"
            made = self._dynamic(symbol, 2, lambda: Emission((packing.emit(self.module, self.target, symbol),)))
            (launch,) = made.launches
            self.packings[key] = launch
        return launch

    def _observe(self, kernel: Kernel) -> None:
        if self.context.settings.debug < 4 and self.context.settings.dump is None:
            return
        from ..ir.printer import print_kernel

        text = print_kernel(kernel)
        if self.context.settings.debug >= 4:
            print(text, file=sys.stderr)
        self.context.dump("kernel", "mlir", text)


def compiled(module: ModuleBuilder, name: str, context: Context) -> bytes:
    """The object of a module; importing LLVM is left to the first that needs it."""
    from .llvm.compile import compile_object, emit_assembly

    start = time.perf_counter()
    text = module.text()
    context.dump(name, "ll", text)
    code = compile_object(text, module.target)
    context.trace.append(("llvm", time.perf_counter() - start))
    if context.settings.debug >= 5 or context.settings.dump is not None:
        assembly = emit_assembly(text, module.target)
        context.dump(name, "s", assembly)
        if context.settings.debug >= 5:
            print(assembly, file=sys.stderr)
    return code
