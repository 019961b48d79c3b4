"""`mxforge exec`: runs a Python program for which `mxnet` is mxforge.

The program gets an interpreter of its own in place of this process, as `python PROGRAM ...` would run it, with a
package `mxnet` on PYTHONPATH; the processes that it starts inherit that.
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
    """Never returns: the interpreter takes this process over."""
    program: list[str] = options.program
    if not program:
        raise UsageError("exec needs a program: a file, -m MODULE or -c CODE, then its arguments")
    if not program[0].startswith("-") and not Path(program[0]).exists():
        raise UsageError(f"{program[0]}: no such file")
    sys.stdout.flush()
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    os.execve(sys.executable, [sys.executable, *flags, *program], environment())


def environment() -> dict[str, str]:
    """This process's environment with the folder of the package `mxnet` first on PYTHONPATH."""
    paths = [str(SHIM), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}
