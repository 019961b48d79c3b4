"""Compiled models: a program with its parameters, as a function of the data only.

CompiledModel    a program for one shape of each input
CompiledShapes   programs for several shapes, of which a call uses the one for its inputs
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.caches import Cache
from ..ir.suggestions import suggestion
from ..runtime.compiled_folder import Argument, check_gpu
from ..runtime.compiled_shapes import Shapes, StoredShapes, UnknownShapesError, read_folder
from ..runtime.devices import HOST
from ..runtime.function import Specialization
from ..runtime.random_keys import key_in_memory
from ..runtime.shape_variants import inputs_text
from ..runtime.shared_programs import SharedPrograms
from .base import MXNetError
from .context import Context, current_context, device_of, gpu
from .model_memory import ModelMemory, SharedBindings, is_ndarray, memory_on

if TYPE_CHECKING:
    from ..runtime.device import Address, Device, Runnable

_REMEMBERED = 64  # loaded programs of a model


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
        memory: ModelMemory | None = None,
    ) -> None:
        """`bound` maps positions to the operands of `executable` that are constant over all calls. `inputs` describes
        the other operands in order, except the random key. `executable` runs on the device of `context`; None: on the
        host. `memory` is the memory of that device.
        """
        self.name = name
        self.executable = executable
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self._types = [a.type for a in outputs]
        self._memory = memory or memory_on(context)
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
            inputs = _in_order(self, _listed(self.inputs), inputs, named)
        wrap = any(map(is_ndarray, inputs))
        results = [self._memory.result(type, wrap) for type in self._types]
        addresses, _kept = self._operands(inputs)
        self._specialization.run_at(addresses, [result.address for result in results], current_context())
        return [result.value() for result in results]

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


class CompiledShapes:
    """Programs of one model for several shapes, with one set of parameters. A call uses the program for the shapes of
    its inputs. `variants` are the shapes that the model takes.

    Several threads can call it at the same time.
    """

    def __init__(self, stored: StoredShapes, device: Device, context: Context | None) -> None:
        self.name, self.variants = stored.name, stored.variants
        self.input_names = stored.input_names
        self.output_names = tuple([name for name, _ in stored.outputs])
        self.device = device
        self._stored, self._context = stored, context
        self._memory = SharedBindings(memory_on(context))
        self._loader = SharedPrograms(device)
        self._models: Cache[Shapes, CompiledModel] = Cache("programs of a compiled model", _REMEMBERED)

    @property
    def best(self) -> CompiledModel:
        """The model for the best shapes of the first variant; the largest ones of ranges without a best extent."""
        return self.at(*self.variants[0].best())

    @property
    def inputs(self) -> tuple[Argument, ...]:
        """The inputs of `best`."""
        return self.best.inputs

    @property
    def outputs(self) -> tuple[Argument, ...]:
        """The outputs of `best`."""
        return self.best.outputs

    @property
    def shapes(self) -> Collection[Shapes]:
        """The shapes of all inputs that the model takes."""
        return self._stored.rows.keys()

    def __repr__(self) -> str:
        return f"<CompiledShapes {self.name}: {self._takes()}>"

    def at(self, *shapes: Sequence[int]) -> CompiledModel:
        """The model for inputs of these shapes. MXNetError names the shapes that are allowed."""
        key = tuple([tuple(shape) for shape in shapes])
        if len(key) != len(self.input_names):
            raise MXNetError(f"{self.name} takes {len(self.input_names)} inputs ({self._takes()}), not {len(key)}")
        return self._models.get(key, lambda: self._load(key))

    def __call__(self, *inputs: Any, **named: Any) -> list[Any]:
        """The outputs for inputs of any shapes of the variants; see `CompiledModel`."""
        if named:
            inputs = _in_order(self, self._takes(), inputs, named)
        inputs = tuple([x if hasattr(x, "shape") else np.asarray(x) for x in inputs])
        return self.at(*[x.shape for x in inputs])(*inputs)

    def _load(self, shapes: Shapes) -> CompiledModel:
        try:
            stored = self._stored.model(shapes)
        except UnknownShapesError as error:
            raise MXNetError(str(error)) from None
        executable = self._loader.load(stored.program)
        operands = stored.operands()
        return CompiledModel(
            self.name, executable, stored.inputs, stored.outputs, operands, self._context, self._memory
        )

    def _takes(self) -> str:
        texts = [(v.name, inputs_text(v, self.input_names)) for v in self.variants]
        return "; ".join(f"{name}: {text}" if name else text for name, text in texts)


def load_compiled(folder: str | os.PathLike[str], ctx: Context | None = None) -> CompiledModel | CompiledShapes:
    """The model in a folder that `mxforge compile` wrote: CompiledShapes if it was compiled for several shapes. Neither
    compiles nor imports LLVM.

    CompiledFolderError if the folder is damaged, of another version, or compiled for another machine. The folder
    contains machine code: load only folders that you trust. From then on, all kernels of the process use at most as
    many threads as the folder was compiled for.

    A folder that was compiled for a GPU runs on `ctx`, by default `mx.gpu(0)`, without Triton.
    """
    stored = read_folder(folder)
    context = ctx or (gpu(0) if stored.gpu else None)
    device = HOST if context is None else device_of(context)
    check_gpu(stored.gpu, device, folder)
    if isinstance(stored, StoredShapes):
        return CompiledShapes(stored, device, context)
    executable = device.load(stored.program)
    return CompiledModel(stored.name, executable, stored.inputs, stored.outputs, stored.operands(), context)


def _listed(arguments: Sequence[Argument]) -> str:
    return ", ".join(f"{a.name}: {a.type.dtype.value}{list(a.type.shape)}" for a in arguments)


def _in_order(
    model: CompiledModel | CompiledShapes, takes: str, inputs: Sequence[Any], named: Mapping[str, Any]
) -> tuple[Any, ...]:
    """All inputs in order. MXNetError for names that are not those of the other inputs; `takes` lists all."""
    names = model.input_names[len(inputs) :]
    for name in named:
        if name not in names:
            known = "is given twice" if name in model.input_names else f"is unknown.{suggestion(name, names)}"
            raise MXNetError(f"{model.name} takes {takes}; input {name!r} {known}")
    missing = [name for name in names if name not in named]
    if missing:
        raise MXNetError(f"{model.name} takes {takes}; input {missing[0]!r} is missing")
    return (*inputs, *(named[name] for name in names))
