"""Saves and loads whole models as two files.

`PREFIX-model.json` contains the graphs of hybridized blocks, `PREFIX-model.params` the parameters.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..artifacts import write_atomically
from ..base import MXNetError
from ..tracebacks import cause_of

if TYPE_CHECKING:
    from .plain_block import Block

Structure = dict[str, Any]


def save_model(block: Block, prefix: str | os.PathLike[str]) -> None:
    """Write the graphs and parameters of a block and all its children. The parameters must be initialized."""
    model: Structure = {}
    _describe(block, [0], model)
    block.save_parameters(f"{os.fspath(prefix)}-model.params")
    write_atomically(f"{os.fspath(prefix)}-model.json", json.dumps(model).encode())


def load_model(block: Block, prefix: str | os.PathLike[str]) -> None:
    """Load saved graphs, names and parameters into a block of the same structure.

    Raises ValueError, which names the difference, if the structures differ.
    """
    file = Path(f"{os.fspath(prefix)}-model.json")
    try:
        model = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file} is not valid JSON: {error}") from cause_of(error)
    _restore(block, [0], model, file)
    block.load_parameters(f"{os.fspath(prefix)}-model.params")


def _describe(block: Block, counter: list[int], structure: Structure) -> None:
    """Add a block's description to `structure`, under its class name and its number in depth-first order."""
    described: Structure = {"orig_name": block.name}
    structure[f"{type(block).__name__.lower()}{counter[0]}"] = described
    described |= block._saved_graph()
    children = described["children"] = {}
    for name, child in block._children.items():
        counter[0] += 1
        children[child.name] = name
        _describe(child, counter, described)


def _restore(block: Block, counter: list[int], structure: Structure, file: Path) -> None:
    key = f"{type(block).__name__.lower()}{counter[0]}"
    described = structure.get(key) if isinstance(structure, dict) else None
    if not isinstance(described, dict) or not isinstance(described.get("children"), dict):
        raise ValueError(f"{file} was not saved from a block of this structure: it has no {key}")
    block._name = str(described.get("orig_name"))
    if described.get("hybridized"):
        try:
            block._restore_graph(described)
        except (KeyError, TypeError, MXNetError) as error:
            raise ValueError(f"{file}: the graph of {key} is damaged ({error})") from cause_of(error)
    _rename_parameters(block)
    for child in block._children.values():
        counter[0] += 1
        _restore(child, counter, described, file)
    _rename_children(block, described["children"], file)


def _rename_parameters(block: Block) -> None:
    """Change the prefix of the block's own parameters to its new name."""
    params = block.params
    renamed = {f"{block.name}_{name[len(params.prefix) :]}": param for name, param in params.items()}
    params._params.clear()
    params._params.update(renamed)


def _rename_children(block: Block, names: dict[str, str], file: Path) -> None:
    missing = [child.name for child in block._children.values() if not isinstance(names.get(child.name), str)]
    if missing:
        raise ValueError(f"{file} was not saved from a block of this structure: {block.name} has no {missing[0]}")
    renamed = {names[child.name]: child for child in block._children.values()}
    block._children.clear()
    block._children.update(renamed)
