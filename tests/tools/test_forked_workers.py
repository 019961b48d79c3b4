"""Processes that workers of a job fork end without MPI, and the job goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
from launched import require_mpi, started

PROGRAM = """
import os, sys
import mxnet as mx
import numpy as np

store = mx.kv.create("dist_sync")

def status(work):
    child = os.fork()
    if child == 0:
        work()
        sys.exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def push():
    try:
        store.init("x", mx.nd.zeros((2,)))
    except RuntimeError as error:
        assert "forked by a worker" in str(error), error
    else:
        sys.exit(4)
    try:
        mx.kv.create("dist_sync")
    except mx.MXNetError as error:
        sys.exit(5 if "forked by a worker" in str(error) else 6)


print(status(lambda: None), status(lambda: sys.exit(3)), status(lambda: 1 / 0), status(push), flush=True)
data = mx.gluon.data.ArrayDataset(np.arange(12, dtype="float32"))
for _ in range(2):
    print(sum(batch.sum().asscalar() for batch in mx.gluon.data.DataLoader(data, 4, num_workers=1)), flush=True)
store.init("x", mx.nd.zeros((2,)))
store.push("x", mx.nd.ones((2,)))
out = mx.nd.zeros((2,))
store.pull("x", out=out)
print(out.asnumpy().tolist(), flush=True)
"""


def test_forked_processes_end_alone(tmp_path: Path) -> None:
    require_mpi()
    program = tmp_path / "forking.py"
    program.write_text(PROGRAM)
    done = started("-n", 2, program)
    assert done.returncode == 0, done.stderr
    for rank in range(2):
        lines = [line.removeprefix(f"[{rank}] ") for line in done.stdout.splitlines() if line.startswith(f"[{rank}]")]
        assert lines == ["0 3 1 5", "66.0", "66.0", "[2.0, 2.0]"]
    assert "which ends the job" not in done.stderr


def test_a_program_that_imports_mpi4py_itself(tmp_path: Path) -> None:
    pytest.importorskip("mpi4py")
    program = tmp_path / "own.py"
    program.write_text(
        "import mxnet as mx\nfrom mpi4py import MPI\nstore = mx.kv.create('dist_sync')\n"
        "print(MPI.COMM_WORLD.allreduce(store.rank + 1), flush=True)\n"
    )
    done = started("-n", 2, program)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["[0] 3", "[1] 3"]
