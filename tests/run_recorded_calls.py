"""Runs all recorded calls and gradients of MXNet's operators, compiled, and compares them with the records.

    python tests/run_recorded_calls.py --target mlir --processes 2
    python tests/run_recorded_calls.py --target mlir BatchNorm Pooling

All calls of an operator are one program, and all its gradients two. `--target mlir` compiles through upstream MLIR,
`--target gpu` for a simulated GPU. With `--any-extents` the calls have the kernels of eager calls, which take extents
as arguments.
Each operator runs in a process of its own, so that a crash is a failure of the operator. The exit status is 1 if any
failed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import traceback
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import NamedTuple

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).resolve().parent / "data"))

from compiled import TARGETS, compiled, run_program
from differences import WRONG_IN_MXNET, other_result
from goldens import Golden, Gradient, gradient_goldens, operator_goldens, swept_goldens, swept_gradients
from mxforge.ir.settings import settings
from mxforge.passes.manager import Options
from recorded_gradients import differences, is_compared, on_cpu
from sweeps import is_refused, together

PROGRESS = 50
"""After how many programs a line reports how many results differ."""


class Work(NamedTuple):
    """What an operator's process does: `run` returns the differences of `cases` recorded cases."""

    name: str
    cases: int
    run: Callable[[], list[str]]


def works(static: bool = True) -> list[Work]:
    """The calls of each operator and mode, and the gradients of each operator; without `static` calls alone, for any
    extents."""
    calls: dict[tuple[str, bool], list[Golden]] = defaultdict(list)
    for golden in (*operator_goldens(), *swept_goldens()):
        if not (is_refused(golden) or other_result(golden) or str(golden) in WRONG_IN_MXNET):
            calls[golden.op, golden.train].append(golden)
    gradients: dict[str, list[Gradient]] = defaultdict(list)
    for gradient in chain(gradient_goldens(), *swept_gradients().values()) if static else ():
        if is_compared(gradient):
            gradients[gradient.op].append(gradient)
    return [
        *(
            Work(f"{op}{' in training mode' * train}", len(listed), partial(_differences, listed, train, static))
            for (op, train), listed in calls.items()
        ),
        *(
            Work(f"gradients of {op}", len(listed), partial(differences, listed, on_cpu))
            for op, listed in gradients.items()
        ),
    ]


def _differences(calls: Sequence[Golden], train: bool, static: bool) -> list[str]:
    joined = together("calls", calls, train, updates=True)
    return joined.differences(run_program(compiled(joined.graph, Options(train, static)), joined.inputs))


def _send(work: Work, sender: Connection) -> None:
    try:
        sender.send(work.run())
    except Exception:
        sender.send([traceback.format_exc(limit=-3)])


def results(works: Sequence[Work], processes: int) -> Iterator[tuple[Work, list[str]]]:
    """What is wrong in each piece of work, each of which has a process."""
    context = multiprocessing.get_context("fork")
    rest, running = list(works), dict[Connection, tuple[Work, ForkProcess]]()
    while rest or running:
        while rest and len(running) < processes:
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=_send, args=(rest[0], sender))
            process.start()
            sender.close()
            running[receiver] = rest.pop(0), process
        for receiver in wait(list(running)):
            assert isinstance(receiver, Connection)
            work, process = running.pop(receiver)
            try:
                yield work, receiver.recv()
            except EOFError:
                process.join()
                yield work, [f"the process ended with status {process.exitcode}"]
            process.join()


def use_target(target: str) -> None:
    """Compile for this target from now on, in this process and its children."""
    os.environ.update(MXFORGE_TARGET=target, MXFORGE_COMPILE_PROCESSES="1")
    settings.cache_clear()  # modules read them when they are imported


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("operators", nargs="*", help="only these")
    parser.add_argument("--target", choices=TARGETS, help="as MXFORGE_TARGET, which is the default")
    parser.add_argument("--any-extents", action="store_true", help="the kernels of eager calls")
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    if options.target:
        use_target(options.target)
    warnings.simplefilter("ignore")
    chosen = [
        w for w in works(not options.any_extents) if not options.operators or w.name.split()[-1] in options.operators
    ]
    failed = 0
    for number, (work, wrong) in enumerate(results(chosen, options.processes), 1):
        failed += len(wrong)
        for line in wrong:
            print(f"FAILED {work.name}: {line}", flush=True)
        if number % PROGRESS == 0:
            print(f"{number} of {len(chosen)} programs: {failed} differ", flush=True)
    print(f"{sum(w.cases for w in chosen)} cases in {len(chosen)} programs: {failed} differ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
