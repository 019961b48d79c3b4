"""The precompiled code of the thread pool: up to date, for each architecture, and compiled where it is missing."""

from __future__ import annotations

import mmap
import tomllib
from pathlib import Path

import pytest
from mxforge.codegen.elf.reader import read_architecture
from mxforge.codegen.llvm.support import support_module
from mxforge.codegen.statistics import statistics
from mxforge.runtime.cache import DiskCache
from mxforge.runtime.host.machine import host_target, smallest_target
from mxforge.runtime.host.support_object import OBJECTS, object_name, support_object

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_package_has_the_object_of_the_present_text(machine: str) -> None:
    triple = smallest_target(machine).triple
    data = OBJECTS / object_name(triple, support_module(triple, 4096))
    assert data.is_file(), "run: python -m mxforge.runtime.host.support_object"
    assert read_architecture(data.read_bytes()).name.lower().replace("-", "_") == machine
    assert len(list(OBJECTS.glob(f"{machine}-*.o"))) == 1


def test_the_wheel_contains_the_objects() -> None:
    packaged = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    assert packaged["mxforge.runtime.host"] == ["objects/*.o", "objects/*.kernels"]


def test_other_machines_compile_it_once(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "cache", enabled=True)
    compiled = support_object(host_target(), 2 * mmap.PAGESIZE, cache, tmp_path)
    assert compiled.startswith(b"\x7fELF")
    before = statistics.modules
    assert support_object(host_target(), 2 * mmap.PAGESIZE, cache, tmp_path) == compiled
    assert statistics.modules == before
