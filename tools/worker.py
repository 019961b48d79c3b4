"""Runs a command as one worker of `mxforge launch`: its lines of output begin with its rank, and its failure is named.

`mpiexec` does neither: it puts ranks before pieces of lines, and does not name a worker that fails, nor notice one that
fails before it calls MPI. Runs as a file of its own, with no other module of the package, so that it starts at once.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

_RANKS = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK")
_PATIENCE = 1
"""Seconds to wait for output after the command has ended: another process may still hold its pipes."""


def _forward(source: int, target: int, prefix: bytes) -> None:
    """Copy whole lines, and what ends with a carriage return, each with the prefix, in one write each time."""
    rest = b""
    while piece := os.read(source, 1 << 16):
        end = max(piece.rfind(b"\n"), piece.rfind(b"\r")) + 1
        if not end:
            rest += piece
            continue
        _write(target, rest + piece[:end], prefix)
        rest = piece[end:]
    if rest:
        _write(target, rest + b"\n", prefix)


def _write(target: int, lines: bytes, prefix: bytes) -> None:
    text = b"".join(prefix + line for line in lines.splitlines(keepends=True))
    while text:
        text = text[os.write(target, text) :]


def main(command: list[str]) -> int:
    """The command's exit status, 128 and the number of the signal that ended it, 127 if it could not be started."""
    rank = next((os.environ[name] for name in _RANKS if name in os.environ), "0")
    signal.signal(signal.SIGINT, lambda *_: None)  # the command receives it too, and decides
    prefix = f"[{rank}] ".encode()
    try:
        process = subprocess.Popen(  # MPI gives its processes a pipe of its own
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, close_fds=False
        )
    except OSError as error:
        _write(2, f"mxforge: {command[0]}: {error.strerror}\n".encode(), prefix)
        status = 127
    else:
        assert process.stdout is not None and process.stderr is not None
        pipes = ((process.stdout.fileno(), 1), (process.stderr.fileno(), 2))
        threads = [threading.Thread(target=_forward, args=(*pipe, prefix), daemon=True) for pipe in pipes]
        for thread in threads:
            thread.start()
        status = process.wait()
        for thread in threads:
            thread.join(_PATIENCE)
    how = ""
    if status < 0:
        how = f" (signal {-status})"
        status = 128 - status
    if status:
        text = f"mxforge: worker {rank} ended with status {status}{how}, which ends the job\n"
        _write(2, text.encode(), prefix)
    return status


if __name__ == "__main__":
    result = main(sys.argv[1:])
    os._exit(result)  # a thread may still wait for another process's output
