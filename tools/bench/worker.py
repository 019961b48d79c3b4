"""The measured process. Any interpreter can run this file, which imports only the requested framework.

It reads requests from stdin and writes answers to stdout, one JSON object per line; arrays are passed as .npy files. It
must run on Python 3.7, which old frameworks require. Requests, by "do":

    start    engine, threads, context   -> version, python, seconds (of the import)
    load     spec, arrays (paths)       -> load, first (seconds: until ready to run, and of the first run)
    outputs  folder                     -> files, in order
    time     calls, samples             -> seconds (per call) of each sample of `calls` calls, after an untimed call;
                                           `clock`, if given, is that of `time`, such as process_time
    memory                              -> peak (bytes)
    rates                               -> operations, bandwidths (see `machine_rates.py`); mxforge alone has it
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import platform
import signal
import sys
import time
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any

PR_SET_PDEATHSIG = 1


def load_neighbour(name):
    """The module in a file of this folder, which is not on `sys.path`, so that frameworks cannot import from it."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".py")
    loader = SourceFileLoader("mxforge_bench_" + name, path)
    module = ModuleType(loader.name)
    loader.exec_module(module)
    return module


class Session:
    """The state of a worker: its engine and the loaded program. Each method answers the request of the same name."""

    def __init__(self):
        self.engine: Any = None
        self.program: Any = None

    def start(self, request):
        begin = time.perf_counter()
        self.engine = load_neighbour("engines").ENGINES[request["engine"]](request["threads"], request["context"])
        seconds = time.perf_counter() - begin
        return {"version": self.engine.version, "python": platform.python_version(), "seconds": seconds}

    def load(self, request):
        import numpy

        arrays = [numpy.load(path) for path in request["arrays"]]
        begin = time.perf_counter()
        self.program = self.load_program(request["spec"], arrays)
        del arrays
        middle = time.perf_counter()
        self.program.run(1)
        return {"load": middle - begin, "first": time.perf_counter() - middle}

    def load_program(self, spec, arrays):
        if "operator" in spec:
            return load_neighbour("operator_programs").load(self.engine, spec, arrays)
        if "data" in spec:
            return load_neighbour("data_programs").load(self.engine, spec, arrays)
        if "training" in spec or "network" in spec:
            return load_neighbour(self.engine.training).load(self.engine, spec, arrays)
        if "iterator" in spec:
            return load_neighbour("augmenters_mxnet").load(self.engine, spec, arrays)
        if "feeding" in spec:
            return load_neighbour("feeding").load(self.engine, spec, arrays)
        return self.engine.load(spec, arrays)

    def outputs(self, request):
        import numpy

        files = []
        for i, array in enumerate(self.program.outputs()):
            files.append(os.path.join(request["folder"], f"{i}.npy"))
            numpy.save(files[-1], array)
        return {"files": files}

    def time(self, request):
        run, calls = self.program.run, request["calls"]
        clock = getattr(time, request.get("clock", "perf_counter"))
        run(1)
        seconds = []
        for _ in range(request["samples"]):
            begin = clock()
            run(calls)
            seconds.append((clock() - begin) / calls)
        return {"seconds": seconds}

    def memory(self, request):
        with open("/proc/self/status") as file:
            line = next(line for line in file if line.startswith("VmHWM:"))
        return {"peak": int(line.split()[1]) * 1024}

    def rates(self, request):
        return importlib.import_module("mxforge.tools.bench.machine_rates").rates()


REQUESTS = ("start", "load", "outputs", "time", "memory", "rates")


def answer(session, request):
    """The answer to one request; {"error": text} if it fails."""
    if request["do"] not in REQUESTS:
        return {"error": f"unknown request {request['do']!r}"}
    try:
        return getattr(session, request["do"])(request)
    except Exception as error:
        if os.environ.get("MXFORGE_DEBUG", "0") not in ("", "0"):
            import traceback

            traceback.print_exc()
        text = " ".join(str(error).split())
        return {"error": f"{type(error).__name__}: {text[:500]}"}


def die_with_parent():
    """Kill this process when its parent dies: it is stopped while others run, and only the parent can continue it."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def main():
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent kills its workers
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of frameworks must not mix with the answers
    session = Session()
    for line in sys.stdin:
        channel.write(json.dumps(answer(session, json.loads(line))) + "\n")
        channel.flush()


if __name__ == "__main__":
    sys.path.pop(0)  # this folder
    main()
