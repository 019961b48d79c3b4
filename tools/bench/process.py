"""Workers: processes that load and run one framework each, and are stopped while another one is measured."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ..errors import ToolError

_SCRIPT = Path(__file__).with_name("worker.py")
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MXFORGE_NUM_THREADS")
_OWN_PATH = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
_TUNING = "OPENBLAS_"
"""Variables with this prefix are removed: they can select another processor's kernels, and peers that choose their own
are up to twice as fast."""

_MXNETS = {"OPENBLAS_CORETYPE": "Haswell"}
_SETTINGS = {"mxnet": _MXNETS, "mxnet-mkldnn": _MXNETS}
"""Variables that make a peer faster: MXNet's OpenBLAS uses its slowest kernels on current processors, which it does not
know."""


class WorkerError(ToolError):
    """A framework failed; the message starts with its name."""


class Worker:
    """One framework in a separate interpreter. Used as a context manager; the process is killed at the end of the
    block.

    The process is stopped (SIGSTOP) between requests, so that its spinning threads do not affect other measurements.
    """

    def __init__(
        self,
        engine: str,
        python: str,
        threads: int,
        environment: Mapping[str, str] | None = None,
        context: str = "cpu",
    ) -> None:
        """`python` is the interpreter; `environment` is added to its environment variables."""
        self.engine = engine
        self._python = python
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by __exit__
        try:
            self._process = subprocess.Popen(
                [python, str(_SCRIPT)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env=_environment(engine, python, threads) | dict(environment or {}),
                text=True,
            )
        except OSError as error:
            self._log.close()
            raise WorkerError(f"{engine}: cannot run {python}: {error.strerror}") from None
        try:
            self.started = self.ask("start", engine=engine, threads=threads, context=context)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):  # a request that the process did not read
                    stream.close()
        self._log.close()

    def ask(self, do: str, **fields: Any) -> dict[str, Any]:
        """The answer to a request (see `worker.py`). WorkerError if the request fails or the process ends."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.send_signal(signal.SIGCONT)
            self._process.stdin.write(json.dumps({"do": do, **fields}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise WorkerError(f"{self.engine}: the process ended{self._exit_report()}")
        self._process.send_signal(signal.SIGSTOP)
        answer = self._answer(line)
        if "error" in answer:
            raise WorkerError(f"{self.engine}: {answer['error']}{self._hint(answer['error'])}")
        return answer

    def _answer(self, line: str) -> dict[str, Any]:
        """The parsed answer. WorkerError for anything else, which a program other than Python may write."""
        try:
            answer: dict[str, Any] = json.loads(line)
        except ValueError:
            text = f"{self._python} is not a Python interpreter: it answered {line.strip()[:50]!r}"
            raise WorkerError(f"{self.engine}: {text}") from None
        return answer

    def _hint(self, error: str) -> str:
        """An advice if the framework is not installed in the interpreter."""
        if not error.startswith("ModuleNotFoundError"):
            return ""
        return f" in {self._python} (name another interpreter with --python {self.engine}=PATH)"

    def _exit_report(self) -> str:
        """The exit status, and the last line that the process wrote to stderr."""
        status = self._process.wait()
        self._log.seek(0)
        lines = self._log.read().strip().splitlines()
        last = f": {lines[-1]}" if lines else ""
        how = f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"
        return f" ({how}){last}"


def _environment(engine: str, python: str, threads: int) -> dict[str, str]:
    """The environment of a worker. mxforge in this process's interpreter finds the packages of this process, all others
    those of their own interpreter."""
    inherited = {n: value for n, value in os.environ.items() if n not in _OWN_PATH and not n.startswith(_TUNING)}
    if engine == "mxforge" and python == sys.executable:
        inherited["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
    return inherited | {name: str(threads) for name in _THREAD_VARIABLES} | _SETTINGS.get(engine, {})
