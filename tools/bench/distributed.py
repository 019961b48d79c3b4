"""Measures processes that MPI connects on this machine (`--suite distributed`)."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from ..errors import ToolError
from .linked_hosts import LinkedHosts, NoHosts, linked_hosts

_WORKER = "mxforge.tools.bench.distributed_worker"
_TRAININGS = (("resnet18_v1", 16, 96, 1.0), ("resnet18_v1", 16, 96, 10.0))
"""Network, batch of a worker, size of images, and Gbit/s of the link."""


def measure_distributed(threads: int, torch: str | None) -> int:
    """Print the tables, with PyTorch's gloo if its interpreter is given. ToolError if a process fails."""
    gloo = f" {'gloo':>12} {'ratio':>6}" if torch is not None else ""
    print(f"{'workers':>7} {'bytes':>10} {'allreduce':>12} {'of MPI':>12} {'ratio':>6}{gloo}")
    for workers in (2, 4):
        rows = measured_by_workers(workers, 1, "allreduce")
        peer = {} if torch is None else _of_gloo(torch, workers, [row["bytes"] for row in rows])
        for row in rows:
            nbytes, own = row["bytes"], row["mxforge"]
            others = [row["mpi"], *([peer[nbytes]] if peer else [])]
            shown = " ".join(f"{_us(other)} {own / other:6.2f}" for other in others)
            print(f"{workers:7} {nbytes:10} {_us(own)} {shown}")
    keys = measured_by_workers(2, 1, "keys")
    ratio = keys["pushpull"] / keys["allreduce"]
    print(f"\npushpull of {keys['keys']} keys of {keys['bytes']} bytes together: {_us(keys['pushpull'])}")
    print(f"one allreduce of so many bytes: {_us(keys['allreduce'])}, ratio {ratio:.2f}")
    _measure_trainings(max(1, threads // 2))
    return 0


def _measure_trainings(threads: int) -> None:
    """Print what is hidden of sums over links, in network namespaces if the system allows them, else simulated."""
    print(f"\n{'training step':24} {'link':>16} {'alone':>8} {'after':>8} {'overlapped':>11} {'hidden':>7} {'bits':>6}")
    for name, *numbers, gbits in _TRAININGS:
        arguments = ("training", name, *map(str, numbers))
        try:
            with linked_hosts(2, gbits) as hosts:
                row, kind = measured_by_workers(2, threads, *arguments, "0", hosts=hosts), "network"
        except NoHosts as error:
            print(f"mxforge: links are simulated: {error}", file=sys.stderr)
            row, kind = measured_by_workers(2, threads, *arguments, str(gbits)), "simulated"
        times = (1e3 * row[kind] for kind in ("alone", "after", "overlapped"))
        shown = "  ".join(f"{time:5.0f} ms" for time in times)
        same = "same" if row["same_bits"] else "DIFFER"
        link = f"{gbits:g} Gb/s {kind}"
        print(f"{name:15} batch {row['batch']} {link:>17} {shown} {100 * row['hidden']:8.0f} % {same:>6}")


def _of_gloo(python: str, workers: int, sizes: list[int]) -> dict[int, float]:
    """Seconds of a sum by PyTorch's gloo, by its bytes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    rest = [str(workers), str(port), ",".join(map(str, sizes))]
    program = str(Path(__file__).with_name("distributed_torch.py"))
    processes = [
        subprocess.Popen([python, program, str(rank), *rest], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for rank in range(workers)
    ]
    texts = [process.communicate() for process in processes]
    for process, (_, errors) in zip(processes, texts, strict=True):
        if process.returncode:
            raise ToolError(f"torch: {(errors.strip() or 'no message').splitlines()[-1]}")
    return {int(nbytes): seconds for nbytes, seconds in json.loads(texts[0][0]).items()}


def _us(seconds: float) -> str:
    return f"{1e6 * seconds:9.1f} us"


def measured_by_workers(workers: int, threads: int, *arguments: str, hosts: LinkedHosts | None = None) -> Any:
    """What worker 0 prints. Workers are processes of this machine, or one on each of the hosts."""
    command = [sys.executable, "-m", "mxforge", "launch", "-n", str(workers)]
    environment = {**os.environ, "MXFORGE_NUM_THREADS": str(threads)}
    if hosts is not None:
        command = [*hosts.prefix, *command, "--hostfile", hosts.hostfile]
        environment |= hosts.environment
    command += [sys.executable, "-m", _WORKER, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ToolError(f"measured processes failed: {(done.stderr.strip() or 'no message').splitlines()[-1]}")
    text = next(line for line in done.stdout.splitlines() if line.startswith("[0]")).removeprefix("[0]").lstrip()
    return json.JSONDecoder().raw_decode(text)[0]
