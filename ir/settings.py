"""Every switch that mxforge reads from the environment, typed, in one place.

`settings()` reads the environment once; tests and tools that change it call `settings.cache_clear()`.
docs/debugging.md lists the same switches, and a test compares the two.
"""

from __future__ import annotations

import os
from dataclasses import fields
from functools import cache
from pathlib import Path

from .lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """The switches. Field `num_threads` is read from `MXFORGE_NUM_THREADS`; an empty string counts as unset."""

    debug: int = 0  # 0-5: compilations, launches, graphs, kernels and source, assembly
    dump: Path | None = None  # folder that receives a numbered file for each stage of each compilation
    verify: bool = False  # verify the graph after each pass and each kernel
    target: str = "cpu"  # cpu, mlir (through upstream MLIR) or reference (interpreted)
    mlir_pipeline: str = ""  # passes of upstream MLIR that replace those of the target mlir
    cpu: str = "host"  # processor to compile for: host, x86-64-v3 or x86-64-v4
    tuning: Path | None = None  # file of tuned schedules; off: use none, not even those of the disk cache
    compile_processes: int = 0  # compile kernels for GPUs; 0: one for each core, 1: none but this process
    matmul: str = ""  # float32, tf32, bf16x3 or exact: how GPUs multiply float32 numbers; see ir/precision.py
    communication_seconds: int = 600  # how long a worker waits for the others before it raises an error
    quiet: bool = False  # print no line while a compilation takes longer than a second
    num_threads: int = 0  # threads of the pool; 0: OMP_NUM_THREADS, else the cores available to this process
    cache: bool = True  # keep compiled code on disk
    cache_dir: Path | None = None  # default: $XDG_CACHE_HOME/mxforge or ~/.cache/mxforge
    cache_size: int = 2048  # maximum size of the disk cache in MiB


VARIABLES = tuple(f"MXFORGE_{field.name.upper()}" for field in fields(Settings))
"""The names of all variables."""

_TRUE = frozenset(("1", "true", "yes", "on"))
_FALSE = frozenset(("0", "false", "no", "off"))


def _parse(name: str, type: str, text: str) -> object:
    if type == "bool":
        if text.lower() not in _TRUE | _FALSE:
            raise ValueError(f"{name}={text!r} is not a truth value (use 1 or 0)")
        return text.lower() in _TRUE
    if type == "int":
        if not text.isdecimal():
            raise ValueError(f"{name}={text!r} is not a whole number")
        return int(text)
    return Path(text) if type.startswith("Path") else text


def unknown_variables() -> list[str]:
    """The variables named MXFORGE_* in the environment that are no switch, such as misspelled ones."""
    return sorted(name for name in os.environ if name.startswith("MXFORGE_") and name not in VARIABLES)


@cache
def settings() -> Settings:
    """The switches at the first call; see `read_settings`."""
    return read_settings()


def read_settings() -> Settings:
    """The switches in the current environment; ValueError names a variable with an invalid value."""
    values: dict[str, object] = {}
    for field in fields(Settings):
        variable = f"MXFORGE_{field.name.upper()}"
        text = os.environ.get(variable, "")
        if text:
            values[field.name] = _parse(variable, str(field.type), text)
    return Settings(**values)  # type: ignore[arg-type]
