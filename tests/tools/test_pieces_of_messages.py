"""What processes exchange in pieces, because an operation of MPI moves at most some GiB, arrives as a whole."""

from __future__ import annotations

from pathlib import Path

from launched import require_mpi, started

PROGRAM = """
import numpy as np
from mxforge.runtime.mpi import connect
from mxforge.runtime.mpi_job import job

w = connect()


def check():
    for dtype in ("float32", "float16", "int64"):
        own = (np.arange(30).reshape(10, 3) + w.rank).astype(dtype)
        whole = w.all_reduce("sum", own)
        assert (whole == own * 3 + 3 - 3 * w.rank).all() and whole.dtype == own.dtype
        part = w.reduce_scatter("sum", own)
        assert part.dtype == own.dtype
        assert (part == whole[w.rank * 10 // 3 : (w.rank + 1) * 10 // 3]).all()
        assert (w.reduce_scatter("mean", own) * 3 == part).all() or dtype == "float16"
        assert (w.broadcast(own, 1) == np.arange(30).reshape(10, 3) + 1).all()
        assert [len(p) for p in w.all_gather(own[: w.rank + 2])] == [2, 3, 4]
    box = w.mailbox()
    for n in (0, 5, 1000):
        for to in range(3):
            box.send(to, (n, w.rank, 0, 7), np.arange(n, dtype=np.int32))
    got = []
    while len(got) < 9:
        message = box.receive()
        if message is not None:
            got.append(message)
    for r in range(3):
        mine = [(header, content.view(np.int32).tolist()) for sender, header, content in got if sender == r]
        assert mine == [([n, r, 0, 7], list(range(n))) for n in (0, 5, 1000)]
    w.barrier()  # until then a process helps to deliver what it sent


check()
job.piece = 64
check()
print("done", flush=True)
"""


def test_pieces_are_joined(tmp_path: Path) -> None:
    require_mpi()
    program = tmp_path / "pieces.py"
    program.write_text(PROGRAM)
    done = started("-n", 3, program)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["[0] done", "[1] done", "[2] done"]
