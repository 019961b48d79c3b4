"""The classes of schedules: frozen dataclasses of numbers. The other modules of this package derive them, and emitters
follow them.

The bounds of numbers are those of files of tuned schedules; `spaces.py` knows which schedules compute a kernel.
"""

from __future__ import annotations

from typing import Annotated

from ....ir.bounds import Within
from ....ir.lazy_dataclass import dataclass

Few = Annotated[int, Within(1, 64)]
"""Registers, or elements of one."""
Size = Annotated[int, Within(0, (1 << 31) - 1)]
Part = Annotated[int, Within(1, (1 << 31) - 1)]
"""A size that is not 0."""


@dataclass(frozen=True, slots=True)
class RegisterTile:
    """The accumulators of a micro-kernel: `rows` output points times `vectors` registers of output channels."""

    rows: Few
    vectors: Few


class Schedule:
    """The base class of schedules, which are frozen dataclasses of numbers and compare by value."""

    __slots__ = ()


class ContractionSchedule(Schedule):
    """The schedule of a contraction."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TileSchedule(ContractionSchedule):
    """A blocked loop nest around one micro-kernel: direct convolution and GEMM.

    `lanes`: channels in a register. `main` tiles cover the channels in panels; a `last` panel covers the remaining
    channels (None if there are none). `points`: output points in a block, whose inputs stay in the L2 cache. `panels`:
    panels of channels in one unit of parallel work. `steps`: reduction steps in a part of the reduction, whose weights
    stay in the cache for all points of a block (0: the reduction is not split). `reduction_outside`: the loop over
    parts is outside of the panels of a unit (GEMM) and not inside each panel. `prefetch`: cache lines of the next
    weights that each step prefetches. `ahead`: each product prefetches its weights so many bytes before they are used
    (0: only the hardware does). `pack`: the weights are packed in panels; else they are read in place, a row of
    channels for each step of the reduction. `pack_rows`: the left operand of a product is packed in blocks of rows.
    """

    lanes: Few
    main: RegisterTile
    last: RegisterTile | None
    points: Part
    panels: Size
    steps: Size = 0
    reduction_outside: bool = False
    prefetch: Size = 0
    ahead: Size = 0
    pack: bool = True
    pack_rows: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WinogradSchedule(ContractionSchedule):
    """Winograd with tiles of `output` outputs along each axis that has several taps, of which `tiles` are a block;
    `main` is the register tile of the products.

    `fused`: one launch over blocks of tiles does both transforms and products; else (few tiles) one launch transforms
    the input and a second one runs over panels of output channels. With symbolic tiles the code contains both variants.

    `expand`: weights are stored as taps, and the second launch transforms them, those of so many input channels at a
    time; 0: they are stored transformed.
    """

    output: Few
    lanes: Few
    main: RegisterTile
    last: RegisterTile | None
    tiles: Part
    fused: bool
    prefetch: Size = 0
    expand: Size = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthwiseSchedule(ContractionSchedule):
    """Depthwise convolution: the weights of one vector of channels stay in registers, and `columns` outputs are
    computed at a time. A unit of parallel work is `rows` rows of one image and vector of channels.
    """

    lanes: Few
    columns: Few
    rows: Part


@dataclass(frozen=True, slots=True, kw_only=True)
class WinogradGradientSchedule(ContractionSchedule):
    """The weight gradient of a 3x3 convolution by Winograd F(4x4, 3x3): data and cotangent are transformed, multiplied
    for each frequency over all tiles of the images, and the products transformed back. `main` and `last` are register
    tiles of input channels times registers of filters.

    `fused`: one launch divides the tiles of the images among `parts`, and transforms and multiplies `tiles` of them at
    a time; a second one adds the sums of the parts and transforms them, `channels` input channels at a time. Else one
    launch transforms all tiles, and a second one multiplies `channels` input channels by all filters.
    """

    lanes: Few
    main: RegisterTile
    last: RegisterTile | None
    tiles: Part
    channels: Part
    fused: bool
    parts: Part = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthwiseGradientSchedule(ContractionSchedule):
    """The weight gradient of a depthwise convolution: the sums of one vector of channels stay in registers for `rows`
    taps along the axes before the last and all taps along the last, and `columns` positions are read at a time. A unit
    of parallel work is one vector of channels.
    """

    lanes: Few
    columns: Few
    rows: Part


COLUMNS_OF_UNIT = 48
"""Columns of a unit of work of dot products in parts: a multiple of 1 to 4 channels, and of the lanes."""


ROWS_OF_STREAM = 2
"""Up to this many rows, the columns of a unit of narrow weights are packed as one stream of memory, which is read up to
a quarter faster. With more rows, which take as long to read, it is slower."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GemvSchedule(ContractionSchedule):
    """A product of `rows` rows with weights stored as [channel][reduction]: `channels` dot products at a time.

    The weights are read from memory once, and prefetched `ahead` bytes before (0: by the hardware alone). They are read
    in place, except narrow ones.
    `part`: the elements of the reduction that are read of many channels before the next elements (0: all).
    """

    lanes: Few
    rows: Part
    channels: Part
    part: Size = 0
    ahead: Size = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightGradientSchedule(ContractionSchedule):
    """A blocked loop nest around a micro-kernel whose rows are weights of a filter, and whose channels are filters.

    `merged` groups are computed as one, with products between different groups that are not stored. `steps`: positions
    that a step of the micro-kernel reads along the last axis, at most. `positions`: positions in a part of the
    reduction, of which a tile's operands stay in the L1 cache. `weights` and `panels`: weights of a filter, and panels
    of filters, in a unit of parallel work.
    """

    lanes: Few
    merged: Part
    main: RegisterTile
    last: RegisterTile | None
    steps: Size
    positions: Part
    weights: Part
    panels: Size


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopChoice(Schedule):
    """What is chosen for the loops of a kernel without contraction; a `LoopSchedule` follows from it and the nest.

    `vector`: the number of the vector axis among the axes of the nest (-1: none). `shared`: the first so many of the
    other parallel axes are divided among threads, and the last of them are loops inside a unit of work. `block`:
    elements of the vector axis in a unit (0: all). `unroll`: accumulators of each reduction. `interleave`: vectors of
    rows that are computed together. `grain`: units in the smallest piece of work of a thread.
    """

    vector: Annotated[int, Within(-1, 63)]
    shared: Annotated[int, Within(0, 64)]
    block: Size
    unroll: Few
    interleave: Few
    grain: Part


KINDS: tuple[type[Schedule], ...] = (
    TileSchedule,
    WinogradSchedule,
    DepthwiseSchedule,
    GemvSchedule,
    WeightGradientSchedule,
    WinogradGradientSchedule,
    DepthwiseGradientSchedule,
    LoopChoice,
)
"""All kinds of schedules, which tables of tuned schedules can contain."""
