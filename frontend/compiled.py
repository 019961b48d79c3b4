"""Compiled models: a program together with its parameters, as a function of the data alone."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.types import DType, TensorType
from ..runtime.storage import allocate, as_numpy
from .base import MXNetError
from .dtypes import from_memory, memory_dtype, to_memory

if TYPE_CHECKING:
    from ..runtime.executable import Runnable
    from .ndarray import NDArray

_RANDOM_KEY = TensorType((4,), DType.U32)


@dataclass(frozen=True)
class Argument:
    """One input or output of a compiled model."""

    name: str
    type: TensorType


class CompiledModel:
    """A program whose parameters are bound. Calling it computes the outputs of the data given in the order of `inputs`.

    May be called from several threads at once.
    """

    def __init__(
        self,
        name: str,
        executable: Runnable,
        inputs: Sequence[Argument],
        outputs: Sequence[Argument],
        bound: Mapping[int, np.ndarray],
    ) -> None:
        """`bound` holds the operands of `executable` that stay, by position: `inputs` are the others, in order.

        An operand behind these is the key of random operators, which is drawn for each call.
        """
        self.name = name
        self.executable = executable
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        count = len(executable.inputs)
        self._free = [i for i in range(count) if i not in bound]
        self._draws = len(self._free) > len(self.inputs)
        self._bound = dict(bound)  # keeps the memory alive
        self._addresses = [_address(bound[i]) if i in bound else 0 for i in range(count)]

    @property
    def input_names(self) -> tuple[str, ...]:
        return tuple(a.name for a in self.inputs)

    @property
    def output_names(self) -> tuple[str, ...]:
        return tuple(a.name for a in self.outputs)

    def __repr__(self) -> str:
        return f"<CompiledModel {self.name}({_listed(self.inputs)}) -> ({_listed(self.outputs)})>"

    def __call__(self, *inputs: Any) -> list[Any]:
        """The outputs: NDArrays when an input is an NDArray, else NumPy arrays.

        Values of another dtype are converted; MXNetError for a wrong number of inputs or a shape that does not fit.
        """
        wrap = any(map(_is_ndarray, inputs))
        results = [_new(a.type, wrap) for a in self.outputs]
        addresses, _arrays = self._operands(inputs)
        self.executable.run(addresses, [_address(_memory(r)) for r in results])
        return [r if wrap else from_memory(r, a.type.dtype) for r, a in zip(results, self.outputs, strict=True)]

    @contextmanager
    def operands(self, inputs: Sequence[Any]) -> Iterator[tuple[list[int], list[int]]]:
        """The addresses that `executable.run` takes for these inputs, and for outputs that nobody looks at."""
        results = [_memory(_new(a.type, False)) for a in self.outputs]
        addresses, _arrays = self._operands(inputs)
        yield addresses, [_address(r) for r in results]

    def _operands(self, inputs: Sequence[Any]) -> tuple[list[int], list[np.ndarray]]:
        """The address of each of the executable's inputs, and the arrays that must live while they are used."""
        if len(inputs) != len(self.inputs):
            raise MXNetError(f"{self.name} takes {len(self.inputs)} inputs ({_listed(self.inputs)}), not {len(inputs)}")
        arrays = [_operand(x, argument) for x, argument in zip(inputs, self.inputs, strict=True)]
        if self._draws:
            arrays.append(_random_key())
        addresses = self._addresses.copy()
        for position, array in zip(self._free, arrays, strict=True):
            addresses[position] = _address(array)
        return addresses, arrays


def load_compiled(folder: str | os.PathLike[str]) -> CompiledModel:
    """The model in a folder that `mxforge compile` wrote. Neither compiles nor imports LLVM.

    CompiledFolderError when the folder is damaged, of another version, or made for another machine. The folder holds
    machine code: load only what you trust. Kernels use at most as many threads as the folder was made for, from then
    on in the whole process.
    """
    from ..runtime.executable import Executable
    from .compiled_folder import read_folder

    stored = read_folder(folder)
    last = len(stored.program.inputs) - 1
    return CompiledModel(stored.name, Executable(stored.program), stored.inputs, stored.outputs, {last: stored.memory})


def _listed(arguments: Sequence[Argument]) -> str:
    return ", ".join(f"{a.name}: {a.type.dtype.value}{list(a.type.shape)}" for a in arguments)


def _operand(value: Any, argument: Argument) -> np.ndarray:
    """The value in row-major memory of the argument's dtype."""
    array = value._memory() if _is_ndarray(value) and value._dtype is argument.type.dtype else _values(value)
    if array.shape != argument.type.shape:
        raise MXNetError(f"input {argument.name!r} has shape {argument.type.shape}, not {array.shape}")
    if array.dtype != memory_dtype(argument.type.dtype):
        array = to_memory(array, argument.type.dtype)
    return np.ascontiguousarray(array)


def _values(value: Any) -> np.ndarray:
    return value.asnumpy() if _is_ndarray(value) else np.asarray(value)


def _is_ndarray(value: Any) -> bool:
    """Whether it is an NDArray: where nobody has imported that class, nothing is."""
    module = sys.modules.get(f"{__package__}.ndarray")
    return module is not None and isinstance(value, module.NDArray)


def _new(type: TensorType, wrap: bool) -> Any:
    """Memory for a result: an NDArray, or the NumPy array that `from_memory` takes."""
    if wrap:
        from .context import current_context
        from .ndarray.ndarray import empty_array

        return empty_array(type.shape, type.dtype, current_context())
    return as_numpy(allocate(type.nbytes), memory_dtype(type.dtype), type.shape)


def _memory(result: NDArray | np.ndarray) -> np.ndarray:
    return result if isinstance(result, np.ndarray) else result._memory()


def _random_key() -> np.ndarray:
    from .context import current_context
    from .random import next_key

    return np.array(next_key(current_context()), _RANDOM_KEY.dtype.numpy)


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]
