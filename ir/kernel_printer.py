"""Prints a kernel as MLIR assembly: the computation for each point, readable by people and checked by upstream MLIR.

    %x = "kernel.buffer"() {name = "x", ...} : () -> tensor<4x8xf32>
    %i = "kernel.axis"() {name = "i", extent = 4 : i64, kind = "parallel"} : () -> index
    "kernel.store"(%y, %i) ({
      %0 = "kernel.reduce"(%k) ({
        %1 = "kernel.load"(%x, %i, %k) {index = affine_map<(i, k) -> (i, k)>} : (tensor<4x8xf32>, index, index) -> f32
        "vector.yield"(%1) : (f32) -> ()
      }) {op = "add"} : (index) -> f32
      "vector.yield"(%0) : (f32) -> ()
    }) {index = affine_map<(i) -> (i)>} : (tensor<4xf32>, index) -> ()

A contraction lists its axes by role, and its region starts with its windows:

    %2 = "kernel.contract"(%i, %o, %c, %r) ({
      %p = "kernel.window"(%o, %r) {extent = 9 : i64, stride = 1 : i64, ...} : (index, index) -> index
      ...
      "vector.yield"(%0, %1) : (f32, f32) -> ()
    }) {kind = "convolution", accumulator = f32, operandSegmentSizes = array<i32: 0, 2, 1, 1>} : (...) -> f32

A Ref is the result of its `kernel.local`. An expression that occurs twice is printed once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from .attributes import attribute_text, dictionary_text, float_text, quote
from .kernel import (
    Affine,
    AxisValue,
    Buffer,
    Cast,
    Const,
    Contract,
    Expr,
    Extent,
    Index,
    Kernel,
    Load,
    Local,
    Reduce,
    Ref,
    Scalar,
    ScalarParameter,
    Stage,
    Window,
)
from .scalar import result_dtype
from .types import DType, TensorType

_UNSAFE = re.compile(r"\W", re.ASCII)
_Typed = tuple[str, str]  # a value's name and its type


def print_kernel(kernel: Kernel) -> str:
    """The text of `kernel`; KeyError names a buffer, axis or local that is not declared."""
    return _Printer(kernel).text()


class _Printer:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.lines: list[str] = []
        self.indent = "    "
        self.taken: set[str] = set()
        self.count = 0
        self.buffers: dict[str, _Typed] = {}
        self.axes: dict[str, str] = {}
        self.locals: dict[str, _Typed] = {}
        self.extents: dict[str, str] = {}
        self.known: dict[int, _Typed] = {}

    def text(self) -> str:
        self.declare()
        for stage in self.kernel.stages:
            self.stage(stage)
        head = '"builtin.module"() ({\n  "func.func"() ({\n  ^bb0:\n'
        name = quote(self.kernel.name)
        tail = f'    "func.return"() : () -> ()\n  }}) {{sym_name = {name}, function_type = () -> ()}} : () -> ()\n'
        return head + "".join(self.lines) + tail + "}) : () -> ()\n"

    # --- declarations -----------------------------------------------------------------------------------------------

    def declare(self) -> None:
        for b in self.kernel.buffers:
            self.buffers[b.name] = self.buffer(b)
        for name in self.kernel.extents:
            self.extents[name] = self.fresh(name)
            self.emit(self.extents[name], "kernel.extent", "", {"name": name}, "() -> i64")
        for a in self.kernel.axes:
            name = self.axes[a.name] = self.fresh(a.name)
            described = {"name": a.name, "extent": a.extent, "kind": a.kind.value}
            self.emit(name, "kernel.axis", "", described, "() -> index")

    def buffer(self, b: Buffer) -> _Typed:
        name, type = self.fresh(b.name), _buffer_type(b)
        shape, strides = _list_text(b.shape), _list_text(b.strides or ())
        described = f"name = {quote(b.name)}, shape = {shape}, strides = {strides}, written = {str(b.written).lower()}"
        self.line(f'{name} = "kernel.buffer"() {{{described}}} : () -> {type}')
        return name, type

    # --- stages -----------------------------------------------------------------------------------------------------

    def stage(self, stage: Stage) -> None:
        if isinstance(stage, Local):
            axes = [self.axes[a] for a in stage.axes]
            name = self.fresh(stage.name)
            ((_, type),) = self.region(f'{name} = "kernel.local"({", ".join(axes)}) ({{', stage.value)
            self.line(f"}}) {{name = {quote(stage.name)}}} : ({_indices(axes)}) -> {type}")
            self.locals[stage.name] = name, type
            return
        buffer, type = self.buffers[stage.buffer]
        operands, index = self.index(stage.index)
        self.region(f'"kernel.store"({", ".join([buffer, *operands])}) ({{', stage.value)
        self.line(f"}}) {{index = {index}}} : ({', '.join([type, *['index'] * len(operands)])}) -> ()")

    def region(self, opening: str, *exprs: Expr, windows: Sequence[Window] = ()) -> list[_Typed]:
        """Print a region that yields the expressions. Values printed inside are not visible outside."""
        self.line(opening)
        outside, known = self.indent, dict(self.known)
        self.indent += "  "
        for window in windows:
            self.window(window)
        values = [self.expr(e) for e in exprs]
        names, kinds = ", ".join(v for v, _ in values), ", ".join(t for _, t in values)
        self.line(f'"vector.yield"({names}) : ({kinds}) -> ()')
        self.indent, self.known = outside, known
        return values

    # --- expressions ------------------------------------------------------------------------------------------------

    def expr(self, expr: Expr) -> _Typed:
        typed = self.known.get(id(expr))
        if typed is None:
            typed = self.known[id(expr)] = self.expression(expr)
        return typed

    def expression(self, expr: Expr) -> _Typed:
        match expr:
            case Ref(local):
                return self.locals[local]
            case Const(value, dtype):
                return self.result("constant", [], f"value = {_number(value, dtype)}", dtype.value)
            case ScalarParameter(name, dtype):
                return self.result("parameter", [(self.extents[name], "i64")], "", dtype.value)
            case AxisValue(axis):
                return self.result("position", [(self.axes[axis], "index")], "", "i64")
            case Cast(dtype, operand):
                return self.result("cast", [self.expr(operand)], "", dtype.value)
            case Load():
                return self.load(expr)
            case Scalar(op, operands):
                values = [self.expr(e) for e in operands]
                kind = result_dtype(op, *(DType(t) for _, t in values))
                return self.result("scalar", values, f"op = {quote(op.value)}", kind.value)
            case Reduce(op, axes, operand):
                return self.nested("reduce", axes, f" {{op = {quote(op.value)}}}", operand)
            case Contract():
                return self.contract(expr)

    def load(self, load: Load) -> _Typed:
        indices, index = self.index(load.index)
        other = "" if load.other is None else f", other = {_number(load.other.value, load.other.dtype)}"
        dtype = self.kernel.buffer(load.buffer).dtype
        operands = [self.buffers[load.buffer], *((i, "index") for i in indices)]
        return self.result("load", operands, f"index = {index}{other}", dtype.value)

    def nested(self, mnemonic: str, axes: Sequence[str], attributes: str, *exprs: Expr) -> _Typed:
        name, over = self.number(), [self.axes[a] for a in axes]
        values = self.region(f'{name} = "kernel.{mnemonic}"({", ".join(over)}) ({{', *exprs)
        type = values[0][1]
        self.line(f"}}){attributes} : ({_indices(over)}) -> {type}")
        return name, type

    def contract(self, node: Contract) -> _Typed:
        roles = (node.batch, node.rows, node.columns, node.inner)
        name, over = self.number(), [self.axes[a] for role in roles for a in role]
        windows = list(node.windows)
        self.region(f'{name} = "kernel.contract"({", ".join(over)}) ({{', node.lhs, node.rhs, windows=windows)
        sizes = f"operandSegmentSizes = array<i32: {', '.join(str(len(role)) for role in roles)}>"
        described = f'kind = "{node.kind.value}", accumulator = {node.accumulator.value}, {sizes}'
        self.line(f"}}) {{{described}}} : ({_indices(over)}) -> {node.dtype.value}")
        return name, node.dtype.value

    def window(self, window: Window) -> None:
        """Print a window, which defines an index in the current region."""
        name = self.axes[window.name] = self.fresh(window.name)
        described = {
            "extent": window.extent,
            "stride": window.stride,
            "dilation": window.dilation,
            "low": window.low,
            "interior": window.interior,
        }
        operands = f"{self.axes[window.out]}, {self.axes[window.tap]}"
        self.emit(name, "kernel.window", operands, described, "(index, index) -> index")

    def index(self, index: Index) -> tuple[list[str], str]:
        """The operands of type index that `index` uses, and the map from them to the buffer's dimensions."""
        axes = list(dict.fromkeys(name for i in index if isinstance(i, Affine) for name, _ in i.terms))
        spelled = {name: self.axes[name][1:] for name in axes}
        operands, results = [self.axes[name] for name in axes], list[str]()
        for i in index:
            if isinstance(i, Affine):
                results.append(_affine_text(i, spelled))
                continue
            name, _ = self.result("index", [self.expr(i)], "", "index")
            operands.append(name)
            results.append(f"g{name[1:]}")
        symbols = [*spelled.values(), *(r for r, i in zip(results, index, strict=True) if not isinstance(i, Affine))]
        return operands, f"affine_map<({', '.join(symbols)}) -> ({', '.join(results)})>"

    # --- lines ------------------------------------------------------------------------------------------------------

    def result(self, mnemonic: str, operands: Sequence[_Typed], attributes: str, type: str) -> _Typed:
        name = self.number()
        listed, types = ", ".join(v for v, _ in operands), ", ".join(t for _, t in operands)
        written = f" {{{attributes}}}" if attributes else ""
        self.line(f'{name} = "kernel.{mnemonic}"({listed}){written} : ({types}) -> {type}')
        return name, type

    def emit(self, name: str, op: str, operands: str, attributes: Mapping[str, object], type: str) -> None:
        self.line(f'{name} = "{op}"({operands}) {dictionary_text(attributes)} : {type}')

    def line(self, text: str) -> None:
        self.lines.append(f"{self.indent}{text}\n")

    def number(self) -> str:
        self.count += 1
        return f"%{self.count - 1}"

    def fresh(self, name: str) -> str:
        """A unique value name as close to `name` as MLIR allows."""
        plain = _UNSAFE.sub("_", name)
        plain = plain if plain[:1].isalpha() else f"v{plain}"
        unused, i = plain, 1
        while unused in self.taken:
            unused, i = f"{plain}_{i}", i + 1
        self.taken.add(unused)
        return f"%{unused}"


def _buffer_type(b: Buffer) -> str:
    static = TensorType(tuple(n if isinstance(n, int) else 0 for n in b.shape), b.dtype, b.layout)
    dims = "".join(f"{n if isinstance(n, int) else '?'}x" for n in b.shape)
    return f"tensor<{dims}{str(static).removeprefix('tensor<' + ''.join(f'{n}x' for n in static.shape))}"


def _list_text(extents: Sequence[Extent]) -> str:
    return f"[{', '.join(map(attribute_text, extents))}]"


def _indices(axes: Sequence[str]) -> str:
    return ", ".join(["index"] * len(axes))


def _affine_text(index: Affine, spelled: dict[str, str]) -> str:
    terms = [spelled[name] if factor == 1 else f"{spelled[name]} * {factor}" for name, factor in index.terms]
    if index.offset or not terms:
        terms.append(str(index.offset))
    return " + ".join(terms)


def _number(value: float | int | bool, dtype: DType) -> str:
    """A scalar attribute of `dtype`."""
    if dtype.is_float:
        return f"{float_text(float(value))} : f64"
    if dtype is DType.BOOL:
        return "true" if value else "false"
    return f"{int(value)} : {dtype.value}"
