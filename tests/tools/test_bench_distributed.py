"""`mxforge bench --suite distributed`: its tables, its peer, and hosts that links of a limited rate join."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from launched import require_mpi
from mxforge.tools.bench import distributed, link_check
from mxforge.tools.bench.linked_hosts import NoHosts, linked_hosts
from mxforge.tools.errors import ToolError
from mxforge.tools.main import main

TORCH = """#!{python}
import sys
print('{{' + ', '.join(f'"{{n}}": 3e-6' for n in sys.argv[5].split(',')) + '}}' if sys.argv[2] == '0' else '')
"""
PROGRAM = """
import time
import numpy as np
from mxforge.runtime.mpi import connect

workers, values = connect(), np.ones(500_000, np.float32)
for _ in range(3):
    workers.barrier()
    begin = time.perf_counter()
    total = workers.all_reduce("sum", values)
    seconds = time.perf_counter() - begin
assert (total == 2).all() and workers.on_this_machine() == (0, 1)
print(seconds if workers.rank == 0 else "", flush=True)
"""


def test_tables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a peer, and simulated links where there are no namespaces."""

    def measured(workers: int, threads: int, kind: str, *rest: str, hosts: Any = None) -> Any:
        if kind == "allreduce":
            return [{"bytes": 8, "mxforge": 2e-6, "mpi": 1e-6}]
        if kind == "keys":
            return {"keys": 2, "bytes": 16, "pushpull": 3e-6, "allreduce": 2e-6}
        times = {"alone": 0.1, "after": 0.3, "overlapped": 0.2, "hidden": 0.5}
        return {"model": rest[0], "batch": int(rest[1]), "same_bits": True, **times}

    def refused(count: int, gbits: float) -> Any:
        raise NoHosts("not here")

    torch = tmp_path / "python"
    torch.write_text(TORCH.format(python=sys.executable))
    torch.chmod(0o755)
    monkeypatch.setattr(distributed, "measured_by_workers", measured)
    monkeypatch.setattr(distributed, "linked_hosts", refused)
    assert main(["bench", "--suite", "distributed", "--against", "torch", "--python", f"torch={torch}"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[:2] == ["workers bytes allreduce of MPI ratio gloo ratio", "2 8 2.0 us 1.0 us 2.00 3.0 us 0.67"]
    assert "one allreduce of so many bytes: 2.0 us, ratio 1.50" in lines
    assert lines[-1] == "resnet18_v1 batch 16 10 Gb/s simulated 100 ms 300 ms 200 ms 50 % same"


def test_links_are_compared_with_the_model(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def measured(workers: int, *rest: Any, hosts: Any) -> dict[str, float]:
        return {"8": 2e-5, "1000000": 9e-3}

    monkeypatch.setattr(link_check, "linked_hosts", lambda count, gbits: nullcontext())
    monkeypatch.setattr(link_check, "measured_by_workers", measured)
    link_check.check_links()
    rows = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert rows[2] == "| 2 | 1 Gbit/s | 20 us | 1000000 | 9.0 ms | 8.5 ms | tree |"
    assert rows[3] == "| 4 | 1 Gbit/s | 10 us | 1000000 | 9.0 ms | 12.8 ms | halving |"


def test_other_peers_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--suite", "distributed", "--against", "mxnet"]) == 2
    assert "mxnet cannot run this --suite" in capsys.readouterr().err


def test_a_peer_that_fails_is_named(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="torch: "):
        distributed._of_gloo(sys.executable, 1, [-1])


def test_links_have_the_given_rate(tmp_path: Path) -> None:
    """Each host sends 2 MB at 100 Mbit/s."""
    require_mpi()
    program = tmp_path / "rate.py"
    program.write_text(PROGRAM)
    try:
        with linked_hosts(2, 0.1) as hosts:
            command = [
                *hosts.prefix,
                sys.executable,
                "-m",
                "mxforge",
                "launch",
                "-n",
                "2",
                "--hostfile",
                hosts.hostfile,
            ]
            environment = {**os.environ, **hosts.environment, "MXFORGE_NUM_THREADS": "1"}
            done = subprocess.run([*command, program], env=environment, capture_output=True, text=True, check=False)
    except NoHosts as error:
        pytest.skip(str(error))
    assert done.returncode == 0, done.stderr
    line = next(line for line in done.stdout.splitlines() if line.startswith("[0] "))
    assert 0.12 < float(line.removeprefix("[0] ")) < 1
