"""Measures processes that MPI connects on this machine (`--suite distributed`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from ..errors import ToolError

_WORKER = "mxforge.tools.bench.distributed_worker"
_TRAININGS = (("resnet18_v1", 16, 96, 1.0), ("resnet18_v1", 16, 96, 10.0))
"""Network, batch of a worker, size of images, and Gbit/s of the link."""


def measure_distributed(threads: int) -> int:
    """Print the tables. ToolError if a process fails."""
    print(f"{'workers':>7} {'bytes':>10} {'allreduce':>12} {'of MPI':>12} {'ratio':>6}")
    for workers in (2, 4):
        for row in _measured(workers, 1, "allreduce"):
            ratio = row["mxforge"] / row["mpi"]
            print(f"{workers:7} {row['bytes']:10} {_us(row['mxforge'])} {_us(row['mpi'])} {ratio:6.2f}")
    keys = _measured(2, 1, "keys")
    ratio = keys["pushpull"] / keys["allreduce"]
    print(f"\npushpull of {keys['keys']} keys of {keys['bytes']} bytes together: {_us(keys['pushpull'])}")
    print(f"one allreduce of so many bytes: {_us(keys['allreduce'])}, ratio {ratio:.2f}")
    print(f"\n{'training step':24} {'link':>10} {'alone':>9} {'after':>9} {'overlapped':>11} {'hidden':>7} {'bits':>6}")
    for name, *numbers, gbits in _TRAININGS:
        row = _measured(2, max(1, threads // 2), "training", name, *map(str, numbers), str(gbits))
        times = (1e3 * row[kind] for kind in ("alone", "after", "overlapped"))
        shown = "  ".join(f"{time:5.0f} ms" for time in times)
        same = "same" if row["same_bits"] else "DIFFER"
        print(f"{name:17} batch {row['batch']} {gbits:5} Gb/s {shown} {100 * row['hidden']:10.0f} % {same:>6}")
    return 0


def _us(seconds: float) -> str:
    return f"{1e6 * seconds:9.1f} us"


def _measured(workers: int, threads: int, *arguments: str) -> Any:
    """What worker 0 prints."""
    command = [sys.executable, "-m", "mxforge", "launch", "-n", str(workers), sys.executable, "-m", _WORKER, *arguments]
    environment = {**os.environ, "MXFORGE_NUM_THREADS": str(threads)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ToolError(f"measured processes failed: {(done.stderr.strip() or 'no message').splitlines()[-1]}")
    text = next(line for line in done.stdout.splitlines() if line.startswith("[0]")).removeprefix("[0]").lstrip()
    return json.JSONDecoder().raw_decode(text)[0]
