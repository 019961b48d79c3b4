"""Ends one worker of a training job at a random moment, again and again, and checks that the job ends.

    python tests/run_failing_jobs.py --kills 100 --exceptions 100 --workers 3 --seed 0

A kill is SIGKILL; an exception is raised by a handler of SIGUSR1. Each job must end within `--limit` seconds, name the
worker, return a status other than 0, and leave no process.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

PROGRAM = """
import signal


def fail(*_):
    raise RuntimeError("an exception at a random moment")


signal.signal(signal.SIGUSR1, fail)
import mxnet as mx
import numpy as np

store = mx.kv.create("dist_sync")
net = mx.gluon.nn.HybridSequential()
net.add(mx.gluon.nn.Dense(300, activation="relu", in_units=200), mx.gluon.contrib.nn.SyncBatchNorm(in_channels=300))
net.add(mx.gluon.nn.Dense(4, in_units=300))
net.initialize()
net.hybridize()
trainer = mx.gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01}, kvstore=store)
loss_of = mx.gluon.loss.SoftmaxCrossEntropyLoss()
x, y = mx.nd.array(np.random.rand(32, 200)), mx.nd.zeros((32,))
while True:
    with mx.autograd.record():
        loss = loss_of(net(x), y)
    loss.backward()
    trainer.step(32 * store.num_workers)
    loss.wait_to_read()
"""
LATEST = 4.0
"""Seconds after the workers were started until the last moment at which one fails."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--exceptions", type=int, default=100)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--limit", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    jobs = [signal.SIGKILL] * options.kills + [signal.SIGUSR1] * options.exceptions
    generator, failures, times = random.Random(options.seed), 0, list[float]()
    for number, kind in enumerate(jobs):
        moment, worker = generator.uniform(0, LATEST), generator.randrange(options.workers)
        seconds, problems = failing_job(options.workers, kind, worker, moment, options.limit)
        times.append(seconds)
        failures += bool(problems)
        shown = "; ".join(problems) or "ok"
        print(f"{number:4} {kind.name} of worker {worker} after {moment:.2f} s: {seconds:.2f} s {shown}", flush=True)
    print(f"{len(jobs)} jobs, {failures} failures; {max(times):.2f} s at most until a job ended")
    return 1 if failures else 0


def failing_job(
    workers: int, kind: signal.Signals, worker: int, moment: float, limit: float
) -> tuple[float, list[str]]:
    """Start a job, and end a worker at this moment. Returns the seconds until the job ended, and what was wrong."""
    mark = uuid.uuid4().hex
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, f"{mark}.py")
        program.write_text(PROGRAM)
        command = [sys.executable, "-m", "mxforge", "launch", "-n", str(workers), sys.executable, program]
        environment = {**os.environ, "MXFORGE_NUM_THREADS": "1", "MXFORGE_FAILING_JOB": mark}
        job = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        begin = 0.0
        try:
            target = _wait_for(mark, worker, job)
            time.sleep(moment)
            begin = time.monotonic()
            os.kill(target, kind)
            try:
                _, text = job.communicate(timeout=10 * limit)
            except subprocess.TimeoutExpired:
                job.terminate()
                return 10 * limit, [f"the job did not end: {job.communicate()[1][-600:]}"]
            seconds = time.monotonic() - begin
        finally:
            job.kill()
            while _processes(mark) and time.monotonic() < begin + limit:
                time.sleep(0.01)
            left = [pid for pid in _processes(mark) if pid != job.pid]
            for pid in left:
                os.kill(pid, signal.SIGKILL)
    problems = [f"took {seconds:.2f} s"] * (seconds > limit) + ["status 0"] * (job.returncode == 0)
    problems += [f"left {len(left)} processes"] * bool(left)
    if f"worker {worker} " not in text:
        problems.append(f"does not name the worker: {text[-600:]}")
    return seconds, problems


def _wait_for(mark: str, worker: int, job: subprocess.Popen[str]) -> int:
    """The process of a worker once it runs Python."""
    for _ in range(6000):
        for pid, variables in _processes(mark).items():
            ranks = [v.partition("=")[2] for v in variables if v.startswith(("PMI_RANK=", "OMPI_COMM_WORLD_RANK="))]
            if ranks == [str(worker)] and _is_program(pid):
                return pid
        if job.poll() is not None:
            raise RuntimeError(f"the job ended early: {job.communicate()[1]}")
        time.sleep(0.005)
    raise RuntimeError("no worker started")


def _is_program(pid: int) -> bool:
    """Whether this is the program itself, under mpi4py's runner."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[1:3] == [b"-m", b"mpi4py"]
    except OSError:
        return False


def _processes(mark: str) -> dict[int, list[str]]:
    """The processes of a job with their variables."""
    processes: dict[int, list[str]] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            variables = folder.joinpath("environ").read_bytes().decode(errors="replace").split("\0")
            state = folder.joinpath("stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if f"MXFORGE_FAILING_JOB={mark}" in variables and state != "Z":
            processes[int(folder.name)] = variables
    return processes


if __name__ == "__main__":
    sys.exit(main())
