"""Runs the rows of the hardware table: each framework of a row in a process of its own, with a time limit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .rows import Row

ROOT = Path(__file__).resolve().parents[2]
_EMPTY_CACHES = "MXFORGE_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"


@dataclass(frozen=True)
class Conditions:
    """How rows are measured.

    `gpus` is "hardware" or "fake"; `torch` the Python interpreter that has PyTorch; `variants` those of PyTorch that
    are measured; `limit` the seconds of a process; `seconds` those of a measurement; `end` when the last one must be
    done, by `time.monotonic`.
    """

    gpus: str
    torch: str
    variants: Sequence[str]
    limit: float
    seconds: float
    end: float


def measure(row: Row, conditions: Conditions) -> dict[str, Any]:
    """The results of a row as JSON."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gpu-row-") as folder:
        ours = _lines(row, "ours", folder, conditions)
        peers = _lines(row, "peer", folder, conditions) if conditions.variants else {}
        for variant, result in peers.items():
            if "us" in result and "us" in ours.get("mxforge", {}):
                result["difference"] = _difference(Path(folder), variant)
    result = {"unit": row.unit, "goal": row.goal, "peer_h200": row.peer, **_valued(row, ours)}
    result = {**result, "peers": _valued(row, peers)}
    return {**result, **_ratio(result), "seconds": round(time.monotonic() - begin, 1)}


def prepare(rows: Sequence[Row], conditions: Conditions, processes: int) -> float:
    """Compile what the rows need, several at a time, for the measurements, which find it in the caches. Returns the
    seconds."""
    begin = time.monotonic()

    def once(row: Row, module: str) -> None:
        with tempfile.TemporaryDirectory(prefix="gpu-row-") as folder:
            _lines(row, module, folder, conditions, seconds=0)

    with ThreadPoolExecutor(processes) as pool:
        parts = [(row, module) for module in ("peer", "ours") for row in rows if _compiles(row, module, conditions)]
        for part in [pool.submit(once, *part) for part in parts]:
            part.result()
    return round(time.monotonic() - begin, 1)


def _compiles(row: Row, module: str, conditions: Conditions) -> bool:
    kind = row.spec["kind"]
    wanted = {"compile", "max-autotune"} & set(_variants(row, conditions))
    return kind != "first" and (bool(wanted) if module == "peer" else kind in ("network", "training"))


def _variants(row: Row, conditions: Conditions) -> list[str]:
    """The variants of PyTorch that a row has and that are measured: "max-autotune" is one of what is compiled."""
    own = [*row.spec["peers"], *(["max-autotune"] if "compile" in row.spec["peers"] else [])]
    return [variant for variant in own if variant in conditions.variants]


def _lines(
    row: Row, module: str, folder: str, conditions: Conditions, seconds: float | None = None
) -> dict[str, dict[str, Any]]:
    """What a process measured, by variant. An error is the result of a variant, or of "process" for all of them."""
    fake = conditions.gpus == "fake"
    spec = {**row.spec, **(row.tiny if fake else {}), "peers": _variants(row, conditions)}
    limit = min(conditions.limit, conditions.end - time.monotonic())
    if limit <= 0:
        return {"process": {"error": "no time left"}}
    device = {"ours": "fake" if fake else "hardware", "peer": "cpu" if fake else "cuda"}[module]
    python = sys.executable if module == "ours" else conditions.torch
    duration = conditions.seconds if seconds is None else seconds
    command = [python, "-m", f"gpu_rows.{module}", json.dumps(spec), folder, str(duration), device]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]))
    if spec["kind"] == "first":
        environment |= {name: str(Path(folder) / name) for name in _EMPTY_CACHES}
    if module == "ours" and spec.get("dtype") == "tf32":
        environment["MXFORGE_MATMUL"] = "tf32"
    output, error = run(command, limit, environment)
    results = {}
    for line in output.splitlines():
        if line.startswith('{"variant"'):
            result = json.loads(line)
            results[result.pop("variant")] = result
    return {**results, "process": {"error": error}} if error else results


def run(command: Sequence[str], limit: float, environment: Mapping[str, str]) -> tuple[str, str]:
    """(the output of a command, what is wrong with its end or ""). Its processes are killed after this time."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as log:
        try:
            process = subprocess.Popen(
                command, cwd=ROOT, env=dict(environment), stdout=output, stderr=log, text=True, start_new_session=True
            )
        except OSError as error:
            return "", f"cannot run {command[0]}: {error.strerror}"
        error = ""
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            error = f"no end after {limit:.0f} s"
        _end(process)
        output.seek(0)
        log.seek(0)
        if not error and process.returncode:
            error = f"status {process.returncode}: {log.read().strip()[-700:]}"
        return output.read(), error


def _end(process: subprocess.Popen[str]) -> None:
    """Kill the process and those that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _difference(folder: Path, variant: str) -> float | str | None:
    """The largest difference between the results of both frameworks, by the largest element of PyTorch's."""
    files = [folder / f"{name}.npy" for name in ("mxforge", variant)]
    if not all(file.exists() for file in files):
        return None
    ours, peer = (np.load(file).astype(np.float64).reshape(-1) for file in files)
    if ours.shape != peer.shape:
        return f"{ours.size} and {peer.size} elements"
    scale = max(float(np.abs(peer).max()), 1e-30)
    difference = float(np.abs(ours - peer).max()) / scale
    return float(f"{difference:.2e}") if np.isfinite(difference) else "not finite"


def _valued(row: Row, results: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """The results with their values in the unit of the row."""
    return {
        variant: {"value": float(f"{row.value(result['us']):.4g}"), **result} if "us" in result else result
        for variant, result in results.items()
    }


def _ratio(result: Mapping[str, Any]) -> dict[str, Any]:
    """The fastest variant of PyTorch, and our time by its time: less than 1 is faster."""
    times = {variant: peer["us"] for variant, peer in result["peers"].items() if "us" in peer}
    ours = result.get("mxforge", {}).get("us")
    if not times:
        return {}
    best = min(times, key=lambda variant: times[variant])
    return {"best_peer": best, **({"ratio": round(ours / times[best], 3)} if ours else {})}


def summary(name: str, result: Mapping[str, Any]) -> str:
    """A line of text for a row."""
    peers = result["peers"]
    ours = _shown(result.get("mxforge") or result.get("process") or {})
    best = result.get("best_peer")
    rest = f"{best} {_shown(peers[best])}" if best else _shown(next(iter(peers.values()), {"error": "not measured"}))
    ratio = f"  ratio {result['ratio']:.2f}" if "ratio" in result else ""
    goal = f"  goal {result['goal']}" if result["goal"] is not None else ""
    return f"{name:34} {ours} {result['unit']}; {rest}{ratio}{goal}"


def _shown(result: Mapping[str, Any]) -> str:
    return f"{result['value']:g}" if "value" in result else f"({result.get('error', 'nothing')[:100]})"


def measured(rows: Sequence[Row], conditions: Conditions) -> Iterator[tuple[str, dict[str, Any]]]:
    """The results of rows, one after another; each is printed."""
    for row in rows:
        result = measure(row, conditions)
        print(summary(row.name, result), flush=True)
        yield row.name, result
