"""Takes the shapes out of a kernel, so that one piece of code serves all that walk memory the same way.

The axes are those of the merged loop nest; extents and strides other than 0 and 1 become run-time parameters. What is
left is equal for every shape of an elementwise operation on contiguous operands, and for each pattern of broadcasting.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ....ir.kernel import (
    Axis,
    AxisValue,
    Buffer,
    Cast,
    Contract,
    Expr,
    Extent,
    Index,
    Kernel,
    Load,
    Local,
    Reduce,
    Scalar,
    Stage,
    Store,
    affine,
    walk,
)
from .nest import Nest, build_nest


@dataclass(frozen=True)
class GeneralKernel:
    """A kernel with run-time extents. `operands` are the positions of its buffers among the original ones, `extents`
    the
    numbers of the original in the order of `kernel.extents`."""

    kernel: Kernel
    operands: tuple[int, ...]
    extents: tuple[int, ...]


def generalize(kernel: Kernel) -> GeneralKernel | None:
    """The shape-free form of a kernel; None where shapes are part of the code: reductions, masks, blocks, indices as
    values, operands that begin inside a buffer."""
    if any(isinstance(e, Contract | Reduce) for stage in kernel.stages for e in walk(stage.value)):
        return None
    nest = build_nest(kernel)
    plain = not nest.reduced and not nest.guard and not any(b.layout for b in kernel.buffers)
    if not plain or not nest.axes or any(a.bounds or a.gathers or a.offset for a in nest.accesses.values()):
        return None
    try:
        return _Generalizer(kernel, nest).run()
    except _ShapedError:
        return None


class _ShapedError(Exception):
    """Part of the kernel depends on its shape."""


class _Generalizer:
    def __init__(self, kernel: Kernel, nest: Nest) -> None:
        self.kernel, self.nest = kernel, nest
        self.axes = {a.name: f"a{i}" for i, a in enumerate(nest.axes)}
        self.values: dict[str, int] = {}
        self.buffers: list[Buffer] = []
        self.operands: list[int] = []
        self.views: dict[tuple[str, Index], tuple[str, Index]] = {}

    def run(self) -> GeneralKernel:
        axes = tuple(Axis(self.axes[a.name], self._named(f"n{i}", a.extent)) for i, a in enumerate(self.nest.axes))
        for key in self.nest.accesses:
            self._view(key, {a.name: a.extent for a in axes})
        stages = tuple(self._stage(s) for s in self.nest.stages)
        kernel = Kernel("general", tuple(self.buffers), tuple(self.values), axes, stages)
        return GeneralKernel(kernel, tuple(self.operands), tuple(self.values.values()))

    def _named(self, name: str, value: Extent) -> str:
        assert isinstance(value, int)
        self.values[name] = value
        return name

    def _view(self, key: tuple[str, Index], extents: dict[str, Extent]) -> None:
        """A buffer of its own for each way in which a buffer is walked."""
        name, access = f"v{len(self.views)}", self.nest.accesses[key]
        position = next(i for i, b in enumerate(self.kernel.buffers) if b.name == key[0])
        walked = [(self.axes[a.name], access.stride(a.name)) for a in self.nest.axes if access.stride(a.name)]
        strides = tuple(s if s == 1 else self._named(f"s{name}{axis}", s) for axis, s in walked)
        shape = tuple(extents[axis] for axis, _ in walked)
        self.buffers.append(replace(self.kernel.buffers[position], name=name, shape=shape, strides=strides))
        self.operands.append(position)
        self.views[key] = name, tuple(affine((axis, 1)) for axis, _ in walked)

    def _stage(self, stage: Stage) -> Stage:
        value = self._expr(stage.value)
        if isinstance(stage, Local):
            return Local(stage.name, tuple(self.axes.values()), value)
        return Store(*self.views[stage.buffer, stage.index], value)

    def _expr(self, expr: Expr) -> Expr:
        match expr:
            case Load(buffer=buffer, index=index):
                return Load(*self.views[buffer, index])
            case Scalar(op=op, operands=operands):
                return Scalar(op, tuple(self._expr(e) for e in operands))
            case Cast(dtype=dtype, operand=operand):
                return Cast(dtype, self._expr(operand))
            case AxisValue():
                raise _ShapedError
            case _:
                return expr
