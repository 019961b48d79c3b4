"""Skips taps of a convolution that read only padding.

On a small image, all points of a line (a row of pixels) read padding with the same taps. Each register tile runs only
the taps that meet data in one of its lines.
"""

from __future__ import annotations

from math import prod

from ....ir.lazy_dataclass import dataclass
from ....ir.symbolic import is_symbolic
from ..arithmetic import Value
from ..emitter import FunctionBuilder
from ..schedule.describe import ConvShape
from ..schedule.strides import fixed_shape

_WORTHWHILE = 0.95
"""The largest part of the taps that meet data with which skipping the others pays for finding them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineTaps:
    """The taps along a window's first axis. A line is `width` points that differ along the other axes, and all read
    padding with the same of these taps; an image has `lines` of them. The other numbers are those of the window, and
    `extent` is the input's.
    """

    width: int
    lines: int
    taps: int
    stride: int
    dilation: int
    low: int
    extent: int

    def range_of(self, first: int, last: int) -> tuple[int, int]:
        """The taps, first and end, that meet data in some line from `first` to `last` of an image."""
        low = max(0, -(-(self.low - last * self.stride) // self.dilation))
        end = min(self.taps, max(0, (self.extent - 1 + self.low - first * self.stride) // self.dilation + 1))
        return (low, end) if low < end else (0, self.taps)

    @property
    def part(self) -> float:
        """The part of all taps that meet data."""
        met = sum(end - low for low, end in (self.range_of(line, line) for line in range(self.lines)))
        return met / (self.lines * self.taps)

    def emit_range(self, f: FunctionBuilder, first: Value, last: Value) -> tuple[Value, Value]:
        """As `range_of`, for the points from `first` to `last` of all images; all taps for points of two images."""
        begin, end = f.udiv(first, self.width), f.udiv(last, self.width)
        after = f.urem(end, self.lines) * self.stride
        before = f.urem(begin, self.lines) * self.stride
        low = f.udiv(f.smax(f.sub(self.low, after), 0) + (self.dilation - 1), self.dilation)
        high = f.udiv(f.smax(f.sub(self.extent - 1 + self.low + self.dilation, before), 0), self.dilation)
        high = f.smin(high, self.taps)
        same = f.cmp("eq", f.udiv(begin, self.lines), f.udiv(end, self.lines))
        some = f.and_(same, f.cmp("lt", low, high))
        return f.select(some, low, 0), f.select(some, high, self.taps)


def line_taps(shape: ConvShape) -> LineTaps | None:
    """The taps along the first axis of a convolution's windows; None if skipping some of them is not worthwhile, or not
    possible."""
    first, *others = shape.windows
    if not others or first.interior != 1 or first.taps == 1:
        return None
    extent = fixed_shape(shape.kernel.buffer(shape.x.buffer))[first.dimension]
    width = prod(w.extent for w in others)
    if any(map(is_symbolic, (extent, width, first.extent, shape.images))):
        return None
    taps = LineTaps(
        width=width,
        lines=first.extent,
        taps=first.taps,
        stride=first.stride,
        dilation=first.dilation,
        low=first.low,
        extent=extent,
    )
    return taps if taps.part <= _WORTHWHILE else None
