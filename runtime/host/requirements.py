"""What a stored program requires of the machine that runs it: architecture, instruction sets, number of threads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...codegen.llvm.target import CpuTarget
from ...ir.suggestions import see
from .machine import host_target
from .threads import get_num_threads, set_num_threads


def requirements(target: CpuTarget) -> dict[str, Any]:
    """Those of the programs of a target, as JSON."""
    return {"triple": target.triple, "cpu": target.cpu, "features": target.features, "threads": target.threads}


def meet(required: Mapping[str, Any]) -> None:
    """Let this process run a program with these requirements: from now on, kernels use at most as many threads as its
    workspaces have room for. ValueError if this machine cannot run its code."""
    host, threads = host_target(), required["threads"]
    if required["triple"] != host.triple:
        raise ValueError(f"compiled for {required['triple']!r}, but this machine is {host.triple}{see('deployment')}")
    if missing := _features(required["features"]) - _features(host.features):
        lacking = ", ".join(sorted(missing))
        raise ValueError(f"the code needs {lacking}, which this CPU lacks: compile the model here{see('deployment')}")
    if type(threads) is not int or threads < 1:
        raise ValueError(f"compiled for {threads!r} threads")
    if get_num_threads() > threads:
        set_num_threads(threads)


def _features(text: str) -> set[str]:
    return {name.removeprefix("+") for name in text.split(",") if name and not name.startswith("-")}
