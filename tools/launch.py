"""`mxforge launch`: starts a program in several processes, which MPI connects, and ends all of them when one fails.

The launcher is the `mpiexec` of MPICH or Open MPI. Python programs run under mpi4py's runner, which ends the job if an
exception or `sys.exit` ends one process: the others would wait for it.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from .errors import ToolError, UsageError
from .exec_program import environment

_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")
"""Options of Python whose value is the next argument."""
_WORKER = (sys.executable, "-I", "-S", str(Path(__file__).with_name("worker.py")))
_FAILED = re.compile(rb"mxforge: worker \d+(?: of \d+)? ended with status (\d+)")
_PATIENCE = 0.5
"""Seconds for which mpiexec can end the job itself."""
_THREADS = ("MXFORGE_NUM_THREADS", "OMP_NUM_THREADS")
_IGNORED = {
    "num_servers": "there are no servers: all workers keep the values",
    "sync_dst_dir": "the workers' folders must have the same files already",
}


def run(options: argparse.Namespace) -> int:
    """Start the program; returns the exit status of the first process that failed, or 0."""
    program: list[str] = options.program[1:] if options.program[:1] == ["--"] else options.program
    if not program:
        raise UsageError("launch requires a program: python FILE.py, FILE.py or any command, and its arguments")
    for name, reason in _IGNORED.items():
        if getattr(options, name) is not None:
            print(f"mxforge: --{name.replace('_', '-')} is ignored: {reason}", file=sys.stderr)
    hosts = options.hostfile
    if hosts is not None and not Path(hosts).is_file():
        raise UsageError(f"--hostfile {hosts}: no such file")
    if options.launcher in ("yarn", "sge"):
        raise UsageError(
            f"--launcher {options.launcher} is not supported: start the program with the scheduler's mpiexec"
        )
    command = [*_mpiexec(options.num_workers, hosts, options.env), *_WORKER, *_under_runner(program)]
    threads = None if hosts is not None else max(1, len(os.sched_getaffinity(0)) // options.num_workers)
    status = 0
    for attempt in range(options.restarts + 1):
        if attempt:
            print(f"mxforge: start {attempt + 1} of at most {options.restarts + 1}", file=sys.stderr, flush=True)
        status = _run(command, threads)
        if status in (0, 130):
            break
    return status


def _run(command: Sequence[str], threads: int | None) -> int:
    """The exit status of a command, 130 after Ctrl-C. Processes of one machine share its cores, unless the environment
    has a number of threads."""
    variables = environment()
    if threads is not None and not any(name in variables for name in _THREADS):
        variables[_THREADS[0]] = str(threads)
    with subprocess.Popen(command, env=variables, stderr=subprocess.PIPE) as process:
        try:
            failed = _forward(process)
            status = process.wait()
        except KeyboardInterrupt:  # mpiexec received the signal too, and ends the processes
            process.wait()
            return 130
    if failed is not None:
        return failed
    return 128 - status if status < 0 else status


def _forward(process: subprocess.Popen[bytes]) -> int | None:
    """Print the errors of mpiexec and its processes until all have ended. Ends mpiexec if a worker failed. Returns the
    status of the first worker that failed, None if none did."""
    assert process.stderr is not None
    failed: int | None = None
    last = b""
    while text := os.read(process.stderr.fileno(), 1 << 16):
        sys.stderr.buffer.write(text)
        sys.stderr.flush()
        last = (last + text)[-(1 << 16) :]
        failure = _FAILED.search(last) if failed is None else None
        if failure is not None:
            failed = int(failure[1])
            threading.Thread(target=_end, args=(process,), daemon=True).start()
    return failed


def _end(process: subprocess.Popen[bytes]) -> None:
    """End mpiexec, which ends its processes, unless it ends itself."""
    for end in (process.terminate, process.kill):
        try:
            process.wait(_PATIENCE)
            return
        except subprocess.TimeoutExpired:
            end()


def _mpiexec(workers: int, hosts: str | None, variables: Sequence[str]) -> list[str]:
    """The launcher's command for so many processes. ToolError with what to install if there is none."""
    beside = Path(sys.executable).with_name("mpiexec")
    program = str(beside) if beside.is_file() else shutil.which("mpiexec")
    if program is None or importlib.util.find_spec("mpi4py") is None:
        missing = "mpiexec" if program is None else "the package mpi4py"
        raise ToolError(f"{missing} is not installed: pip install 'mxforge[mpi]', or MPICH or Open MPI with mpi4py")
    version = subprocess.run([program, "--version"], check=False, capture_output=True, text=True).stdout
    is_open = "open" in version.lower() and "HYDRA" not in version
    command = [program, "-n", str(workers)]
    command += ["--oversubscribe"] if is_open else []
    if hosts is not None:
        command += ["--hostfile" if is_open else "-f", hosts]
    for variable in variables:
        name, equals, value = variable.partition(":" if ":" in variable else "=")
        if not name or not equals:
            raise UsageError(f"--env {variable}: not of the form NAME:VALUE")
        command += ["-x", f"{name}={value}"] if is_open else ["-env", name, value]
    return command


def _under_runner(program: Sequence[str]) -> list[str]:
    """The command of a program; Python programs run under mpi4py's runner."""
    first, rest = program[0], list(program[1:])
    if Path(first).name == "mxforge" and rest[:1] == ["exec"]:
        return [sys.executable, "-m", "mpi4py", *rest[1:]]
    if first.endswith(".py"):
        return [sys.executable, "-m", "mpi4py", *program]
    if not Path(first).name.startswith("python"):
        return list(program)
    flags = 0
    while flags < len(rest) and rest[flags].startswith("-") and rest[flags] not in ("-m", "-c", "-"):
        flags += 2 if rest[flags] in _WITH_VALUE else 1
    if rest[flags : flags + 2] == ["-m", "mpi4py"]:
        return list(program)
    return [first, *rest[:flags], "-m", "mpi4py", *rest[flags:]]
