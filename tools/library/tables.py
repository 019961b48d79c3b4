"""Describes the programs of a model for `runtime/host/native/model.c`: the structures of `model.h`.

A program becomes the words of its launch records (`codegen/records.py`), with lists of the words that get addresses
when a context is made. Programs of several shapes share whatever they have in common: kernels, weights, equal arrays.
"""

from __future__ import annotations

import zlib
from collections.abc import Hashable, Iterator, Mapping, Sequence

import numpy as np

from ...codegen.records import HOST_CALLS, Layout
from ...ir.lazy_dataclass import dataclass
from ...ir.program import Space, all_steps
from ...ir.types import DType, TensorType
from ...runtime.compiled_folder import Argument, StoredModel
from ...runtime.compiled_shapes import StoredShapes
from ...runtime.devices import HOST
from ...runtime.shape_variants import described, inputs_text
from ..errors import ToolError
from .data import ObjectData, Reference, Word
from .needs import Need

MEMORY = Reference("model_memory")
"""The weights."""

MODEL, PREDICT = "model_data", "predict_data"
"""The symbols that the C code reads."""

MOST_SHAPES = 1024
"""The most shapes of a library: each has launch records of some kilobytes."""

_ALIGNMENT = 64
_INPUT, _OUTPUT, _FLAG, _KEY, _SCRATCH, _OWN, _PREPARED, _FIXED = range(8)  # enum model_space
_MOST_AXES = 64


@dataclass(frozen=True, eq=False)
class ModelFile:
    """A file of the model, as programs that use MXNet's C predict API pass it; without content if there is none."""

    name: str
    content: bytes | None


@dataclass(frozen=True, eq=False)
class LibraryModel:
    """A model as libraries contain it: programs for the shapes that it takes, the first of which is the default.
    `files` are the symbol and the parameters for MXNet's C predict API; none without it."""

    name: str
    models: tuple[StoredModel, ...]
    memory: np.ndarray
    takes: str
    """The shapes of the inputs, as text."""
    files: tuple[ModelFile, ...] = ()

    @property
    def code(self) -> tuple[bytes, ...]:
        """The objects of all programs."""
        return tuple(dict.fromkeys(code for model in self.models for code in model.program.code))


def library_model(stored: StoredModel | StoredShapes, files: tuple[ModelFile, ...] = ()) -> LibraryModel:
    """The model of a compilation; see `LibraryModel.files`. ToolError for one that a library cannot contain."""
    if isinstance(stored, StoredModel):
        names, shapes = [a.name for a in stored.inputs], [a.shape for a in stored.inputs]
        takes = inputs_text(described("", [shapes], [[a.shape for a in stored.outputs]]), names)
        model = LibraryModel(stored.name, (stored,), stored.memory, takes, files)
    else:
        if len(stored.rows) > MOST_SHAPES:
            raise ToolError(f"{stored.name}: {len(stored.rows)} shapes, more than the {MOST_SHAPES} of a library")
        best = stored.variants[0].best()
        models = [stored.model(shapes) for shapes in (best, *(s for s in stored.rows if s != best))]
        takes = "; ".join(inputs_text(variant, stored.input_names) for variant in stored.variants)
        model = LibraryModel(stored.name, tuple(models), stored.memory, takes, files)
    for each in model.models:
        _check(each)
    return model


def _check(model: StoredModel) -> None:
    program = model.program
    steps = all_steps((*program.prepare, *program.steps))
    calls = {f"{program.label(step)} ({step.kind})" for step in steps if isinstance(step, HOST_CALLS)}
    if calls:
        raise ToolError(f"{model.name}: a library has no Python, which computes {', '.join(sorted(calls))}")
    for argument in (*model.inputs, *model.outputs):
        if len(argument.shape) > _MOST_AXES:
            raise ToolError(f"{argument.name} has {len(argument.shape)} axes: a library takes {_MOST_AXES} at most")


def describe_model(model: LibraryModel, needs: Sequence[Need], threads: int, data: ObjectData) -> Reference:
    """Write the structure of the model; returns its place."""
    return _Describer(data).model(model, needs, threads)


def describe_files(files: Sequence[ModelFile], data: ObjectData) -> Reference:
    """Write `struct predict`; returns its place."""
    fields: list[Word] = []
    for file in files:
        known = file.content is not None
        fields += [data.text(file.name), len(file.content or b"") if known else -1, zlib.crc32(file.content or b"")]
    return data.words(fields)


class _Describer:
    def __init__(self, data: ObjectData) -> None:
        self._data = data
        self._kernels: dict[str, int] = {}
        self._prepared: dict[Hashable, tuple[int, int]] = {}  # the number and the bytes

    def model(self, model: LibraryModel, needs: Sequence[Need], threads: int) -> Reference:
        data, first = self._data, model.models[0]
        programs = [word for each in model.models for word in self._program(each)]
        states = [int(i in first.program.state) for i in _positions(first)]
        rows = [w for n in needs for w in (data.text(n.name), n.leaf, n.subleaf, n.word, n.mask)]
        fields: list[Word] = [
            data.text(model.name),
            data.text(model.takes),
            len(first.inputs),
            len(first.outputs),
            threads,
            data.words(states or [0]),
            data.words(programs),
            len(model.models),
            data.words([Reference(symbol) for symbol in self._kernels] or [0]),
            data.words([nbytes for _, nbytes in self._prepared.values()] or [0]),
            len(self._prepared),
            data.words(rows or [0]),
            len(needs),
        ]
        return data.words(fields)

    def _program(self, model: StoredModel) -> Iterator[Word]:
        """The fields of `struct model_program`."""
        data, program = self._data, model.program
        layout = Layout(program.prepare, program.grouped(), HOST.shares_groups(program))
        blocks = [word for block in self._blocks(model, layout) for word in block]
        outputs = sum(_padded(t.nbytes) for t in program.results) + _padded(len(program.checks))
        yield self._tensors(model.inputs)
        yield self._tensors(model.outputs)
        yield data.words(layout.words.tolist() or [0])
        yield len(layout.words)
        pairs = [(word, self._kernel(symbol)) for word, symbol in layout.kernels]
        yield data.numbers([n for pair in pairs for n in pair] or [0])
        yield len(layout.kernels)
        yield data.numbers([n for link in layout.links for n in link] or [0])
        yield len(layout.links)
        yield data.words(blocks or [0])
        yield len(blocks) // 5
        yield len(program.prepare)
        yield len(program.groups or program.steps)
        yield self._prepared_number(model)
        yield program.scratch_bytes
        yield program.arena_bytes - program.scratch_bytes
        yield outputs
        yield data.words([data.text(check.message) for check in program.checks] or [0])
        yield len(program.checks)
        yield 0 if program.random is None else program.random.draws

    def _kernel(self, symbol: str) -> int:
        """The number of a kernel."""
        return self._kernels.setdefault(symbol, len(self._kernels))

    def _blocks(self, model: StoredModel, layout: Layout) -> Iterator[tuple[Word, ...]]:
        """The fields of each `struct model_block`; writes the offsets into the words."""
        for (space, index), pairs in layout.memory.items():
            for word, offset in pairs:
                layout.words[word] = offset
            words = [word for word, _ in pairs]
            match space:
                case Space.INPUT:
                    yield self._input_block(model, index, words)
                case Space.OUTPUT:
                    flag = index - len(model.program.results)
                    yield self._block(_OUTPUT, index, words) if flag < 0 else self._block(_FLAG, flag, words)
                case Space.ARENA:
                    own = {word for word, offset in pairs if offset >= model.program.scratch_bytes}
                    yield self._block(_SCRATCH, 0, [word for word in words if word not in own])
                    yield self._block(_OWN, 0, sorted(own))
                case Space.PREPARED:
                    yield self._block(_PREPARED, 0, words)
                case Space.CONSTANT:
                    yield self._block(_FIXED, 0, words, self._data.bytes(model.program.constants))

    def _input_block(self, model: StoredModel, index: int, words: Sequence[int]) -> tuple[Word, ...]:
        fixed, random = _fixed(model), model.program.random
        if index in fixed:
            return self._block(_FIXED, 0, words, Reference(MEMORY.symbol, fixed[index]))
        if random is not None and index == random.input:
            return self._block(_KEY, 0, words)
        return self._block(_INPUT, _positions(model).index(index), words)

    def _block(self, space: int, index: int, words: Sequence[int], fixed: Word = 0) -> tuple[Word, ...]:
        return space, index, fixed, self._data.numbers(words or [0]), len(words)

    def _prepared_number(self, model: StoredModel) -> int:
        """The number of the memory that programs with this preparation share; -1 if there is none."""
        program = model.program
        if not program.prepare:
            return -1
        key = program.prepare, program.constants, program.prepared_bytes, model.bound
        number, _ = self._prepared.setdefault(key, (len(self._prepared), program.prepared_bytes))
        return number

    def _tensors(self, arguments: Sequence[Argument]) -> Reference:
        """An array of `mxf_tensor`."""
        data, rows = self._data, list[Word]()
        for argument in arguments:
            shape = data.words(argument.shape or [0])
            name, dtype = data.text(argument.name), data.text(dtype_name(argument.type))
            rows += [name, dtype, len(argument.shape), shape, argument.type.nbytes, 0]
        return data.words(rows or [0])


def dtype_name(type: TensorType) -> str:
    """The name of the dtype in the library."""
    return "bfloat16" if type.dtype is DType.BF16 else type.dtype.numpy.name


def _fixed(model: StoredModel) -> Mapping[int, int]:
    """The inputs of the program that are in the weights, with their offsets."""
    return dict(model.bound) if model.packs else {len(model.program.inputs) - 1: 0}


def _positions(model: StoredModel) -> list[int]:
    """The positions in the program of the inputs of the model."""
    program = model.program
    key = () if program.random is None else (program.random.input,)
    return [i for i in range(len(program.inputs)) if i not in _fixed(model) and i not in key]


def _padded(nbytes: int) -> int:
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT
