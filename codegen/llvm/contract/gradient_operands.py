"""Where weight gradients read their operands and store their results.

An operand that is not in blocks of channels with a large enough halo is copied into the workspace. The result is stored
as rows of weights.
"""

from __future__ import annotations

from math import prod

from ....ir.kernel import Cast, Contract, Store, dtype_of
from ....ir.lazy_dataclass import dataclass
from ....ir.types import DType
from ...emission import LaunchSpec
from ..arithmetic import Value
from ..cpu import Cpu
from ..emitter import FunctionBuilder, ModuleBuilder
from ..schedule.describe import WeightGradientShape, WindowedOperand, extent_of
from ..schedule.kinds import RegisterTile
from ..schedule.strides import View, locate
from ..types import I8, Type
from .conv import InputPlace, input_place
from .copy_input import emit_copy
from .elementwise import SumsWalk, emit_elementwise
from .epilogue import Operand
from .tiles import argument, workspace_slot

_ALIGN = 64


def aligned(nbytes: int) -> int:
    """`nbytes` rounded up to whole cache lines."""
    return -(-nbytes // _ALIGN) * _ALIGN


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """An operand in memory: the argument slot, an offset in bytes, and the addresses of its elements from there."""

    slot: int
    start: int
    place: InputPlace

    def address(self, f: FunctionBuilder, scalar: Type) -> Value:
        """The address of the first element that a window reads."""
        return f.gep(f.gep(argument(f, self.slot), self.start, I8), self.place.base, scalar)


def place_operands(
    shape: WeightGradientShape,
    data: int,
    cotangent: int,
    target: Cpu,
    module: ModuleBuilder,
    symbol: str,
    room: tuple[tuple[int, ...] | None, tuple[int, ...] | None] = (None, None),
) -> tuple[Placed, Placed, list[LaunchSpec], int]:
    """The operands, copied into the workspace if they are not in blocks of the dtype of the sums with a sufficient
    halo. `data` and `cotangent` are the blocks of copies; 1 is row-major. `room` is the number of positions that are
    read along each axis (default: the windows' reach). Returns the operands, the launches of the copies, and the bytes
    in use."""
    places = (
        (shape.data, input_place(shape.data, data, room[0], blocked=data > 1), "data"),
        (shape.cotangent, input_place(shape.cotangent, cotangent, room[1], blocked=True), "cotangent"),
    )
    slot, used = workspace_slot(shape.kernel), 0
    placed: list[Placed] = []
    copies: list[LaunchSpec] = []
    for operand, place, name in places:
        if not place.copied:
            placed.append(Placed(slot=_slot(operand), start=0, place=place))
            continue
        copies.append(emit_copy(module, operand, place, slot, used, target, f"{symbol}.{name}"))
        placed.append(Placed(slot=slot, start=used, place=place))
        used += aligned(place.elements * shape.accumulator.itemsize)
    return placed[0], placed[1], copies, used


def _slot(operand: WindowedOperand) -> int:
    return operand.kernel.buffers.index(operand.kernel.buffer(operand.x.buffer))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Where rows of weights are stored: argument slot, first element, distance between filters, dtype."""

    slot: int
    base: int
    stride: int
    dtype: DType


def place_result(
    shape: WeightGradientShape, module: ModuleBuilder, symbol: str, used: int
) -> tuple[Rows, list[LaunchSpec], int]:
    """The rows of the result. If it has other strides or an epilogue, they are in the workspace, after `used` bytes,
    and a launch computes the result from them. Returns the rows, that launch, and the bytes in use."""
    rows = _result_rows(shape)
    if rows is not None:
        return rows, [], used
    kernel, weights = shape.kernel, shape.weights
    filters = shape.groups * shape.filters
    base = used // shape.accumulator.itemsize
    view = View(base=base, groups=(weights,), points=(1,), block=1, stride=1)
    slot = workspace_slot(kernel)
    group = ((shape.data.group, shape.groups),) if shape.data.group else ()
    walk = SumsWalk(
        out=Operand(view=view, dtype=shape.accumulator, slot=slot),
        groups=filters,
        points=((shape.data.channel, shape.channels), *((w.tap, w.taps) for w in shape.windows)),
        channels=(*group, (shape.cotangent.channel, shape.filters)),
    )
    finish = emit_elementwise(module, kernel, shape.store, walk, symbol)
    used += aligned(filters * weights * shape.accumulator.itemsize)
    return Rows(slot=slot, base=base, stride=weights, dtype=shape.accumulator), [finish], used


def _result_rows(shape: WeightGradientShape) -> Rows | None:
    """The rows of the result if the sums are stored as they are, in contiguous rows of weights."""
    kernel = shape.kernel
    out = kernel.buffer(shape.store.buffer)
    at = locate(out, shape.store.index)
    if not _is_plain(shape.store) or dtype_of(kernel, shape.store.value) is not out.dtype or at is None or at.block:
        return None
    axes = (shape.data.channel, *(w.tap for w in shape.windows))
    sizes = [extent_of(kernel, a) for a in axes]
    expected = [prod(sizes[k + 1 :]) for k in range(len(sizes))]
    if any(at.strides.get(a, 0) != s for a, n, s in zip(axes, sizes, expected, strict=True) if n != 1):
        return None
    stride = at.strides.get(shape.cotangent.channel, 0)
    group = at.strides.get(shape.data.group, 0) if shape.data.group else 0
    if shape.filters == 1:
        stride = group
    elif group not in (0, stride * shape.filters):
        return None
    return Rows(slot=kernel.buffers.index(out), base=at.base, stride=stride, dtype=out.dtype)


def _is_plain(store: Store) -> bool:
    value = store.value.operand if isinstance(store.value, Cast) else store.value
    return isinstance(value, Contract)


@dataclass(frozen=True, slots=True)
class Panels:
    """The panels from `begin` to `end`, which have one register tile; the first one starts at filter `start`."""

    tile: RegisterTile
    begin: int
    end: int
    start: int


def gradient_panels(
    filters: int, block: int, lanes: int, main: RegisterTile, last: RegisterTile | None
) -> list[Panels]:
    """The panels that cover `filters`, which are stored in blocks."""
    vectors = -(-filters // block) * block // lanes
    count = (vectors - (last.vectors if last else 0)) // main.vectors
    panels = [Panels(main, 0, count, 0)] if count else []
    return [*panels, Panels(last, count, count + 1, count * main.vectors * lanes)] if last else panels
