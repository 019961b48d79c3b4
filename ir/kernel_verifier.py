"""Verifies kernels: names resolve, axes are in scope, indices fit their buffers and stay inside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from .graph import GraphError
from .kernel import (
    Affine,
    Axis,
    AxisKind,
    AxisValue,
    Contract,
    ContractionKind,
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
    affine,
    children,
)

Scope = frozenset[str]


def verify_kernel(kernel: Kernel) -> None:
    """GraphError, which names the kernel and the stage, unless `kernel` is well formed.

    The value of a Store can use the axes of its index and all parallel axes, the value of a Local its own axes. Inside
    Reduce and Contract it can also use the axes that these bind, each bound once. A Ref follows its Local, and the
    Local's axes must be in scope. An index with constant extents stays inside its buffer unless the Load has `other`.
    The roles of a contraction's axes are disjoint and agree with the axes that its operands read.
    """
    _Verifier(kernel).run()


class _Verifier:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.axes = {a.name: a for a in kernel.axes}
        self.buffers = {b.name: b for b in kernel.buffers}
        self.locals: dict[str, Local] = {}
        self.used: set[str] = set()
        self.done: set[tuple[int, Scope]] = set()
        self.where = "its declarations"

    def fail(self, message: str) -> NoReturn:
        raise GraphError(f"kernel {self.kernel.name!r}, in {self.where}: {message}")

    def run(self) -> None:
        self.declarations()
        for i, stage in enumerate(self.kernel.stages):
            self.where = f"stage {i} ({_describe(stage)})"
            self.done.clear()
            self.stage(stage)
        self.where = "its axes"
        for name in self.axes:
            if name not in self.used:
                self.fail(f"axis {name!r} is not used")

    # --- declarations -----------------------------------------------------------------------------------------------

    def declarations(self) -> None:
        kernel = self.kernel
        for what, names in (
            ("axis", [a.name for a in kernel.axes]),
            ("buffer", [b.name for b in kernel.buffers]),
            ("extent", list(kernel.extents)),
        ):
            if len(set(names)) != len(names):
                self.fail(f"duplicate {what} name: {names}")
        for axis in kernel.axes:
            self.extent(axis.extent, f"axis {axis.name!r}")
        for b in kernel.buffers:
            for extent in (*b.shape, *(b.strides or ())):
                self.extent(extent, f"buffer {b.name!r}")
            physical = len(b.shape) + (b.layout is not None)
            if b.strides is not None and len(b.strides) != physical:
                self.fail(f"buffer {b.name!r} has {len(b.strides)} strides for {physical} dimensions")
            if b.layout is not None and len(b.layout.halo) != len(b.shape) - 2:
                self.fail(f"the layout of buffer {b.name!r} does not fit its rank {len(b.shape)}")

    def extent(self, extent: Extent, what: str) -> None:
        if isinstance(extent, str) and extent not in self.kernel.extents:
            self.fail(f"{what} has the extent {extent!r}, which the kernel does not declare")
        if isinstance(extent, int) and extent < 0:
            self.fail(f"{what} has the negative extent {extent}")

    # --- stages -----------------------------------------------------------------------------------------------------

    def stage(self, stage: Stage) -> None:
        if isinstance(stage, Local):
            if stage.name in self.locals:
                self.fail(f"local {stage.name!r} is defined twice")
            self.bind(stage.axes)
            self.expr(stage.value, frozenset(stage.axes))
            self.locals[stage.name] = stage
            return
        indexed = {name for i in stage.index if isinstance(i, Affine) for name, _ in i.terms}
        self.bind(indexed)
        scope = frozenset(indexed | {a.name for a in self.kernel.axes if a.kind is AxisKind.PARALLEL})
        buffer = self.buffers.get(stage.buffer)
        if buffer is not None and not buffer.written:
            self.fail(f"buffer {stage.buffer!r} is not declared as written")
        self.index(stage.buffer, stage.index, scope, inside=True)
        self.expr(stage.value, scope)

    def bind(self, axes: Sequence[str] | set[str]) -> None:
        for name in axes:
            if name not in self.axes:
                self.fail(f"axis {name!r} is not declared")
            self.used.add(name)

    # --- expressions ------------------------------------------------------------------------------------------------

    def expr(self, expr: Expr, scope: Scope) -> None:
        key = (id(expr), scope)
        if key in self.done:
            return
        self.done.add(key)
        match expr:
            case AxisValue(axis):
                self.in_scope(axis, scope)
            case Ref(local):
                self.reference(local, scope)
            case ScalarParameter(name):
                self.extent(name, "a scalar parameter")
            case Load(buffer, index, other):
                self.index(buffer, index, scope, inside=other is None)
                return
            case Scalar(op, operands) if len(operands) != op.arity:
                self.fail(f"{op.value} takes {op.arity} operands, got {len(operands)}")
            case Reduce(axes=axes):
                scope = self.reduction(axes, scope)
            case Contract():
                self.contract(expr, scope)
                return
            case _:
                pass
        for child in children(expr):
            self.expr(child, scope)

    def in_scope(self, axis: str, scope: Scope) -> None:
        if axis not in self.axes:
            self.fail(f"axis {axis!r} is not declared")
        if axis not in scope:
            self.fail(f"axis {axis!r} is used outside its scope")
        self.used.add(axis)

    def reference(self, name: str, scope: Scope) -> None:
        local = self.locals.get(name)
        if local is None:
            self.fail(f"local {name!r} is read before it is defined")
        missing = [a for a in local.axes if a not in scope]
        if missing:
            self.fail(f"local {name!r} is read where its axes {missing} are not bound")

    def reduction(self, axes: tuple[str, ...], scope: Scope) -> Scope:
        self.bind(axes)
        for name in axes:
            if self.axes[name].kind is not AxisKind.REDUCE:
                self.fail(f"the parallel axis {name!r} is reduced")
            if name in scope or axes.count(name) > 1:
                self.fail(f"the axis {name!r} is bound twice")
        return scope | frozenset(axes)

    # --- contractions -----------------------------------------------------------------------------------------------

    def contract(self, node: Contract, scope: Scope) -> None:
        """Each operand can use only the axes of its roles; the left one also the names that windows bind."""
        roles = (*node.batch, *node.rows, *node.columns)
        for name in roles:
            self.in_scope(name, scope)
        if len(set(roles)) != len(roles):
            self.fail(f"an axis has two roles in a contraction: {roles}")
        inner = self.reduction(node.inner, scope) - scope
        positions = frozenset(w.name for w in node.windows)
        for window in node.windows:
            self.window(window, node)
        if node.windows:
            self.input(node)
        outs = {w.out for w in node.windows} | {w.tap for w in node.windows}
        left = frozenset((*node.batch, *node.rows)) | inner
        self.expr(node.lhs, left - outs | positions)
        self.expr(node.rhs, frozenset((*node.batch, *node.columns)) | inner)
        for window in node.windows:
            del self.axes[window.name]

    def window(self, window: Window, node: Contract) -> None:
        """Bind the window's name as an axis with the input's extent."""
        if window.name in self.axes:
            self.fail(f"the window {window.name!r} has the name of an axis")
        row, inner = window.out, window.tap
        if node.kind is ContractionKind.WEIGHT_GRADIENT:
            row, inner = inner, row
        if row not in node.rows or inner not in node.inner:
            self.fail(f"the window {window.name!r} needs a row and a reduced axis, got {window.out!r}, {window.tap!r}")
        if min(window.stride, window.dilation, window.interior) < 1:
            self.fail(f"the window {window.name!r} has a step below 1")
        self.extent(window.extent, f"the window {window.name!r}")
        self.axes[window.name] = Axis(window.name, window.extent)

    def input(self, node: Contract) -> None:
        """The left operand of a convolution is an element of a buffer, with one dimension indexed by each window."""
        if not isinstance(node.lhs, Load) or node.lhs.other is not None:
            self.fail("the input of a convolution must be a Load without `other`")
        for window in node.windows:
            if node.lhs.index.count(affine((window.name, 1))) != 1:
                self.fail(f"the window {window.name!r} does not index one dimension of the input")

    # --- indices ----------------------------------------------------------------------------------------------------

    def index(self, name: str, index: Index, scope: Scope, *, inside: bool) -> None:
        buffer = self.buffers.get(name)
        if buffer is None:
            self.fail(f"buffer {name!r} is not declared")
        if len(index) != len(buffer.shape):
            self.fail(f"buffer {name!r} of rank {len(buffer.shape)} is indexed with {len(index)} dimensions")
        for dimension, (i, extent) in enumerate(zip(index, buffer.shape, strict=True)):
            if not isinstance(i, Affine):
                self.expr(i, scope)
                continue
            for axis, _ in i.terms:
                self.in_scope(axis, scope)
            bounds = self.bounds(i)
            if inside and bounds and isinstance(extent, int) and not 0 <= bounds[0] <= bounds[1] < extent:
                what = f"dimension {dimension} of buffer {name!r}"
                self.fail(f"{what}: the index runs from {bounds[0]} to {bounds[1]}, the extent is {extent}")

    def bounds(self, index: Affine) -> tuple[int, int] | None:
        """Lowest and highest index for constant extents; None otherwise, and for an empty range."""
        low = high = index.offset
        for name, factor in index.terms:
            extent = self.axes[name].extent
            if isinstance(extent, str) or extent == 0:
                return None
            reach = factor * (extent - 1)
            low, high = low + min(reach, 0), high + max(reach, 0)
        return (low, high) if all(a.extent != 0 for a in self.kernel.axes) else None


def _describe(stage: Stage) -> str:
    return f"local {stage.name!r}" if isinstance(stage, Local) else f"store to {stage.buffer!r}"
