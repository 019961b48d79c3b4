"""The report of `mxforge inspect`."""

from __future__ import annotations

from typing import Literal

from ...ir.lazy_dataclass import dataclass
from .common import Argument, Gpu, Machine
from .record import Count, Record, Seconds


@dataclass(frozen=True, kw_only=True)
class Parameters(Record):
    """The parameters that have values."""

    arrays: Count
    elements: Count
    bytes: Count


@dataclass(frozen=True, kw_only=True)
class Layer(Record):
    """A layer of the symbol. Without the shapes of all inputs only its name and its operator are known."""

    name: str
    operator: str
    output: tuple[Count, ...] | None = None
    """The shape of the first output."""
    parameters: Count | None = None
    """The elements of parameters that no earlier layer has."""
    multiply_adds: Count | None = None
    """Those of convolutions and products."""
    bytes: Count | None = None
    """The size of all outputs."""
    launches: tuple[Count, ...] | None = None
    """The positions of the launches that compute the layer."""


@dataclass(frozen=True, kw_only=True)
class Memory(Record):
    """The memory of the program in bytes."""

    arena: Count
    """Temporary values."""
    prepared: Count
    """What depends on parameters alone: packed weights."""
    constants: Count
    parameters: Count
    inputs: Count
    """The other inputs."""
    outputs: Count
    peak: Count
    """The sum."""


@dataclass(frozen=True, kw_only=True)
class Launch(Record):
    """A call of a compiled kernel."""

    label: str
    """The layers that it computes."""
    kind: str
    kernel: str
    """The symbol of the kernel."""
    count: Count
    """Units of parallel work."""
    grain: Count
    """The fewest units that a thread takes."""
    fallback: str
    """Why a convolution or a product runs as plain loops; empty for other launches."""
    seconds: Seconds | None = None
    """The time on random numbers, with --profile."""


@dataclass(frozen=True, kw_only=True)
class Ranges(Record):
    """The shapes of an input or an output: least and most are equal for a fixed extent."""

    name: str
    least: tuple[Count, ...]
    best: tuple[Count, ...] | None
    """The extents for which a program is specialised; null if no range names one."""
    most: tuple[Count, ...]


@dataclass(frozen=True, kw_only=True)
class Variant(Record):
    """Shapes that a compiled folder takes."""

    name: str
    """Empty for the only variant."""
    inputs: tuple[Ranges, ...]
    outputs: tuple[Ranges, ...]
    equal: tuple[tuple[str, ...], ...]
    """Axes of inputs that must have the same extent, as `data[0]`."""


@dataclass(frozen=True, kw_only=True)
class InspectReport(Record):
    """The report of `mxforge inspect --json`. Times are in seconds.

    Without the shapes of all inputs nothing is compiled: `memory`, `target` and `compile_seconds` are null. A compiled
    folder has no operators, parameters and layers.
    """

    schema: Literal["inspect/3"] = "inspect/3"
    model: str
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    operators: dict[str, Count]
    """How often each operator occurs, the most frequent first."""
    parameters: Parameters | None = None
    layers: tuple[Layer, ...] = ()
    memory: Memory | None = None
    code_bytes: Count = 0
    compile_seconds: Seconds | None = None
    target: Machine | Gpu | None = None
    launches: tuple[Launch, ...] = ()
    """What every run launches, in order."""
    prepare: tuple[Launch, ...] = ()
    """What is launched once for values of the parameters."""
    variants: tuple[Variant, ...] = ()
    """The shapes of a folder that was compiled for several; the rest of the report is for the shapes of `inputs`."""
    shapes: Count = 1
    """How many shapes of the inputs the folder takes."""
    profiled_seconds: Seconds | None = None
    """The sum of the times of launches, with --profile."""
