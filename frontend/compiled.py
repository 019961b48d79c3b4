"""Compiled models: a program with its parameters, as a function of the data only."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.suggestions import suggestion
from ..ir.types import TensorType
from ..runtime.compiled_folder import Argument, read_folder
from ..runtime.devices import HOST
from ..runtime.function import Specialization
from ..runtime.random_keys import key_in_memory
from ..runtime.storage import as_numpy
from .base import MXNetError
from .context import current_context
from .dtypes import from_memory, to_memory
from .memory import allocate

if TYPE_CHECKING:
    from ..runtime.device import Runnable

_NDARRAY_MODULE = f"{__package__}.ndarray"
_NDARRAY_CLASS_MODULE = f"{_NDARRAY_MODULE}.ndarray"
_LARGE = 64 << 10


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
    ) -> None:
        """`bound` maps positions to the operands of `executable` that are constant over all calls. `inputs` describes
        the other operands in order, except the random key.
        """
        self.name = name
        self.executable = executable
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self._types = [a.type for a in outputs]
        self._specialization = Specialization(executable)
        self._bound = dict(bound)  # keeps the memory alive
        key = executable.random.input if executable.random is not None else -1
        operands = [i for i in range(len(executable.inputs)) if i != key]
        self._addresses = [_address(bound[i]) if i in bound else 0 for i in operands]
        self._free = [at for at, i in enumerate(operands) if i not in bound]

    @property
    def input_names(self) -> tuple[str, ...]:
        return tuple(a.name for a in self.inputs)

    @property
    def output_names(self) -> tuple[str, ...]:
        return tuple(a.name for a in self.outputs)

    @property
    def parameter_bytes(self) -> int:
        """The bytes of the operands that are bound."""
        return sum(a.nbytes for a in self._bound.values())

    def __repr__(self) -> str:
        return f"<CompiledModel {self.name}({_listed(self.inputs)}) -> ({_listed(self.outputs)})>"

    def __call__(self, *inputs: Any, **named: Any) -> list[Any]:
        """The outputs: NDArrays if any input is an NDArray, else NumPy arrays.

        Inputs are given in order, by name, or both, as the arguments of a function. Inputs of another dtype are
        converted. MXNetError for a wrong number of inputs, an unknown name or a wrong shape.
        """
        if named:
            inputs = self._in_order(inputs, named)
        wrap = any(map(_is_ndarray, inputs))
        new = _new_ndarray if wrap else _new_memory
        results, targets = zip(*[new(t) for t in self._types], strict=True)
        addresses, _kept = self._operands(inputs)
        self._specialization.run_at(addresses, targets, current_context())
        return list(results) if wrap else [from_memory(r, t.dtype) for r, t in zip(results, self._types, strict=True)]

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
    def operands(self, inputs: Sequence[Any]) -> Iterator[tuple[list[int], list[int]]]:
        """The addresses that `executable.run` takes: of these inputs, and of outputs whose values are not used."""
        addresses, _kept = self._operands(inputs)
        random = self.executable.random
        if random is not None:
            key = key_in_memory(current_context(), random.draws)
            addresses.insert(random.input, key.address)
        results = [_new_memory(t) for t in self._types]
        yield addresses, [address for _, address in results]

    def _operands(self, inputs: Sequence[Any]) -> tuple[list[int], list[object]]:
        """The addresses of the executable's inputs except the random key, and objects that keep their memory alive."""
        if len(inputs) != len(self.inputs):
            raise MXNetError(f"{self.name} takes {len(self.inputs)} inputs ({_listed(self.inputs)}), not {len(inputs)}")
        operands = [_operand(x, argument) for x, argument in zip(inputs, self.inputs, strict=True)]
        addresses = self._addresses.copy()
        for position, (address, _) in zip(self._free, operands, strict=True):
            addresses[position] = address
        return addresses, [kept for _, kept in operands]


def load_compiled(folder: str | os.PathLike[str]) -> CompiledModel:
    """The model in a folder that `mxforge compile` wrote. Neither compiles nor imports LLVM.

    CompiledFolderError if the folder is damaged, of another version, or compiled for another machine. The folder
    contains machine code: load only folders that you trust. From then on, all kernels of the process use at most as
    many threads as the folder was compiled for.
    """
    stored = read_folder(folder)
    last = len(stored.program.inputs) - 1
    return CompiledModel(stored.name, HOST.load(stored.program), stored.inputs, stored.outputs, {last: stored.memory})


def _listed(arguments: Sequence[Argument]) -> str:
    return ", ".join(f"{a.name}: {a.type.dtype.value}{list(a.type.shape)}" for a in arguments)


def _operand(value: Any, argument: Argument) -> tuple[int, object]:
    """The address of the value in row-major memory of the argument's dtype, and the object that owns this memory."""
    type = argument.type
    if _is_ndarray(value):
        if value._dtype is type.dtype and value._shape == type.shape and value._on_host:
            return value._address, value
        value = value.asnumpy()
    array = np.asarray(value)
    if array.shape != type.shape:
        raise MXNetError(f"input {argument.name!r} has shape {type.shape}, not {array.shape}")
    if array.dtype != type.dtype.memory:
        array = to_memory(array, type.dtype)
    interface = array.__array_interface__  # several times faster than array.ctypes and array.flags
    if interface["strides"] is not None:
        array = np.ascontiguousarray(array)
        interface = array.__array_interface__
    return interface["data"][0], array


def _is_ndarray(value: Any) -> bool:
    """True for an NDArray. Returns False if NDArray's module is not imported."""
    module = sys.modules.get(_NDARRAY_MODULE)
    return module is not None and isinstance(value, module.NDArray)


def _new_ndarray(type: TensorType) -> tuple[Any, int]:
    """An array for a result, and its address."""
    array = sys.modules[_NDARRAY_CLASS_MODULE].empty_array(type.shape, type.dtype, current_context())
    return array, array._address


def _new_memory(type: TensorType) -> tuple[np.ndarray, int]:
    """A NumPy array for a result, and its address. Large arrays use pooled memory: first use of new pages is slow."""
    if type.nbytes < _LARGE:
        array = np.empty(type.shape, type.dtype.memory)
        return array, _address(array)
    storage = allocate(type.nbytes)
    return as_numpy(storage, type.dtype.memory, type.shape), storage.address


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]
