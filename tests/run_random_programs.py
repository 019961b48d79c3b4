"""Runs random programs in every form and compares them with the reference target.

    python tests/run_random_programs.py --first 0 --count 5000 --processes 2
    python tests/run_random_programs.py --gradients --first 0 --count 20000 --processes 2

Each program runs eagerly, in a hybridized block, in a bound executor, and bound again from the disk cache: each twice,
then with one thread. With `--gradients` the programs have backward passes, and run in a Module too; the reference
target computes in float64 then, and finite differences check its gradients. `--target mlir` compiles through upstream
MLIR, `--target gpu` runs on a simulated GPU. MXFORGE_CPU=x86-64-v3 compiles for processors without AVX-512. A program
that fails is printed with its seed; `--first SEED --count 1` repeats it. The exit status is 1 if any failed.
"""

from __future__ import annotations

import argparse
import os
import pickle
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SIMULATED = "MXFORGE_TESTS_ON_SIMULATED_GPU"
"""The variable with which the processes that run programs use a simulated GPU."""
PROGRESS = 500
"""After how many programs a line reports how many failed."""


def reference_programs(first: int, count: int, *, gradients: bool = False) -> Iterator[object]:
    """The programs of these seeds, made by a process that interprets core with NumPy; a text for an error."""
    command = [*_command(gradients), "--make", "--first", str(first), "--count", str(count)]
    environment = {**os.environ, "MXFORGE_TARGET": "reference"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        for _ in range(count):
            yield pickle.load(process.stdout)


def _command(gradients: bool) -> list[str]:
    return [sys.executable, __file__, *(["--gradients"] if gradients else [])]


def _make(first: int, count: int, gradients: bool) -> None:
    make = _maker(gradients)
    for seed in range(first, first + count):
        try:
            made = make(seed)
        except Exception:
            made = traceback.format_exc()
        pickle.dump(made, sys.stdout.buffer)


def _maker(gradients: bool) -> Callable[[int], object]:
    """The function that makes the program of a seed."""
    if gradients:
        from random_gradient_maker import make_program as make_with_gradients

        return make_with_gradients
    from random_extents import resized
    from random_program_steps import make_program

    def make(seed: int) -> object:
        program = make_program(seed)
        return replace(program, resized=resized(program))

    return make


def checker(gradients: bool) -> Callable[[Any], None]:
    """The function that runs a program in every form."""
    if gradients:
        from random_gradient_forms import check as check_with_gradients

        return check_with_gradients
    from random_program_forms import check

    return check


def _on_simulated_gpu() -> None:
    """Make the current context of this thread a simulated GPU. The host keeps its own target."""
    import mxforge as mx
    from mxforge.runtime import devices

    devices.PROVIDERS["gpu"] = "support.simulated_gpu"
    mx.gpu(0).__enter__()


def _check(first: int, count: int, gradients: bool) -> int:
    """Run the programs in this process; prints each seed before its run, and failures."""
    if os.environ.get(SIMULATED):
        _on_simulated_gpu()
    check = checker(gradients)
    failed = 0
    for seed, program in enumerate(reference_programs(first, count, gradients=gradients), first):
        print(f"seed {seed}", flush=True)
        try:
            if isinstance(program, str):
                raise AssertionError(program)
            check(program)
        except Exception:
            failed += 1
            print(f"FAILED {program}\n{traceback.format_exc(limit=-3)}", flush=True)
    return 1 if failed else 0


def _supervise(first: int, count: int, gradients: bool) -> int:
    """Run the programs in a child process; after a crash, continue after the program that crashed. Returns the number
    of failures."""
    failed, end = 0, first + count
    while first < end:
        command = [*_command(gradients), "--check", "--first", str(first), "--count", str(end - first)]
        seed = first - 1
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            for line in child.stdout:
                if line.startswith("seed "):
                    seed = int(line.split()[1])
                    if seed % PROGRESS == 0:
                        print(f"at {seed}: {failed} failed", flush=True)
                    continue
                failed += line.startswith("FAILED")
                print(line, end="", flush=True)
        if child.returncode in (0, 1) and seed == end - 1:
            break
        seed = max(seed, first)  # it can end before it prints a seed
        print(f"FAILED program {seed}: the process ended with status {child.returncode}", flush=True)
        failed, first = failed + 1, seed + 1
    return failed


def _share(first: int, count: int, processes: int, gradients: bool) -> int:
    """Run the programs in several processes, each with its own compile cache."""
    shares = [(first + count * i // processes, first + count * (i + 1) // processes) for i in range(processes)]
    if processes == 1:
        with tempfile.TemporaryDirectory(prefix="mxforge-random-") as cache:
            os.environ.update(MXFORGE_CACHE_DIR=cache, MXFORGE_VERIFY=os.environ.get("MXFORGE_VERIFY", "1"))
            return _supervise(first, count, gradients)
    commands = [[*_command(gradients), "--first", str(a), "--count", str(b - a), "--processes", "1"] for a, b in shares]
    children = [subprocess.Popen(c) for c in commands]
    return sum(child.wait() for child in children)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1000, help="how many programs")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument(
        "--target", choices=("cpu", "mlir", "gpu"), help="gpu is a simulated one; default: MXFORGE_TARGET"
    )
    parser.add_argument("--gradients", action="store_true", help="programs with backward passes")
    parser.add_argument("--make", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.filterwarnings("ignore", ".* is not used by any computation")
    if options.target == "gpu":
        os.environ.update({SIMULATED: "1", "MXFORGE_COMPILE_PROCESSES": "1"})
    elif options.target:
        os.environ["MXFORGE_TARGET"] = options.target
    if options.make:
        _make(options.first, options.count, options.gradients)
        return 0
    if options.check:
        return _check(options.first, options.count, options.gradients)
    failed = _share(options.first, options.count, options.processes, options.gradients)
    if options.processes > 1 or not failed:
        print(f"{options.count} programs from {options.first}: {'some failed' if failed else 'all agree'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.path.insert(0, str(HERE))
    sys.exit(main())
