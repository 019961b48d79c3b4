"""Schedules of contractions: HOW a kernel runs. The modules beside this one derive them for the emitters."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RegisterTile:
    """Accumulators of a micro-kernel: `rows` output points times `vectors` registers of output channels."""

    rows: int
    vectors: int


class ContractionSchedule:
    """The base of schedules: frozen dataclasses, which are compared by value."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TileSchedule(ContractionSchedule):
    """A blocked loop nest around one micro-kernel: direct convolution and GEMM.

    `lanes`: channels in a register. `main` tiles cover the channels in panels; `last` covers what is left (None when
    nothing is). `points`: output points in a block, whose inputs stay in the L2 cache. `panels`: panels of channels
    in one unit of parallel work. `steps`: reduction steps whose weights stay in the cache while all points of a block
    pass (0: the whole reduction at once); `reduction_outside` puts that split around the panels of a unit (GEMM) and
    not inside each panel. `prefetch`: cache lines of the next weights fetched in each step. `pack`: the weights are
    stored in panels; without it they are read in place, a row of channels for each step of the reduction.
    """

    lanes: int
    main: RegisterTile
    last: RegisterTile | None
    points: int
    panels: int
    steps: int = 0
    reduction_outside: bool = False
    prefetch: int = 0
    pack: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class WinogradSchedule(ContractionSchedule):
    """Winograd F(output x output, 3x3): `tiles` of the image in a block, `main` the register tile of the products.

    `fused`: a launch over blocks of tiles does transforms and products alike; else (few tiles) one launch transforms
    the input and a second runs over panels of output channels. With symbolic tiles the code has both ways.
    """

    output: int
    lanes: int
    main: RegisterTile
    last: RegisterTile | None
    tiles: int
    fused: bool
    prefetch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthwiseSchedule(ContractionSchedule):
    """Each channel alone: the weights of one vector of channels stay in registers while `columns` outputs are computed
    at a time.

    A unit of parallel work is `rows` rows of one image and vector of channels.
    """

    lanes: int
    columns: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GemvSchedule(ContractionSchedule):
    """Few rows times weights stored as [channel][reduction]: `channels` of them at once, each a dot product along the
    reduction.

    The weights stream from memory once, in place; `rows` is the number of left rows.
    """

    lanes: int
    rows: int
    channels: int
