"""`mxforge exec` and `import mxforge.as_mxnet`: programs that import mxnet run unmodified on mxforge."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
import mxnet as mx
from mxnet import gluon, nd
from mxnet.gluon import nn
from mxnet.gluon.block import HybridBlock
import mxnet.ndarray.ndarray
assert mx.mxforge_version and nn is gluon.nn and issubclass(nn.Dense, HybridBlock) and nd is mx.ndarray
assert isinstance(nd.ones((2,)), mx.ndarray.ndarray.NDArray)
import mxforge
assert mxforge is mx and mxforge.gluon.nn is nn
print(sys.argv[1:], __name__)
"""


def run(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)


def test_a_program_runs_with_its_own_arguments(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    done = run("-m", "mxforge", "exec", script, "--epochs", "3", "-h")
    assert (done.returncode, done.stdout) == (0, "['--epochs', '3', '-h'] __main__\n"), done.stderr


def test_child_processes_of_a_program_use_it_too() -> None:
    inner = "import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-c', 'import mxnet.gluon.rnn']))"
    done = run("-m", "mxforge", "exec", "-c", inner)
    assert done.returncode == 0, done.stderr


def test_the_programs_status_and_traceback_are_kept() -> None:
    assert run("-m", "mxforge", "exec", "-c", "raise SystemExit(7)").returncode == 7
    done = run("-m", "mxforge", "exec", "-c", "1/0")
    assert done.returncode == 1 and done.stderr.endswith("ZeroDivisionError: division by zero\n")
    assert "mxforge" not in done.stderr


@pytest.mark.parametrize("program", [[], ["no_such_file.py"]])
def test_a_missing_program_is_named(program: list[str]) -> None:
    done = run("-m", "mxforge", "exec", *program)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert all(word in done.stderr for word in (*program, "mxforge: error:"))


def test_the_import_inside_a_program(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text("import mxforge.as_mxnet\n" + PROGRAM)
    done = run(script)
    assert done.returncode == 0, done.stderr


def test_names_that_python_and_numpy_dropped_are_restored() -> None:
    program = """
from collections import Iterable, Mapping
import inspect, mxnet, numpy as np
assert isinstance([], Iterable) and isinstance({}, Mapping)
assert inspect.getargspec(lambda a, b=1, *c: 0)[:2] == (["a", "b"], "c")
assert np.float is float and np.zeros(2, np.int).dtype == int and np.isnan(np.NaN) and np.product([2, 3]) == 6
import multiprocessing
assert multiprocessing.pool.ThreadPool
assert np.bool is np.bool_ and np.asscalar(np.array([2])) == 2
"""
    done = run("-m", "mxforge", "exec", "-c", program)
    assert done.returncode == 0, done.stderr


def test_an_existing_sitecustomize_still_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('mine')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    assert run("-m", "mxforge", "exec", "-c", "pass").stdout.count("mine") == 2  # for mxforge and for the program


def test_importing_mxforge_restores_nothing() -> None:
    done = run("-c", "import mxforge, mxforge.nd, numpy, collections; print(hasattr(collections, 'Iterable'))")
    assert done.stdout == "False\n", done.stderr


def test_absent_names_are_reported_under_mxnet() -> None:
    done = run("-c", "import mxforge.as_mxnet, mxnet.nothing")
    assert "No module named 'mxnet.nothing'" in done.stderr


def test_real_mxnet_in_the_same_process_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mxnet.py").write_text("")
    done = run("-c", "import mxnet, mxforge.as_mxnet", cwd=tmp_path)
    assert "ImportError: mxnet is already imported, from " in done.stderr
