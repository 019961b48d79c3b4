"""Runs the rows of the hardware table. Rows with the same environment share a process of each framework, because to
start one takes seconds; a row that ends it or takes too long is an error, and the others go on in a new one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
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


@dataclass(frozen=True)
class Part:
    """What a process measures for a row; results are files in `folder`."""

    row: Row
    module: str
    folder: str


def measure(rows: Sequence[Row], conditions: Conditions) -> list[dict[str, Any]]:
    """The results of rows as JSON, in order. The rows have the same environment (`_environment`)."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gpu-rows-") as folder:
        folders = [str(Path(folder, str(number))) for number in range(len(rows))]
        for name in folders:
            Path(name).mkdir()
        ours = _lines([Part(*part) for part in zip(rows, ["ours"] * len(rows), folders, strict=True)], conditions)
        peers: list[dict[str, dict[str, Any]]] = [{} for _ in rows]
        if conditions.variants:
            peers = _lines([Part(*part) for part in zip(rows, ["peer"] * len(rows), folders, strict=True)], conditions)
        results = [_result(*row) for row in zip(rows, ours, peers, folders, strict=True)]
    seconds = round((time.monotonic() - begin) / len(rows), 1)
    return [{**result, "seconds": seconds} for result in results]


def _result(row: Row, ours: dict[str, Any], peers: dict[str, dict[str, Any]], folder: str) -> dict[str, Any]:
    for variant, result in peers.items():
        if "us" in result and "us" in ours.get("mxforge", {}):
            result["difference"] = _difference(Path(folder), variant)
    result = {"unit": row.unit, "goal": row.goal, "peer_h200": row.peer, **_valued(row, ours)}
    result = {**result, "peers": _valued(row, peers)}
    return {**result, **_ratio(result)}


def prepare(rows: Sequence[Row], conditions: Conditions, processes: int) -> float:
    """Compile what the rows need, several at a time, for the measurements, which find it in the caches. Returns the
    seconds."""
    begin = time.monotonic()

    def once(row: Row, module: str) -> None:
        with tempfile.TemporaryDirectory(prefix="gpu-row-") as folder:
            _lines([Part(row, module, folder)], conditions, seconds=0)

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
    parts: Sequence[Part], conditions: Conditions, seconds: float | None = None
) -> list[dict[str, dict[str, Any]]]:
    """What processes measured for each part, by variant. An error is the result of a variant, or of "process" for all
    of them. The parts have one module."""
    results: list[dict[str, dict[str, Any]]] = []
    while len(results) < len(parts):
        rest = parts[len(results) :]
        limit = min(conditions.limit, conditions.end - time.monotonic())
        if limit <= 0:
            return [*results, *({"process": {"error": "no time left"}} for _ in rest)]
        duration = conditions.seconds if seconds is None else seconds
        lines, error = run(_command(rest, conditions, duration), limit, _environment(rest[0]))
        own: list[dict[str, dict[str, Any]]] = [{}]
        for line in filter(None, map(_read, lines)):
            if "end" in line:  # of a row
                own.append({})
            elif "variant" in line:
                own[-1][line.pop("variant")] = line
        if len(own) > len(rest):
            own.pop()
        elif error:
            own[-1]["process"] = {"error": error}
        else:
            own[-1]["process"] = {"error": "the process ended without a result"}
        results += own
    return results


def _read(line: str) -> dict[str, Any] | None:
    return json.loads(line) if line.startswith('{"') else None


def _command(parts: Sequence[Part], conditions: Conditions, seconds: float) -> list[str]:
    fake, module = conditions.gpus == "fake", parts[0].module
    specs = [
        {**part.row.spec, **(part.row.tiny if fake else {}), "peers": _variants(part.row, conditions)} for part in parts
    ]
    work = [{"spec": spec, "folder": part.folder} for spec, part in zip(specs, parts, strict=True)]
    device = {"ours": "fake" if fake else "hardware", "peer": "cpu" if fake else "cuda"}[module]
    python = sys.executable if module == "ours" else conditions.torch
    return [python, "-m", f"gpu_rows.{module}", json.dumps(work), str(seconds), device]


def _environment(part: Part) -> dict[str, str]:
    """The environment of a process: a first result has empty caches, and rows of tf32 let products round."""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]))
    if part.row.spec["kind"] == "first":
        environment |= {name: str(Path(part.folder) / name) for name in _EMPTY_CACHES}
    if part.module == "ours" and part.row.spec.get("dtype") == "tf32":
        environment["MXFORGE_MATMUL"] = "tf32"
    return environment


def run(command: Sequence[str], limit: float, environment: Mapping[str, str]) -> tuple[list[str], str]:
    """(the lines that a command prints, what is wrong with its end or ""). Its processes are killed if it prints no
    line for this time."""
    with tempfile.TemporaryFile("w+") as log:
        try:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=dict(environment),
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        except OSError as error:
            return [], f"cannot run {command[0]}: {error.strerror}"
        assert process.stdout is not None
        lines: SimpleQueue[str] = SimpleQueue()
        reader = threading.Thread(target=lambda: [*map(lines.put, process.stdout or ()), lines.put("")], daemon=True)
        reader.start()
        found: list[str] = []
        error = ""
        try:
            while line := lines.get(timeout=limit):
                found.append(line)
            process.wait(limit)
        except (Empty, subprocess.TimeoutExpired):
            error = f"no end after {limit:.0f} s"
        _end(process)
        reader.join()
        process.stdout.close()
        log.seek(0)
        if not error and process.returncode:
            error = f"status {process.returncode}: {log.read().strip()[-700:]}"
        return found, error


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
    """The results of rows, a group of one environment after another; each is printed."""
    for together in _groups(rows):
        for row, result in zip(together, measure(together, conditions), strict=True):
            print(summary(row.name, result), flush=True)
            yield row.name, result


def _groups(rows: Sequence[Row]) -> list[list[Row]]:
    """Rows that share processes: a first result has its own."""
    groups: dict[object, list[Row]] = {}
    for row in rows:
        key = row.name if row.spec["kind"] == "first" else (row.spec.get("dtype") == "tf32", row.spec["kind"])
        groups.setdefault(key, []).append(row)
    return list(groups.values())
