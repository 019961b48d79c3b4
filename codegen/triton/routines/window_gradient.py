"""Gradients of maxima over windows: each element reads the windows that contain it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ....ir.dialects.core import SelectAndScatter
from ....ir.graph import Op
from ....ir.lazy_dataclass import dataclass
from ....ir.types import DType, TensorType
from .launches import Launches

_BLOCK = 256
_MOST_POINTS = (1 << 31) - 1  # that can be the maximum of a window: they are numbered in 32 bits
_SLIDING = 3  # axes along which the kernels' windows slide


@dataclass(frozen=True, slots=True)
class _Axis:
    """An axis in the order of memory: its extent in the operand and in the result of the maximum, and its window."""

    extent: int
    windows: int
    window: int
    stride: int
    low: int

    @property
    def slides(self) -> bool:
        return (self.window, self.stride, self.low) != (1, 1, 0) or self.extent != self.windows

    @property
    def near(self) -> int:
        """The most windows that contain one position."""
        return min(-(-self.window // self.stride), self.windows)


def emit_window_gradient(op: Op, launches: Launches) -> bool:
    """Add the launches of a SelectAndScatter; False if the kernels do not support its windows. If windows overlap, a
    launch before finds the first maximum of each."""
    assert isinstance(op, SelectAndScatter)
    x, cotangent, result = launches.types
    split = _split(_axes(op, x, cotangent))
    if split is None or prod(axis.extent for axis in split[1]) > _MOST_POINTS:
        return False
    if not x.size:
        return True
    inner, (a, b, c) = split
    sizes = {"A": a.extent, "B": b.extent, "C": c.extent, "Q": inner, "OA": a.windows, "OB": b.windows, "OC": c.windows}
    for name, axis in (("A", a), ("B", b), ("C", c)):
        sizes |= {f"WINDOW_{name}": axis.window, f"STRIDE_{name}": axis.stride, f"LOW_{name}": axis.low}
    stored = a.near * b.near * c.near > 1
    winners = launches.memory(0)
    if stored:
        winners = launches.reserve(cotangent.size, DType.I32)
        pointers = {"x_ptr": launches.memory(0), "winner_ptr": winners}
        counted, programs = {"count": cotangent.size, **sizes}, _programs(cotangent.size)
        launches.add("window_gradient", "window_winners", pointers, counted, {"BLOCK": _BLOCK}, programs)
    pointers = {"x_ptr": launches.memory(0), "winner_ptr": winners}
    pointers |= {"cotangent_ptr": launches.memory(1), "result_ptr": launches.memory(2)}
    sizes |= {"NEAR_A": a.near, "NEAR_B": b.near, "NEAR_C": c.near, "count": result.size}
    constants = {"STORED": int(stored), "BLOCK": _BLOCK}
    launches.add("window_gradient", "window_gradient", pointers, sizes, constants, _programs(result.size))
    return True


def _programs(count: int) -> int:
    return -(-count // _BLOCK)


def _axes(op: SelectAndScatter, x: TensorType, cotangent: TensorType) -> list[_Axis]:
    """The axes in the order of memory: channels are last in a tensor with a layout."""
    lows = [low for low, _ in op.padding]
    axes = [_Axis(*numbers) for numbers in zip(x.shape, cotangent.shape, op.window, op.strides, lows, strict=True)]
    if x.layout is None:
        return axes
    images, channels, *space = axes
    return [images, *space, channels]


def _split(axes: Sequence[_Axis]) -> tuple[int, tuple[_Axis, _Axis, _Axis]] | None:
    """The elements within a position of the windows, and the axes along which these slide. None if there are too
    many."""
    sliding = [k for k, axis in enumerate(axes) if axis.slides]
    first, end = (sliding[0], sliding[-1] + 1) if sliding else (0, 0)
    if end - first > _SLIDING:
        return None
    unit = _Axis(1, 1, 1, 1, 0)
    a, b, c = (*[unit] * (_SLIDING - end + first), *axes[first:end])
    return prod(axis.extent for axis in axes[end:]), (a, b, c)
