"""`mxforge exec`: runs a Python program with mxforge as the package `mxnet`.

A new interpreter replaces this process and runs the program as `python PROGRAM ...` would, with a package `mxnet` on
PYTHONPATH, which processes that the program starts inherit.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from .errors import UsageError

SHIM = Path(__file__).resolve().parents[1] / "frontend" / "namespace" / "shim"


def run(options: argparse.Namespace) -> int:
    """Run the program. Does not return: the new interpreter replaces this process."""
    program: list[str] = options.program
    if not program:
        raise UsageError("exec requires a program: a file, -m MODULE or -c CODE, then its arguments")
    if not program[0].startswith("-") and not Path(program[0]).exists():
        raise UsageError(f"{program[0]}: no such file")
    sys.stdout.flush()
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    os.execve(sys.executable, [sys.executable, *flags, *program], environment())


def environment() -> dict[str, str]:
    """This process's environment with the folder of the package `mxnet` first on PYTHONPATH."""
    paths = [str(SHIM), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}
