"""The interface of a device: its memory, and programs that run on it.

    Device          allocates buffers, copies between them and the host, loads programs
    Storage         a buffer of a device (runtime/storage.py)
    DeviceAddress   an address in a device's memory; on the host an address is an int

A device has the target that its programs are compiled for. The host is one implementation (runtime/host/device.py);
runtime/devices.py lists it and the others.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import total_ordering
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ..ir.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import numpy.typing as npt

    from ..codegen.target import Target
    from ..ir.graph import RandomKey
    from ..ir.program import Program
    from ..ir.types import TensorType
    from .launch_list import LaunchList
    from .loaded_program import LoadedProgram
    from .prepared import PreparedPool
    from .storage import Storage
    from .streams import Stream

Address = Any
"""An int in the host's memory, a `DeviceAddress` in the memory of any other device."""

DirectCall = Callable[..., None]
"""A run of a program as a function of addresses: of its inputs and then of its outputs. It raises DeviceError, and runs
nothing, for operands that it cannot use and while launches are observed; callers then use `run`."""


class BoundCall(NamedTuple):
    """Runs of a program of which some inputs, its parameters among them, have fixed addresses.

    `run` is a function of the addresses of the other inputs and of the outputs. `prepare(version)` must be called
    before the first run and after each change of the parameters. It can raise DeviceError too. It is None for a program
    that prepares nothing.
    """

    run: DirectCall
    prepare: Callable[[Hashable], None] | None


class DeviceError(RuntimeError):
    """An operand is not in the memory of the device that runs the program."""


@total_ordering
@dataclass(frozen=True, slots=True)
class DeviceAddress:
    """An address in the memory of the device named `device`. It is not an int, so that code of the host cannot
    dereference it: native calls and launch records raise TypeError.
    """

    device: str
    value: int

    def __add__(self, nbytes: int) -> DeviceAddress:
        return DeviceAddress(self.device, self.value + nbytes)

    def __lt__(self, other: DeviceAddress) -> bool:
        return (self.device, self.value) < (other.device, other.value)

    def __sub__(self, other: DeviceAddress) -> int:
        """The bytes from `other` to this address, in the same block."""
        return self.value - other.value


def number_of(address: Address) -> int:
    """The address as an int, for comparisons with others in the memory of the same device."""
    return address if isinstance(address, int) else address.value


class Runnable(Protocol):
    """A compiled graph: `run` reads the tensors at the addresses `inputs` and writes the tensors at `outputs`.

    Values that depend only on parameters are computed again if `parameters_version` differs from the last run's. The
    caller owns the memory. Tensors are row-major and aligned to their element; an output can overlap an input only if
    `may_overwrite` returns True for the two.
    """

    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    state: tuple[int, ...]
    """Positions of the inputs that a run overwrites with new values."""
    random: RandomKey | None
    """The input that takes the random key of the run; None if the graph draws no random numbers."""
    own_bytes: int
    """An estimate of the memory for code, launch records and constants, which `runtime/idle.py` does not bound."""

    @property
    def holders(self) -> Sequence[object]:
        """What keeps memory between runs, for `idle.keep_memory`."""
        ...

    def may_overwrite(self, output: int, operand: int) -> bool:
        """True if `output` can reuse the buffer of `operand`: same size, and no element of the operand is read after
        another element of the output is written over it."""
        ...

    def run(self, inputs: Sequence[Address], outputs: Sequence[Address], parameters_version: Hashable = 0) -> None: ...

    def direct_call(self) -> DirectCall:
        """A fast path of `run`. What depends on parameters is computed in each call."""
        ...

    def bound_call(self, fixed: Mapping[int, Address]) -> BoundCall:
        """A fast path of `run` whose inputs at the positions `fixed` have these addresses."""
        ...


Numbers = tuple[Any, ...]
"""What programs that differ only in numbers differ in; see `codegen/dynamic_program.py`."""


class OpenProgram(Protocol):
    """A program whose numbers are operands of a run, so that nothing is made for a shape."""

    def run(self, addresses: list[Address], numbers: Numbers) -> None:
        """Run with these numbers on inputs and then outputs at these addresses, a list that it can change. Inputs that
        it replaces share no memory with others."""
        ...


class Device(Protocol):
    """Memory, and programs that run on it.

    A device can work asynchronously, but does all work in the order in which it was started, and frees memory in this
    order too. `read` and `synchronise` wait for the work. If some of it failed they raise the error of
    `errors.device_failed`.
    """

    @property
    def name(self) -> str:
        """The name in messages and keys: "cpu", "gpu(0)"."""
        ...

    @property
    def target(self) -> Target:
        """The target that programs of this device are compiled for."""
        ...

    @property
    def stream(self) -> Stream | None:
        """The stream of all work of the device; None if its calls return when their work is done."""
        ...

    def allocate(self, nbytes: int) -> Storage:
        """A buffer of at least `nbytes` of arbitrary content, freed with the last reference. MemoryError (see
        `errors.out_of_memory`) if the memory is not available."""
        ...

    def allocate_zeroed(self, nbytes: int) -> Storage:
        """A buffer of zeros; see `allocate`."""
        ...

    def write(self, address: Address, source: npt.NDArray[Any] | bytes) -> None:
        """Copy bytes, or a C-contiguous array of the host, to `address`, after all work that was started before. The
        array can change as soon as this returns."""
        ...

    def read(self, address: Address, into: npt.NDArray[Any]) -> None:
        """Fill a C-contiguous array of the host from `address`, after all work that was started before has finished."""
        ...

    def copy(self, target: Address, source: Address, nbytes: int) -> None:
        """Copy within the device's memory."""
        ...

    def clear(self, address: Address, nbytes: int) -> None:
        """Write zeros, which do not come from the host's memory, after all work that was started before."""
        ...

    def fill(self, address: Address, element: bytes, count: int) -> None:
        """Write `count` copies of an element of 1, 2, 4 or 8 bytes, after all work that was started before. They do not
        come from the host's memory."""
        ...

    def load(self, program: Program, prepared: PreparedPool | None = None) -> LoadedProgram[Any]:
        """The program, ready to run on this device. `prepared` is the pool of prepared memory that it shares with
        others; None for a pool of its own. ValueError or KeyError for damaged code."""
        ...

    def open(self, columns: Program, built: Callable[[Numbers], Program]) -> OpenProgram | None:
        """The program with a `Column` for each number in which the programs that `built` returns differ, ready to run
        with any numbers; None for a program that only `load` takes."""
        ...

    def synchronise(self) -> None:
        """Wait until all work that was started has finished."""
        ...

    def release_cached(self) -> None:
        """Return memory that is kept for later requests to the system."""
        ...

    def memory_info(self) -> tuple[int, int]:
        """(free bytes, total bytes) of its memory."""
        ...


class Launcher(Device, Protocol):
    """A device whose kernels are launched one by one; `runtime.launched_program` loads whole programs on it."""

    def load_code(self, code: bytes) -> Mapping[str, Any]:
        """The kernels that an object of a program's code defines, by their symbols."""
        ...

    def run(self, launches: LaunchList) -> None:
        """Start launches in order, after all work that was started before and without other work between them. The
        words of the list can change as soon as this returns."""
        ...

    def scratch(self, nbytes: int) -> Storage:
        """A buffer of at least `nbytes` that all lists of launches can use in turn. Only called on a device with a
        stream, whose order separates the uses."""
        ...
