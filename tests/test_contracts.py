"""The contracts of imports in pyproject.toml cover every file; `lint-imports` checks the imports themselves."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
SETTINGS: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
CONTRACTS: list[dict[str, Any]] = SETTINGS["contracts"]
LAYERED = {container: contract for contract in CONTRACTS for container in contract.get("containers", ())}
FLAT = {
    "mxforge.passes": "a pass imports what it needs of other passes",
    "mxforge.tools": "commands, which share what they need",
}
"""Folders whose files have no layers, with the reason."""


def folder_of(module: str) -> Path:
    return ROOT.joinpath(*module.split(".")[1:])


def listed(contract: dict[str, Any]) -> list[str]:
    """The modules of all layers, without signs for siblings."""
    return [name for layer in contract["layers"] for name in layer.replace("|", ":").replace(" ", "").split(":")]


def modules_in(folder: Path) -> set[str]:
    """The modules and packages in a folder. A folder without `__init__.py` is none."""
    files = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    return files | {path.parent.name for path in folder.glob("*/__init__.py")}


@pytest.mark.parametrize("container", LAYERED)
def test_every_module_is_in_one_layer(container: str) -> None:
    contract = LAYERED[container]
    names = listed(contract)
    assert contract["exhaustive"] and len(names) == len(set(names))
    assert set(names) == modules_in(folder_of(container))


def test_every_folder_has_layers_or_a_reason_for_none() -> None:
    folders = {f"mxforge.{name}" for name in listed(LAYERED["mxforge"]) if folder_of(f"mxforge.{name}").is_dir()}
    assert folders <= LAYERED.keys() | FLAT.keys() and not LAYERED.keys() & FLAT.keys()


def test_protected_modules_and_their_importers_exist() -> None:
    protected = [contract for contract in CONTRACTS if contract["type"] == "protected"]
    assert protected
    for contract in protected:
        for name in (*contract["protected_modules"], *contract["allowed_importers"]):
            path = folder_of(name)
            assert path.with_suffix(".py").is_file() or (path / "__init__.py").is_file(), name
