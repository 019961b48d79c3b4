"""Every module of MXNet imports and has MXNet's names; absent names are listed with reasons."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import warnings
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from absent_names import is_absent
from mxforge.frontend.namespace.modules import ABSENT_MODULES

DATA = Path(__file__).resolve().parents[1] / "data"


@cache
def recorded() -> dict[str, Any]:
    return json.loads((DATA / "names.json").read_text())


PRESENT = [path for path in recorded()["names"] if path not in ABSENT_MODULES]


def module_at(path: str) -> ModuleType:
    return import_module(f"mxforge.{path}" if path else "mxforge")


def has(owner: Any, name: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some names are deprecated
        return hasattr(owner, name)


def differences(owner: Any, place: str, names: str) -> list[str]:
    """Names that neither exist nor are listed as absent, or both. Absent modules are attributes once imported."""
    listed = [name for name in names.split() if f"{place}.{name}" not in ABSENT_MODULES]
    return [name for name in listed if has(owner, name) == is_absent(place, name)]


@pytest.mark.parametrize("path", PRESENT)
def test_the_names_of(path: str) -> None:
    assert differences(module_at(path), path, recorded()["names"][path]) == []


@pytest.mark.parametrize("path", ABSENT_MODULES)
def test_names_of_absent_modules_raise_when_used(path: str) -> None:
    module = module_at(path)
    assert not hasattr(module, "nonsense")
    with pytest.raises(AttributeError, match=rf"module 'mxforge\.{re.escape(path)}' has no attribute 'nonsense': "):
        module.nonsense  # noqa: B018


def test_the_modules_that_an_import_loads() -> None:
    program = "import mxforge.as_mxnet, sys; print(*(name[6:] for name in sys.modules if name.startswith('mxnet.')))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert sorted(done.stdout.split()) == recorded()["loaded"].split()


def classes() -> list[str]:
    """The existing classes of existing modules."""
    places = [name.rpartition(".") for name in recorded()["members"]]
    return [f"{path}.{name}" for path, _, name in places if path in PRESENT and not is_absent(path, name)]


@pytest.mark.parametrize("name", classes())
def test_the_members_of(name: str) -> None:
    path, _, cls = name.rpartition(".")
    assert differences(getattr(module_at(path), cls), name, recorded()["members"][name]) == []


def exports(path: str) -> list[str]:
    """The names that `import *` imports from MXNet's module."""
    if path in recorded()["exports"]:
        return recorded()["exports"][path].split()
    return [name for name in recorded()["names"][path].split() if not name.startswith("_")]


@pytest.mark.parametrize("path", PRESENT)
def test_star_imports(path: str) -> None:
    found: dict[str, Any] = {}
    exec(f"from {module_at(path).__name__} import *", found)
    assert [
        name
        for name in exports(path)
        if name not in found and not is_absent(path, name) and f"{path}.{name}" not in ABSENT_MODULES
    ] == []
