"""Folders of models that were compiled for several shapes.

    FOLDER/manifest.json   as for one shape (`compiled_folder.py`), with `variants`: the shapes that the model takes
    FOLDER/program.bin     tables of programs, with a row for each shape: ir/program_table.py's format
    FOLDER/memory.bin      parameters and what programs prepare of them, once for all shapes; or parameters alone, which
                           programs pack in their first runs

The program of a shape is looked up by the shapes of the inputs. Nothing of the compiler runs: the compilation evaluated
its dynamic programs for all shapes, and the folder has the numbers of each. So a folder does not depend on the formulas
of one version, and every shape that it takes has been checked.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..ir.lazy_dataclass import dataclass
from ..ir.manifest import ManifestError
from ..ir.once import once
from ..ir.program import Program
from ..ir.program_table import ProgramTable, tables_from_bytes, tables_to_bytes
from ..ir.types import DType, Shape
from .compiled_folder import (
    MEMORY,
    PROGRAM,
    SHAPES_VERSION,
    Argument,
    CompiledFolderError,
    StoredModel,
    check_free,
    check_types,
    damage_reported,
    gpu_and_bound,
    map_memory,
    read_file,
    read_manifest,
    read_model,
    text_of,
    write_files,
)
from .shape_variants import Variant, refusal, variant_from_json, variant_to_json

Shapes = tuple[Shape, ...]
"""The shapes of all inputs."""


class UnknownShapesError(CompiledFolderError):
    """The model was not compiled for these shapes of its inputs."""


@dataclass(frozen=True, eq=False)
class StoredShapes:
    """The content of a folder. `inputs` and `outputs` are names with dtypes; see `StoredModel` for `gpu`, `bound` and
    `unpacked`.
    If several programs take the same shapes, the first one is used."""

    name: str
    inputs: tuple[tuple[str, DType], ...]
    outputs: tuple[tuple[str, DType], ...]
    variants: tuple[Variant, ...]
    tables: tuple[ProgramTable, ...]
    memory: np.ndarray
    gpu: str = ""
    bound: tuple[tuple[int, int], ...] = ()
    unpacked: bool = False
    path: Path = Path()

    @property
    def input_names(self) -> tuple[str, ...]:
        """The names of the inputs, in order."""
        return tuple([name for name, _ in self.inputs])

    @once
    def rows(self) -> Mapping[Shapes, tuple[ProgramTable, int]]:
        """The table and the row of the program, by the shapes of the inputs. ManifestError for damaged tables."""
        rows: dict[Shapes, tuple[ProgramTable, int]] = {}
        for table in self.tables:
            for row, shapes in enumerate(_shapes_of_rows(table, self._data(table))):
                rows.setdefault(shapes, (table, row))
        return rows

    def model(self, shapes: Sequence[Shape]) -> StoredModel:
        """The model for inputs of these shapes. UnknownShapesError names what is allowed, CompiledFolderError is raised
        for a damaged program."""
        place = self.rows.get(tuple(shapes))
        if place is None:
            raise UnknownShapesError(f"{self.name}: {refusal(self.variants, self.input_names, shapes)}")
        table, row = place
        with damage_reported(self.path):
            program = table.program(row)
            types = [program.inputs[i] for i in self._data(table)]
            inputs = [Argument(name, type) for (name, _), type in zip(self.inputs, types, strict=True)]
            outputs = [Argument(name, t) for (name, _), t in zip(self.outputs, program.results, strict=True)]
            model = StoredModel(
                self.name,
                tuple(inputs),
                tuple(outputs),
                program,
                self._memory(program),
                self.gpu,
                self.bound,
                self.unpacked,
            )
        listed = [dtype for _, dtype in (*self.inputs, *self.outputs)]
        if listed != [a.type.dtype for a in (*inputs, *outputs)]:
            raise CompiledFolderError(f"{self.path}: the manifest and {PROGRAM} do not agree on dtypes")
        check_types(model, self.path)
        return model

    def _data(self, table: ProgramTable) -> list[int]:
        """The positions of the inputs that callers pass."""
        bound = {position for position, _ in self.bound}
        key = table.header["random"][:1]
        free = [i for i in range(len(table.header["inputs"])) if i not in bound and i not in key]
        if len(free) != len(self.inputs) + (not self.gpu and not self.unpacked):  # and the block
            raise ManifestError(f"a program has {len(free)} inputs that are not parameters")
        return free[: len(self.inputs)]

    def _memory(self, program: Program) -> np.ndarray:
        """The part of the memory that a program reads: programs that were added later can need more."""
        return (
            self.memory if self.gpu or self.unpacked or not program.inputs else self.memory[: program.inputs[-1].nbytes]
        )


def _shapes_of_rows(table: ProgramTable, positions: Sequence[int]) -> Iterator[Shapes]:
    shapes = [map(tuple, table.input_shapes(i).tolist()) for i in positions]
    return zip(*shapes, strict=True) if shapes else iter([()] * len(table))


def write_shapes(
    folder: str | os.PathLike[str], model: StoredShapes, machine: Mapping[str, Any], *, replace_existing: bool = False
) -> None:
    """Write the model; see `write_folder`."""
    check_free(folder, replace_existing)
    fields = {
        "version": SHAPES_VERSION,
        "name": model.name,
        "inputs": [[name, dtype.value] for name, dtype in model.inputs],
        "outputs": [[name, dtype.value] for name, dtype in model.outputs],
        "variants": [variant_to_json(variant) for variant in model.variants],
        **({"bound": [list(pair) for pair in model.bound]} if model.gpu or model.unpacked else {}),
    }
    write_files(folder, fields, machine, {PROGRAM: tables_to_bytes(model.tables), MEMORY: model.memory.data})


def read_folder(folder: str | os.PathLike[str]) -> StoredModel | StoredShapes:
    """The model in a folder, checked; its memory is mapped. Programs of several shapes are checked when they are used.
    CompiledFolderError describes the first problem."""
    path = Path(folder)
    with damage_reported(path):
        manifest = read_manifest(path)
        if manifest["version"] != SHAPES_VERSION:
            return read_model(path, manifest)
        gpu, bound = gpu_and_bound(manifest, path)
        inputs, outputs = (tuple(map(_named_dtype, manifest[kind])) for kind in ("inputs", "outputs"))
        variants = tuple([variant_from_json(v, len(inputs), len(outputs)) for v in manifest["variants"]])
        tables = tuple(tables_from_bytes(read_file(path / PROGRAM, manifest["files"][PROGRAM])))
        memory = map_memory(path / MEMORY, manifest["files"][MEMORY])
        unpacked = not gpu and "bound" in manifest
        name = text_of(manifest["name"])
        model = StoredShapes(name, inputs, outputs, variants, tables, memory, gpu, bound, unpacked, path)
        if not variants or not all(variant.best() in model.rows for variant in variants):
            raise ManifestError("there is no program for a variant")
    return model


def _named_dtype(record: Any) -> tuple[str, DType]:
    name, dtype = record
    return text_of(name), DType(dtype)
