"""`mxforge bench`: measures mxforge and its peers on the same inputs, in alternation."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...frontend.artifacts import write_atomically
from ...frontend.context import device_of
from ..contexts import context_of, is_gpu, target_text
from ..errors import ToolError, UsageError
from ..plots import check_plot, save_figure
from ..progress import Progress
from ..schemas.print_json import as_json
from .calls import measure_calls
from .distributed import measure_distributed
from .grammar import ALONE, DISTRIBUTED, MANY, ON_GPUS, ON_HOST, ONLY_ON_GPUS, OWN_REPORTS, WITH_PEERS
from .measure import Failure, Participant, measure
from .model_workloads import model_workloads
from .numpy_calls import measure_numpy
from .operator_report import measure_operators
from .plot import draw
from .report import EXPLANATION, Conditions, Measured, as_markdown, as_text, report, summary_as_text
from .scaling import measure_scaling
from .shapes import measure_shapes
from .workloads import Workload, suite_workloads

_STDOUT = Path("-")
_ROUNDED = 5e-2
"""The tolerance for weights in bfloat16, of which each differs by up to 2^-9 of itself. Outputs of trained networks
differ by up to 2e-2."""
_OF_MODELS = ("shapes", "batches", "inputs", "onnx", "torch", "epoch", "params", "allow_missing", "weights")
_OF_REPORTS = ("json", "markdown", "plot")
_OF_COMPARISONS = ("against", *_OF_REPORTS)
_NAMES = {"shapes": "input-shape", "batches": "batch", "inputs": "input"}


def run(options: argparse.Namespace) -> int:
    """Measure and report; returns status 1 if a program fails or differs by more than the tolerance, else 0."""
    _check(options)
    threads = options.thread_counts or (len(os.sched_getaffinity(0)),)
    if options.suite in ALONE:
        suites = {
            "calls": measure_calls,
            "numpy": measure_numpy,
            "scaling": measure_scaling,
            "shapes": measure_shapes,
        }
        return suites[options.suite](threads[0])
    if options.suite in WITH_PEERS:
        pythons = {peer: _python(peer, options.pythons) for peer in options.against}
        if options.suite == DISTRIBUTED:
            return measure_distributed(threads[0], pythons.get("torch"))
        return measure_operators(pythons, threads[0], options.repeat)
    done: list[Measured] = []
    status = 0
    try:
        for workload in suite_workloads(options.suite) if options.suite else model_workloads(options):
            for count in _usable(threads, workload):
                status = max(status, _measure(workload, count, options, done))
    finally:
        if done:
            _finish(done, options)
    return status


def _measure(workload: Workload, threads: int, options: argparse.Namespace, done: list[Measured]) -> int:
    """Measure once, report, and add the result to `done`. Returns the status."""
    ctx = options.ctx
    participants = [Participant("mxforge", sys.executable, _own_spec(workload, options), ctx)]
    participants += [Participant(e, _python(e, options.pythons), workload.specs[e], ctx) for e in options.against]
    rounds = options.weights == "bf16"
    name = f"{workload.name}, weights of mxforge in bf16" if rounds else workload.name
    least = max(workload.tolerance, _ROUNDED) if rounds else workload.tolerance
    tolerance = least if options.tolerance is None else options.tolerance
    try:
        with Progress("starting") as progress:
            outcome = measure(participants, list(workload.arrays.values()), options.repeat, threads, progress)
    except ToolError as error:
        return _say(str(error))
    conditions = Conditions(name, workload.shapes, workload.batch, threads, options.repeat, tolerance, _gpu(options))
    measured = Measured(conditions, outcome)
    if options.json != _STDOUT:
        print("\n" * bool(done) + as_text(measured), flush=True)
    known = {failure for earlier in done for failure in earlier.outcome.failures}
    done.append(measured)
    _write(done, options)
    return _judge(measured, known)


def _own_spec(workload: Workload, options: argparse.Namespace) -> Mapping[str, Any]:
    """The spec of mxforge itself. Peers have float32 weights, mxforge as its own peer too."""
    spec = workload.specs["mxforge"]
    return {**spec, "hybridize": {"weights": "bfloat16"}} if options.weights == "bf16" else spec


def _judge(measured: Measured, known: Collection[Failure]) -> int:
    """Report peers that failed for reasons that are not `known`, or whose results differ; returns the status."""
    tolerance = measured.conditions.tolerance
    for failure in measured.outcome.failures:
        if failure not in known:
            _say(failure.reason)
    status = 1 if measured.outcome.failures else 0
    for figures in measured.outcome.figures[1:]:
        if figures.difference is not None and not figures.difference <= tolerance:
            text = f"{figures.engine}'s results differ by {figures.difference:.1e}, more than {tolerance:.1e}"
            status = _say(text)
    return status


def _say(error: str) -> int:
    """Print an error; returns the status of a failure."""
    print(f"mxforge: error: {error}", file=sys.stderr)
    return 1


def _write(done: Sequence[Measured], options: argparse.Namespace) -> None:
    """Write the files of all measurements so far."""
    if options.json not in (None, _STDOUT):
        write_atomically(options.json, f"{as_json('bench', report(done))}\n".encode())
    if options.markdown is not None:
        write_atomically(options.markdown, as_markdown(done).encode())


def _finish(done: Sequence[Measured], options: argparse.Namespace) -> None:
    """Report what belongs to all measurements."""
    if options.json == _STDOUT:
        print(as_json("bench", report(done)))
    else:
        print(EXPLANATION)
        if len(done) > 1:
            print(f"\n{summary_as_text(done)}")
    if options.plot is not None:
        save_figure(draw(done), options.plot)


# --- options ----------------------------------------------------------------------------------------------------------


def _check(options: argparse.Namespace) -> None:
    """UsageError for options that contradict, ToolError for what cannot work: both before anything is measured."""
    if (options.model is None) == (options.suite is None):
        hint = " (a MODEL after --json is its FILE: put --json last)" if options.json and not options.model else ""
        raise UsageError(f"pass either a model or --suite{hint}")
    if options.suite is not None:
        _refuse(options, _OF_MODELS, "the inputs of a --suite are fixed")
    if options.suite in OWN_REPORTS:
        _check_own_report(options)
    _check_files(options)
    _check_context(options)
    for peer in options.pythons:
        if peer not in (*options.against, *(e.partition("-")[0] for e in options.against)):
            raise UsageError(f"--python {peer}: {peer} is not in --against")
    for engine in options.against:
        python = _python(engine, options.pythons)
        if shutil.which(python) is None:
            raise ToolError(f"{engine}: cannot run {python}: no such program (--python)")


def _check_own_report(options: argparse.Namespace) -> None:
    """Check the options of a suite with a report of its own."""
    refused = _OF_COMPARISONS if options.suite in ALONE else _OF_REPORTS
    _refuse(options, refused, f"--suite {options.suite} prints a report of its own")
    if len(options.thread_counts or ()) > 1:
        raise UsageError(f"--suite {options.suite} is measured with one number of --threads")
    for peer in options.against:
        known = WITH_PEERS[options.suite]
        if peer not in known:
            raise UsageError(f"{peer} cannot run this --suite; engines that can: mxforge, {', '.join(known)}")


def _check_context(options: argparse.Namespace) -> None:
    """UsageError for peers and suites that do not run on the device of `--ctx`."""
    on_gpu = is_gpu(options)
    for engine in options.against:
        if on_gpu and engine not in ON_GPUS:
            raise UsageError(f"{engine} runs on the CPU; peers on a GPU are {', '.join(ON_GPUS)}")
        if not on_gpu and engine in ONLY_ON_GPUS:
            raise UsageError(f"{engine} is a peer on GPUs: pass --ctx gpu")
    if on_gpu:
        if options.suite in (*OWN_REPORTS, *ON_HOST):
            raise UsageError(f"--suite {options.suite} measures the CPU: omit --ctx")
        context_of(options)


def _gpu(options: argparse.Namespace) -> str:
    """The GPU in reports; "" for the CPU."""
    return target_text(device_of(context_of(options))) if is_gpu(options) else ""


def _check_files(options: argparse.Namespace) -> None:
    """Check that the files of the report can be written."""
    for path in (options.json, options.markdown, options.plot):
        if path is not None and path.is_dir():
            raise ToolError(f"{path}: is a folder")
    if options.plot is not None:
        check_plot(options.plot)
        if options.suite in MANY and not options.against:
            raise UsageError("a --plot of several suites compares mxforge with peers: pass --against")


def _refuse(options: argparse.Namespace, names: Sequence[str], reason: str) -> None:
    for name in names:
        if getattr(options, name):
            raise UsageError(f"{reason}: omit --{_NAMES.get(name, name).replace('_', '-')}")


def _python(engine: str, pythons: Mapping[str, Any]) -> str:
    """A peer runs in our interpreter unless `pythons` names another one; `mxnet-mkldnn` runs in that of `mxnet`."""
    return pythons.get(engine, pythons.get(engine.partition("-")[0], sys.executable))


def _usable(threads: Sequence[int], workload: Workload) -> list[int]:
    """The numbers of threads that the workload can run on."""
    most = workload.threads or max(threads)
    if most < max(threads):
        print(f"mxforge: {workload.name} runs on at most {most} threads: it was compiled for these", file=sys.stderr)
    return list(dict.fromkeys(min(count, most) for count in threads))
