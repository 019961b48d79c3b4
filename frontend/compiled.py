"""Compiled models: a program with its parameters, as a function of the data only."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.suggestions import suggestion
from ..runtime.compiled_folder import Argument, check_gpu, read_folder
from ..runtime.devices import HOST
from ..runtime.function import Specialization
from ..runtime.random_keys import key_in_memory
from .base import MXNetError
from .context import Context, current_context, device_of, gpu
from .model_memory import is_ndarray, memory_on

if TYPE_CHECKING:
    from ..runtime.device import Address, Runnable


class CompiledModel:
    """A program whose parameters are bound. A call takes the data in the order of `inputs` and computes the outputs.

    Several threads can call it at the same time.
    """

    def __init__(
        self,
        name: str,
        executable: Runnable,
        inputs: Sequence[Argument],
        outputs: Sequence[Argument],
        bound: Mapping[int, np.ndarray],
        context: Context | None = None,
    ) -> None:
        """`bound` maps positions to the operands of `executable` that are constant over all calls. `inputs` describes
        the other operands in order, except the random key. `executable` runs on the device of `context`; None: on the
        host.
        """
        self.name = name
        self.executable = executable
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self._types = [a.type for a in outputs]
        self._memory = memory_on(context)
        self.device = self._memory.device
        self._specialization = Specialization(executable, device=self.device)
        self.parameter_bytes = sum(array.nbytes for array in bound.values())
        """The bytes of the operands that are bound."""
        placed = {i: self._memory.bind(array) for i, array in bound.items()}
        self._bound = [kept for _, kept in placed.values()]
        key = executable.random.input if executable.random is not None else -1
        operands = [i for i in range(len(executable.inputs)) if i != key]
        self._addresses: list[Address] = [placed[i][0] if i in placed else 0 for i in operands]
        self._free = [at for at, i in enumerate(operands) if i not in bound]

    @property
    def input_names(self) -> tuple[str, ...]:
        return tuple(a.name for a in self.inputs)

    @property
    def output_names(self) -> tuple[str, ...]:
        return tuple(a.name for a in self.outputs)

    def __repr__(self) -> str:
        return f"<CompiledModel {self.name}({_listed(self.inputs)}) -> ({_listed(self.outputs)})>"

    def __call__(self, *inputs: Any, **named: Any) -> list[Any]:
        """The outputs: NDArrays if any input is an NDArray, else NumPy arrays.

        Inputs are given in order, by name, or both, as the arguments of a function. Inputs of another dtype are
        converted. MXNetError for a wrong number of inputs, an unknown name or a wrong shape.
        """
        if named:
            inputs = self._in_order(inputs, named)
        wrap = any(map(is_ndarray, inputs))
        results = [self._memory.result(type, wrap) for type in self._types]
        addresses, _kept = self._operands(inputs)
        self._specialization.run_at(addresses, [result.address for result in results], current_context())
        return [result.value() for result in results]

    def _in_order(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, ...]:
        names = self.input_names[len(inputs) :]
        for name in named:
            if name not in names:
                known = "is given twice" if name in self.input_names else f"is unknown.{suggestion(name, names)}"
                raise MXNetError(f"{self.name} takes {_listed(self.inputs)}; input {name!r} {known}")
        missing = [name for name in names if name not in named]
        if missing:
            raise MXNetError(f"{self.name} takes {_listed(self.inputs)}; input {missing[0]!r} is missing")
        return (*inputs, *(named[name] for name in names))

    @contextmanager
    def operands(self, inputs: Sequence[Any]) -> Iterator[tuple[list[Address], list[Address]]]:
        """The addresses that `executable.run` takes: of these inputs, and of outputs whose values are not used."""
        addresses, _kept = self._operands(inputs)
        random = self.executable.random
        if random is not None:
            key = key_in_memory(current_context(), random.draws, self.device)
            addresses.insert(random.input, key.address)
        results = [self._memory.result(type, False) for type in self._types]
        yield addresses, [result.address for result in results]

    def _operands(self, inputs: Sequence[Any]) -> tuple[list[Address], list[object]]:
        """The addresses of the executable's inputs except the random key, and objects that keep their memory alive."""
        if len(inputs) != len(self.inputs):
            raise MXNetError(f"{self.name} takes {len(self.inputs)} inputs ({_listed(self.inputs)}), not {len(inputs)}")
        operands = [self._memory.operand(x, argument) for x, argument in zip(inputs, self.inputs, strict=True)]
        addresses = self._addresses.copy()
        for position, (address, _) in zip(self._free, operands, strict=True):
            addresses[position] = address
        return addresses, [kept for _, kept in operands]


def load_compiled(folder: str | os.PathLike[str], ctx: Context | None = None) -> CompiledModel:
    """The model in a folder that `mxforge compile` wrote. Neither compiles nor imports LLVM.

    CompiledFolderError if the folder is damaged, of another version, or compiled for another machine. The folder
    contains machine code: load only folders that you trust. From then on, all kernels of the process use at most as
    many threads as the folder was compiled for.

    A folder that was compiled for a GPU runs on `ctx`, by default `mx.gpu(0)`, without Triton.
    """
    stored = read_folder(folder)
    context = ctx or (gpu(0) if stored.gpu else None)
    device = HOST if context is None else device_of(context)
    check_gpu(stored, device, folder)
    executable = device.load(stored.program)
    return CompiledModel(stored.name, executable, stored.inputs, stored.outputs, stored.operands(), context)


def _listed(arguments: Sequence[Argument]) -> str:
    return ", ".join(f"{a.name}: {a.type.dtype.value}{list(a.type.shape)}" for a in arguments)
