"""The host and GPUs as what programs are tuned on: compilation, memory, times, and where schedules are stored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...codegen.driver import Compilation, compile_steps
from ...codegen.llvm.emit import is_contraction, scheduled_kernel
from ...codegen.llvm.schedule.tuned import kernel_key
from ...codegen.triton.choices import choice_key
from ...codegen.triton.describe import RecordingTarget, recorded
from ...ir.code_store import NO_STORE, CodeStore
from ...ir.graph import Graph
from ...ir.kernel import Kernel
from ...ir.lazy_dataclass import dataclass
from ...ir.program import Program
from ...ir.types import TensorType
from ...passes.manager import Options
from ...runtime.compile import kernel_store
from ...runtime.device import Address
from ...runtime.devices import HOST
from ...runtime.host.probes import TimedRuns
from ...runtime.loaded_program import LoadedProgram
from ...runtime.storage import Storage, as_numpy
from ..profile.gpu import GpuTimedRuns
from .spaces import GpuSpaces, Schedule, entry_of
from .spaces import Machine as Chosen

Operand = np.ndarray | Storage


@dataclass(frozen=True)
class TunedKernel:
    """A kernel of a program: its `parameters` are buffers that rarely change, `launches` are numbers of those that
    compute it, and `layers` the names of their layers."""

    kernel: Kernel
    parameters: frozenset[str]
    launches: tuple[int, ...]
    layers: tuple[str, ...]


class Machine(ABC):
    """A device. `untuned` is its target without tuned schedules, and `precision` the mode of float32 products."""

    device: Any
    untuned: Any

    kernel_store: CodeStore = NO_STORE

    def __init__(self, precision: str) -> None:
        self.precision = precision

    @property
    @abstractmethod
    def chosen(self) -> Chosen:
        """What schedules are chosen for."""

    def options(self, options: Options) -> Options:
        """The options with the mode of float32 products."""
        return replace(options, precision=self.precision)

    def compile(self, graph: Graph, options: Options, schedules: Mapping[str, Schedule]) -> Compilation:
        """The graph compiled with these schedules, and those of the formulas for all other kernels."""
        target = self.untuned.with_entries({key: entry_of(schedule) for key, schedule in schedules.items()})
        return compile_steps(graph, target, self.options(options), self.kernel_store)

    def load(self, program: Program) -> LoadedProgram[Any]:
        """The program on the device."""
        return self.device.load(program)

    @abstractmethod
    def placed(self, operand: Operand) -> Operand:
        """An operand in the memory of the device."""

    @abstractmethod
    def copied(self, operand: Operand) -> Operand:
        """A copy of an operand in the memory of the device."""

    @abstractmethod
    def address(self, operand: Operand) -> Address:
        """The address of an operand in that memory."""

    def values(self, result: Storage, type: TensorType) -> np.ndarray:
        """The elements of a result."""
        return as_numpy(result, type.dtype.memory, type.shape)

    @abstractmethod
    def timed(
        self, executable: LoadedProgram[Any], inputs: Sequence[Any], outputs: Sequence[Any]
    ) -> TimedRuns | GpuTimedRuns:
        """Runs of a program that can be timed."""

    @abstractmethod
    def kernels(self, compiled: Compilation) -> Iterator[tuple[str, TunedKernel]]:
        """The kernels of a program with schedules, and their keys."""

    @abstractmethod
    def refresh(self) -> None:
        """Read the schedules that are stored again."""


class HostMachine(Machine):
    """The CPUs of this machine."""

    device = HOST

    def __init__(self, precision: str) -> None:
        super().__init__(precision)
        self.untuned = HOST.target.untuned

    @property
    def chosen(self) -> Chosen:
        return self.untuned

    def placed(self, operand: Operand) -> Operand:
        return operand

    def copied(self, operand: Operand) -> Operand:
        return np.array(operand)

    def address(self, operand: Operand) -> Address:
        return operand.ctypes.data if isinstance(operand, np.ndarray) else int(operand.address)

    def timed(self, executable: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> TimedRuns | GpuTimedRuns:
        return TimedRuns(executable, inputs, outputs)

    def kernels(self, compiled: Compilation) -> Iterator[tuple[str, TunedKernel]]:
        program = compiled.program
        for step in compiled.steps:
            if step.kernel is None or step.kernel.extents or step.emission.fallback:
                continue
            symbols = {spec.symbol for spec in step.emission.launches[len(step.emission.cleared) :]}
            symbols |= {spec.symbol for i, _, spec in step.packs if step.operands[i] not in compiled.sharing.prepared}
            numbers = tuple(n for n, launch in enumerate(program.computations) if launch.symbol in symbols)
            if numbers:
                kernel = scheduled_kernel(step.kernel)
                parameters = step.parameters if is_contraction(kernel) else frozenset[str]()
                yield (
                    kernel_key(kernel, parameters),
                    TunedKernel(kernel, parameters, numbers, _layers(program, numbers)),
                )

    def refresh(self) -> None:
        HOST.refresh()


class GpuMachine(Machine):
    """A GPU. Launches in loops have times of their loop only, so their kernels are not tuned."""

    untuned: RecordingTarget

    def __init__(self, device: Any, precision: str) -> None:
        super().__init__(precision)
        self.device = device
        self.untuned = recorded(device.target.untuned)
        self.kernel_store = kernel_store(device)
        self._placed: dict[int, tuple[Operand, Storage]] = {}

    @property
    def chosen(self) -> Chosen:
        return GpuSpaces(self.untuned, self.precision)

    def placed(self, operand: Operand) -> Operand:
        if isinstance(operand, Storage):
            return operand
        if id(operand) not in self._placed:
            self._placed[id(operand)] = operand, self._copy_of(operand)  # keeps the array, and so its id
        return self._placed[id(operand)][1]

    def copied(self, operand: Operand) -> Operand:
        if isinstance(operand, np.ndarray):
            return self._copy_of(operand)
        copy = self.device.allocate(operand.nbytes)
        self.device.copy(copy.address, operand.address, operand.nbytes)
        return copy

    def _copy_of(self, array: np.ndarray) -> Storage:
        storage = self.device.allocate(array.nbytes)
        self.device.write(storage.address, np.ascontiguousarray(array))
        return storage

    def address(self, operand: Operand) -> Address:
        assert not isinstance(operand, np.ndarray)
        return operand.address

    def timed(self, executable: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> TimedRuns | GpuTimedRuns:
        return GpuTimedRuns(executable, inputs, outputs)

    def kernels(self, compiled: Compilation) -> Iterator[tuple[str, TunedKernel]]:
        """Kernels of all trials are recorded in one table: equal symbols are equal kernels."""
        program, numbers = compiled.program, dict[str, list[int]]()
        for number, launch in enumerate(program.computations):
            numbers.setdefault(launch.symbol, []).append(number)
        kernels: dict[str, tuple[Kernel, list[int]]] = {}
        for symbol, launches in numbers.items():
            known = self.untuned.kernels.get(symbol)
            if known is not None and known.kernel is not None:
                key = choice_key(known.kernel, self.precision)
                kernels.setdefault(key, (known.kernel, []))[1].extend(launches)
        for key, (kernel, launches) in kernels.items():
            own = tuple(sorted(launches))
            yield key, TunedKernel(kernel, frozenset(), own, _layers(program, own))

    def refresh(self) -> None:
        self.device.refresh()


def _layers(program: Program, launches: Sequence[int]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(program.names[i] for n in launches for i in program.computations[n].layers))
