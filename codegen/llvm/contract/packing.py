"""Packs weights in panels, each of which has the weights of a block of output channels in the order in which the
micro-kernel loads them.

A product can have several parts, such as the gates of a recurrent cell. A panel then has, for each vector of channels,
that vector of every part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from ....ir.lazy_dataclass import dataclass
from ....ir.symbolic import is_symbolic
from ...emission import LaunchSpec
from ..arithmetic import Value
from ..cpu import Cpu
from ..emitter import FunctionBuilder, ModuleBuilder
from ..schedule.segments import NO_WEIGHT, Box, Offsets, count_of
from ..types import I1, I32, I64, Type, memory_type_of, type_of
from .points import offset_table
from .problem import Problem, WeightSource
from .tiles import KERNEL_PARAMETERS, PanelKind, argument
from .transpose import pack_rows_of_weights


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedPanels:
    """Packed[group][panel][element of the reduction][channel of the panel], with zeros for channels and elements that
    are padding. `repeats` is set if weights are packed in each step of a training, and not once.

    `sources` are the offsets of the elements from a filter's first weight (NO_WEIGHT: zero); `owners` are the groups of
    the elements if groups were merged.
    """

    element: str
    lanes: int
    groups: tuple[int, ...]
    channels: int
    panels: tuple[PanelKind, ...]
    group_size: int
    sources: Offsets
    owners: tuple[int, ...]
    weights: WeightSource
    repeats: bool = False

    @property
    def nbytes(self) -> int:
        return prod(self.groups) * self.group_size * Type.of(self.element).bytes

    def repeated(self) -> PackedPanels:
        """See `LlvmPacking`."""
        return replace(self, repeats=True)

    def emit(self, module: ModuleBuilder, target: Cpu, symbol: str) -> LaunchSpec:
        f = module.function(symbol, None, KERNEL_PARAMETERS, shares=True)
        _Packer(f, self).emit()
        f.ret()
        return LaunchSpec(symbol, prod(self.groups) * self.panels[-1].end, 1)


def packed_panels(problem: Problem, lanes: int, kinds: Sequence[PanelKind], group_size: int) -> PackedPanels:
    """The packed form of the weights for the loop nest of `problem`."""
    sources = _joined([s.sources for s in problem.segments])
    owners = tuple(x for s in problem.segments for x in s.owners) if problem.weights.merged > 1 else ()
    shared = not any(problem.weights.groups)
    groups = (1,) if shared else problem.groups
    return PackedPanels(
        element=problem.weight_element,
        lanes=lanes,
        groups=groups,
        channels=problem.channels,
        panels=tuple(kinds),
        group_size=group_size,
        sources=sources,
        owners=owners,
        weights=problem.weights,
    )


def _joined(sources: Sequence[Offsets]) -> Offsets:
    if len(sources) == 1:
        return sources[0]
    return tuple(x for s in sources for x in (s.numbers() if isinstance(s, Box) else s))


_MUCH, _MUCH_REPEATED = 6 << 20, 16 << 10
"""Bytes of packed weights from which a function that transposes them saves more time than its compilation takes: in a
third of the time that reads of single elements take."""


def _are_neighbours(sources: Offsets) -> bool:
    """True if the weights of a filter are read in the order of memory, without gaps."""
    if not isinstance(sources, Box):
        return sources == tuple(range(sources[0], sources[0] + len(sources)))
    dense = [prod(sources.extents[k + 1 :]) for k in range(len(sources.extents))]
    axes = zip(sources.extents, sources.strides, dense, strict=True)
    return not sources.is_symbolic and all(n == 1 or stride == step for n, stride, step in axes)


class _Packer:
    def __init__(self, f: FunctionBuilder, packing: PackedPanels) -> None:
        self.f, self.p = f, packing
        self.stored = memory_type_of(packing.weights.dtype)
        self.vector = Type.of(packing.element, packing.lanes)
        self.source, self.packed = argument(f, 0), argument(f, 1)
        self.count = count_of(packing.sources)
        self.has_gaps = isinstance(packing.sources, tuple) and NO_WEIGHT in packing.sources
        self.transposes = self._can_transpose() and packing.nbytes >= (_MUCH_REPEATED if packing.repeats else _MUCH)

    def _can_transpose(self) -> bool:
        """True if the weights of a filter are a row of elements of 4 bytes that are not rounded."""
        p, w = self.p, self.p.weights
        rows = w.merged == 1 and w.filter != 1 and not is_symbolic(w.filter) and _are_neighbours(p.sources)
        kept = w.rounded is w.dtype and self.stored.element == p.element and self.stored.bytes == 4
        return rows and kept and p.lanes % 4 == 0

    def emit(self) -> None:
        f, panels = self.f, self.p.panels[-1].end
        self.table = offset_table(f, self.p.sources)
        with f.loop(f.args[1], f.args[2]) as unit:
            panel, group = f.urem(unit, panels), f.udiv(unit, panels)
            start = self._group_start(group)
            target = f.gep(self.packed, group * self.p.group_size, self.vector.scalar)
            for kind in self.p.panels:
                with f.when(f.cmp("ge", panel, kind.begin) & f.cmp("lt", panel, kind.end)):
                    self._panel(kind, panel, start, target)

    def _group_start(self, group: Value) -> Value:
        f, weights = self.f, self.p.weights
        address = f.gep(self.source, weights.base, self.stored)
        if not any(weights.groups):
            return address
        for k in reversed(range(len(self.p.groups))):
            at = f.urem(group, self.p.groups[k]) if k else group
            address = f.gep(address, at * weights.groups[k], self.stored)
            group = f.udiv(group, self.p.groups[k]) if k else group
        return address

    def _panel(self, kind: PanelKind, panel: Value, start: Value, target: Value) -> None:
        f, lanes = self.f, self.p.lanes
        width, parts = kind.tile.vectors * lanes, self.p.weights.parts
        before = kind.begin * self.p.panels[0].tile.vectors * lanes // len(parts)
        first = (panel - kind.begin) * (width // len(parts)) + before
        out = f.gep(target, (panel - kind.begin) * (width * self.count) + kind.offset, self.vector.scalar)
        with f.loop(0, kind.tile.vectors // len(parts)) as v:
            for k, offset in enumerate(parts):
                place = f.gep(out, (v * len(parts) + k) * lanes, self.vector.scalar)
                self._vector(first + v * lanes, f.gep(start, offset, self.stored), place, width)

    def _vector(self, channel: Value, start: Value, out: Value, width: int) -> None:
        """All elements of the reduction for one vector of channels. Rows of weights are transposed."""
        f, lanes = self.f, self.p.lanes

        def element_by_element() -> tuple[()]:
            return self._elements(channel, start, out, width)

        def transposed() -> tuple[()]:
            stride, dtype = self.p.weights.filter, self.p.weights.dtype
            offset = f.convert(f.load(self.table, I32), "i64")
            rows = f.gep(f.gep(start, offset, self.stored), channel * stride, self.stored)
            pack = pack_rows_of_weights(f.module, lanes, dtype)
            f.call_void(pack, rows, f.const(I64, stride), out, f.const(I64, width), f.const(I64, self.count))
            return ()

        if self.transposes:
            f.branch(f.cmp("le", channel + lanes, self.p.channels), transposed, element_by_element)
        else:
            element_by_element()

    def _elements(self, channel: Value, start: Value, out: Value, width: int) -> tuple[()]:
        f = self.f
        wide = I64.with_lanes(self.p.lanes)
        channels = f.add(f.splat(channel, wide), f.iota(wide))
        exists = f.cmp("lt", channels, self.p.channels)
        places, owner = self._places(channels)
        with f.loop(0, self.count) as e:
            offset = f.convert(f.load(f.gep(self.table, e, I32), I32), "i64")
            mask = exists if owner is None else exists & self._owned(owner, e)
            mask = (
                mask & f.splat(f.cmp("ne", offset, NO_WEIGHT), I1.with_lanes(self.p.lanes)) if self.has_gaps else mask
            )
            value = self._read(f.gep(start, offset, self.stored), channel, places, mask)
            rounded = f.convert(value, type_of(self.p.weights.rounded).element)
            wide = f.convert(rounded, self.vector.element, signed=self.p.weights.dtype.is_signed)
            f.store(wide, f.gep(out, e * width, self.vector.scalar))
        return ()

    def _places(self, channels: Value) -> tuple[Value, Value | None]:
        """The offset of each channel's first weight, and the channel's group if groups were merged."""
        f, w = self.f, self.p.weights
        if w.merged == 1:
            return channels * w.filter, None
        member = f.udiv(channels, w.filters)
        return member * w.member + f.urem(channels, w.filters) * w.filter, member

    def _owned(self, owner: Value, e: Value) -> Value:
        f = self.f
        own = f.convert(f.load(f.gep(f.table(I32, self.p.owners), e, I32), I32), "i64")
        return f.cmp("eq", owner, f.splat(own, owner.type))

    def _read(self, address: Value, channel: Value, places: Value, mask: Value) -> Value:
        f, w = self.f, self.p.weights
        type = self.stored.with_lanes(self.p.lanes)
        if w.filter == 1 and w.merged == 1:
            return f.masked_load(f.gep(address, channel, self.stored), type, mask)
        return f.gather(address, places, self.stored, mask)
