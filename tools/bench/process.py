"""Workers: processes that load and run one framework each, and stand still while another one is measured."""

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
"""Variables that begin so may name another processor's kernels: peers choose their own, at up to twice the speed."""

_MXNETS = {"OPENBLAS_CORETYPE": "Haswell"}
_SETTINGS = {"mxnet": _MXNETS, "mxnet-mkldnn": _MXNETS}
"""What makes a peer faster: MXNet's OpenBLAS does not know processors of today, and takes its slowest kernels."""


class WorkerError(ToolError):
    """A framework could not do what it was asked for; the text begins with its name."""


class Worker:
    """One framework in an interpreter of its own. Use as a context; the process ends with the block.

    It is stopped whenever it has nothing to answer, so that threads which spin after their work disturb nobody.
    """

    def __init__(self, engine: str, python: str, threads: int, environment: Mapping[str, str] | None = None) -> None:
        """`python` is the interpreter; `environment` is set besides the number of threads."""
        self.engine = engine
        self._python = python
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by __exit__
        try:
            self._process = subprocess.Popen(
                [python, str(_SCRIPT)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env=_environment(engine, threads) | dict(environment or {}),
                text=True,
            )
        except OSError as error:
            self._log.close()
            raise WorkerError(f"{engine}: cannot run {python}: {error.strerror}") from None
        try:
            self.started = self.ask("start", engine=engine, threads=threads)
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
        """End the process, whatever it does."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):  # a question that the process did not live to read
                    stream.close()
        self._log.close()

    def ask(self, do: str, **fields: Any) -> dict[str, Any]:
        """The answer to a request of `worker.py`. WorkerError when it fails or when the process ends."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.send_signal(signal.SIGCONT)
            self._process.stdin.write(json.dumps({"do": do, **fields}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise WorkerError(f"{self.engine}: the process ended{self._last_words()}")
        self._process.send_signal(signal.SIGSTOP)
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise WorkerError(f"{self.engine}: {answer['error']}{self._hint(answer['error'])}")
        return answer

    def _hint(self, error: str) -> str:
        """What to do when the interpreter lacks the framework."""
        if not error.startswith("ModuleNotFoundError"):
            return ""
        return f" in {self._python} (name another interpreter with --python {self.engine}=PATH)"

    def _last_words(self) -> str:
        """How it ended: the status, and the last line that it wrote to stderr."""
        status = self._process.wait()
        self._log.seek(0)
        lines = self._log.read().strip().splitlines()
        said = f": {lines[-1]}" if lines else ""
        how = f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"
        return f" ({how}){said}"


def _environment(engine: str, threads: int) -> dict[str, str]:
    """A peer's interpreter has packages of its own; mxforge's worker finds what this process finds."""
    inherited = {n: value for n, value in os.environ.items() if n not in _OWN_PATH and not n.startswith(_TUNING)}
    if engine == "mxforge":
        inherited["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
    return inherited | {name: str(threads) for name in _THREAD_VARIABLES} | _SETTINGS.get(engine, {})
