"""A small part of the tests under NVIDIA's compute-sanitizer, which checks each access of memory on the GPU."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

from .table import run

TESTS = ("frontend/test_gpu_loops", "runtime/test_launched_program")
_FOLDERS = ("/usr/local/cuda/bin", "/usr/local/cuda/compute-sanitizer", "/opt/nvidia/cuda/bin")
_FOUND_ERRORS = 9


def memcheck(seconds: float) -> dict[str, Any]:
    """{"clean", "output"}, or {"skipped": reason}."""
    tool = shutil.which("compute-sanitizer") or _in_folders()
    if tool is None:
        return {"skipped": "compute-sanitizer is not installed (it is part of the CUDA toolkit)"}
    command = [tool, "--tool", "memcheck", "--error-exitcode", str(_FOUND_ERRORS), "--target-processes", "all"]
    command += [sys.executable, "-m", "pytest", "-q", "--gpus", "hardware", *(f"tests/{file}.py" for file in TESTS)]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # as in hardware.py
    lines, error = run(command, seconds, environment)
    output = "".join(lines)
    return {"clean": not error, "error": error, "output": output.strip()[-1500:]}


def _in_folders() -> str | None:
    paths = (Path(folder) / "compute-sanitizer" for folder in _FOLDERS)
    return next((str(path) for path in paths if path.is_file()), None)
