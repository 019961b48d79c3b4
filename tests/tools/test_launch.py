"""`mxforge launch`: programs of several processes train as one process does, and end together."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mxforge as mx
import numpy as np
import pytest
import run_failing_jobs
from launched import require_mpi, started
from mxforge.tools import launch
from mxforge.tools.errors import ToolError, UsageError

TRAINING = """
import sys
import mxnet as mx
import numpy as np

mx.random.seed(int(sys.argv[2]) + 7)


def train(store, rank, size, update):
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(16, activation="relu", in_units=5), mx.gluon.nn.Dense(3))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    optimizer = {"learning_rate": 0.1, "momentum": 0.9}
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", optimizer, kvstore=store, update_on_kvstore=update)
    loss_of = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    data = np.random.RandomState(0).rand(3, 8, 5)
    labels = np.random.RandomState(1).randint(0, 3, (3, 8))
    own = slice(rank * 8 // size, (rank + 1) * 8 // size)
    for x, y in zip(data, labels):
        with mx.autograd.record():
            loss = loss_of(net(mx.nd.array(x[own])), mx.nd.array(y[own]))
        loss.backward()
        trainer.step(8)
    return np.concatenate([p.data().asnumpy().ravel() for p in net.collect_params().values()])


if __name__ == "__main__":
    import horovod.mxnet as hvd

    hvd.init()
    store = mx.kv.create("dist_sync")
    assert (hvd.rank(), hvd.size(), hvd.local_size()) == (store.rank, store.num_workers, store.num_workers)
    mx.random.seed(int(sys.argv[2]) + 7 + store.rank)  # the worker 0 decides
    found = {f"u{int(update)}": train("dist_sync", hvd.rank(), hvd.size(), update) for update in (True, False)}
    assert hvd.allreduce(mx.nd.array([store.rank + 1.0])).asscalar() == 1.5
    assert hvd.allgather(mx.nd.ones((store.rank + 1, 2))).shape == (3, 2)
    assert hvd.broadcast(mx.nd.array([store.rank]), 1).asscalar() == 1
    sent = {"a": (1, [2.5, None]), 3: np.arange(3)} if store.rank == 0 else None
    received = hvd.broadcast_object(sent)
    assert received["a"] == (1, [2.5, None]) and received[3].tolist() == [0, 1, 2]
    weight = mx.gluon.Parameter("w", shape=(2,))
    weight.initialize(mx.init.Constant(store.rank + 1.0))
    hvd.broadcast_parameters({"w": weight}, root_rank=1)
    trainer = hvd.DistributedTrainer({"w": weight}, "sgd", {"learning_rate": 1.0})
    with mx.autograd.record():
        loss = weight.data().sum() * (store.rank + 1)
    loss.backward()
    trainer.step(1)
    assert weight.data().asnumpy().tolist() == [0.5, 0.5]
    np.savez(f"{sys.argv[1]}-{store.rank}.npz", **found)
    print("done", flush=True)
"""


@pytest.fixture(autouse=True)
def mpi() -> None:
    require_mpi()


def test_two_processes_train_as_one_with_the_doubled_batch(tmp_path: Path) -> None:
    """With updates by the store and by the trainer, with one parameter whose initialization is deferred."""
    program = tmp_path / "training.py"
    program.write_text(TRAINING)
    done = started("-n", 2, program, tmp_path / "found", 0)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(re.findall(r"\[(\d)\] done", done.stdout)) == ["0", "1"]
    first, second = (np.load(tmp_path / f"found-{rank}.npz") for rank in range(2))
    alone = expected()
    for name in ("u1", "u0"):
        assert first[name].tobytes() == second[name].tobytes()
        np.testing.assert_allclose(first[name], alone, rtol=0, atol=1e-6)
        alone = expected(skipped=True)


def expected(skipped: bool = False) -> np.ndarray[Any, Any]:
    """The parameters of the same training in one process; `skipped`: of a second one."""
    names: dict[str, Any] = {"__name__": "training", "sys": sys}
    sys.modules.setdefault("mxnet", mx)
    old, sys.argv = sys.argv, ["training.py", "", "0"]
    try:
        exec(TRAINING, names)
        found = names["train"](None, 0, 1, None)
        return names["train"](None, 0, 1, None) if skipped else found
    finally:
        sys.argv = old
        if sys.modules.get("mxnet") is mx:
            del sys.modules["mxnet"]


FAILING = """
import sys, time
import mxnet as mx

store = mx.kv.create("dist_sync")
if store.rank == 1:
    {failure}
store._barrier()
time.sleep(60)
"""


@pytest.mark.parametrize(
    ("failure", "status", "text"),
    [
        ("raise ValueError('a bad batch')", 1, "[1] ValueError: a bad batch"),
        ("sys.exit(5)", 5, "worker 1 of 2 ended with status 5, which ends the job"),
        ("sys.exit('no data')", 1, "[1] no data"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 137, "worker 1 ended with status 137 (signal 9)"),
    ],
    ids=["exception", "exit", "message", "kill"],
)
def test_all_processes_end_when_one_fails(failure: str, status: int, text: str, tmp_path: Path) -> None:
    program = tmp_path / "failing.py"
    program.write_text(FAILING.format(failure=failure))
    start = time.monotonic()
    done = started("-n", 2, sys.executable, "-u", program)
    assert time.monotonic() - start < 30
    assert done.returncode == status, done.stdout + done.stderr
    assert text in done.stderr
    if "ValueError" in text:
        assert "worker 1 of 2 failed" in done.stderr


RESUMED = """
import os
import sys
import mxnet as mx
import numpy as np

folder, steps, fails = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
store = mx.kv.create("dist_sync")
rank, size = store.rank, store.num_workers
mx.random.seed(3 + rank)
net = mx.gluon.nn.HybridSequential(prefix="net_")
with net.name_scope():
    net.add(mx.gluon.nn.Dense(16, activation="relu", in_units=5), mx.gluon.nn.Dense(3, in_units=16))
net.initialize(mx.init.Xavier())
net.hybridize()
checkpoint = os.path.join(folder, "checkpoint")
adam = {"learning_rate": 0.01}
trainer = mx.gluon.Trainer(net.collect_params(), "adam", adam, kvstore=store, update_on_kvstore=bool(int(sys.argv[4])))
first = 0
if store.agrees(os.path.exists(checkpoint + ".step"), checkpoint):
    net.load_parameters(checkpoint + ".params")
    trainer.load_states(checkpoint + ".states")
    first = int(open(checkpoint + ".step").read())
loss_of = mx.gluon.loss.SoftmaxCrossEntropyLoss()
for step in range(first, steps):
    data = np.random.RandomState(step).rand(12, 5)
    own = slice(rank * 12 // size, (rank + 1) * 12 // size)
    with mx.autograd.record():
        loss = loss_of(net(mx.nd.array(data[own])), mx.nd.array(np.arange(12)[own] % 3))
    loss.backward()
    trainer.step(12)
    trainer.save_states(checkpoint + ".states")
    if rank == 0:
        net.save_parameters(checkpoint + ".params")
        open(checkpoint + ".step", "w").write(str(step + 1))
    store._barrier()
    if step == fails and rank == 1:
        raise RuntimeError("a failure")
if rank == 0:
    values = [p.data().asnumpy().ravel() for p in net.collect_params().values()]
    np.save(os.path.join(folder, "values.npy"), np.concatenate(values))
"""


@pytest.mark.parametrize("update", [1, 0], ids=["store", "trainer"])
def test_a_job_continues_from_its_checkpoint(tmp_path: Path, update: int) -> None:
    """With as many workers the parameters are those of a job without a failure bit for bit, with others nearly so."""
    program = tmp_path / "resumed.py"
    program.write_text(RESUMED)
    values: dict[str, np.ndarray[Any, Any]] = {}
    for name, workers, fails in (("without", 3, -1), ("same", 3, 2)):
        folder = tmp_path / name
        folder.mkdir()
        done = started("-n", workers, "--restarts", 1, program, folder, 6, fails, update)
        assert done.returncode == 0, done.stderr
        assert ("start 2 of at most 2" in done.stderr) == (fails >= 0)
        values[name] = np.load(folder / "values.npy")
    assert values["without"].tobytes() == values["same"].tobytes()
    if not update:
        return
    folder = tmp_path / "other"
    folder.mkdir()
    assert started("-n", 3, program, folder, 6, 2, update).returncode == 1
    done = started("-n", 2, program, folder, 6, -1, update)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(np.load(folder / "values.npy"), values["same"], rtol=0, atol=1e-5)


def test_a_checkpoint_that_some_workers_have_is_an_error(tmp_path: Path) -> None:
    program = tmp_path / "one.py"
    program.write_text(
        "import mxnet as mx\nstore = mx.kv.create('dist_sync')\nstore.agrees(store.rank == 1, '/data/checkpoint')\n"
    )
    done = started("-n", 3, program)
    assert done.returncode == 1
    assert "/data/checkpoint: worker 1 has it, and workers 0, 2 do not" in done.stderr


@pytest.mark.parametrize("kind", [signal.SIGKILL, signal.SIGUSR1], ids=["kill", "exception"])
def test_a_failure_at_a_random_moment_ends_the_job(kind: signal.Signals) -> None:
    moment = random.uniform(0, run_failing_jobs.LATEST)
    _, problems = run_failing_jobs.failing_job(2, kind, 1, moment, 10.0)
    assert not problems, moment


def test_a_launcher_of_another_mpi_is_an_error() -> None:
    program = "import mxforge as mx; mx.kv.create('dist_sync')"
    environment = {**os.environ, "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"}
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=60, env=environment
    )
    assert "the launcher started 2 processes, but 1 for the MPI that mpi4py uses" in done.stderr
    assert done.returncode == 1


MODULE = """
import sys
import mxnet as mx
import numpy as np

store = mx.kv.create("dist_sync")
rank, size = store.rank, store.num_workers
data = np.random.RandomState(0).rand(24, 5).astype("float32")
labels = (data.sum(1) * 3 % 3).astype("int")
order = np.concatenate([np.arange(24).reshape(3, 8)[:, rank * 8 // size : (rank + 1) * 8 // size].ravel()])
batches = mx.io.NDArrayIter(data[order], labels[order], 8 // size)
x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=16, name="first")
x = mx.sym.FullyConnected(mx.sym.Activation(x, act_type="relu"), num_hidden=3, name="second")
module = mx.mod.Module(mx.sym.SoftmaxOutput(x, name="softmax"))
mx.random.seed(7 + rank)
sgd = {"learning_rate": 0.5, "momentum": 0.9}
module.fit(batches, num_epoch=2, kvstore=store, optimizer="sgd", optimizer_params=sgd, initializer=mx.init.Xavier())
values = module.get_params()[0]
np.savez(f"{sys.argv[1]}-{size}-{rank}.npz", **{name: value.asnumpy() for name, value in values.items()})
"""


def test_a_module_trains_on_two_processes_as_on_one(tmp_path: Path) -> None:
    program = tmp_path / "module.py"
    program.write_text(MODULE)
    for workers in (1, 2):
        done = started("-n", workers, program, tmp_path / "values")
        assert done.returncode == 0, done.stderr
    alone, first, second = (np.load(tmp_path / f"values-{name}.npz") for name in ("1-0", "2-0", "2-1"))
    for name in alone.files:
        assert first[name].tobytes() == second[name].tobytes()
        np.testing.assert_allclose(first[name], alone[name], rtol=0, atol=1e-6)


UNEVEN = """
import sys
import mxnet as mx

store = mx.kv.create("dist_sync")
weight = mx.gluon.Parameter("w", shape=(3,))
weight.initialize()
trainer = mx.gluon.Trainer([weight], "sgd", kvstore=store)
batches = range(4 + store.rank)
steps = 0
for batch in store.shortest(batches) if sys.argv[1] == "shortest" else batches:
    with mx.autograd.record():
        loss = (weight.data() * batch).sum()
    loss.backward()
    trainer.step(2)
    steps += 1
print(f"{steps} steps", flush=True)
"""


def test_numbers_of_batches_that_differ(tmp_path: Path) -> None:
    """An error, or an epoch that ends on all workers when it ends on one."""
    program = tmp_path / "uneven.py"
    program.write_text(UNEVEN)
    done = started("-n", 2, program, "shortest")
    assert sorted(done.stdout.splitlines()) == ["[0] 4 steps", "[1] 4 steps"], done.stderr
    begin = time.monotonic()
    done = started("-n", 2, program, "all")
    assert done.returncode == 1
    assert time.monotonic() - begin < 30
    assert "worker 1 of 2 waited for the max of values, but worker 0 has ended" in done.stderr


def test_restarts(tmp_path: Path) -> None:
    program = tmp_path / "restarted.py"
    program.write_text(
        "import sys, pathlib\n"
        "path = pathlib.Path(sys.argv[1])\n"
        "path.write_text(path.read_text() + 'x')\n"
        "sys.exit(3 if len(path.read_text()) < 3 else 0)\n"
    )
    count = tmp_path / "count"
    count.write_text("")
    done = started("-n", 1, "--restarts", 4, program, count)
    assert (done.returncode, count.read_text()) == (0, "xxx")
    assert "start 3 of at most 5" in done.stderr
    count.write_text("")
    assert started("-n", 1, program, count).returncode == 3


@pytest.mark.parametrize("role", ["server", "scheduler"])
def test_processes_of_other_roles_end_at_once(role: str) -> None:
    program = "import mxforge; raise SystemExit('a worker')"
    done = subprocess.run([sys.executable, "-c", program], check=False, env={**os.environ, "DMLC_ROLE": role})
    assert done.returncode == 0


def test_options(tmp_path: Path) -> None:
    assert "launch requires a program" in started("-n", 2).stderr
    assert "hosts: no such file" in started("-n", 2, "--hostfile", tmp_path / "hosts", "true").stderr
    done = started("-n", 1, "-s", 2, "--launcher", "ssh", "--env", "NAME:a b", "sh", "-c", "echo $NAME")
    assert done.stdout == "[0] a b\n"
    assert "--num-servers is ignored" in done.stderr


def test_python_programs_run_under_the_runner() -> None:
    under = launch._under_runner
    assert under(["python", "-u", "-W", "error", "a.py", "-x"]) == [
        *("python", "-u", "-W", "error", "-m", "mpi4py", "a.py", "-x")
    ]
    assert under(["python3.11", "-m", "train"]) == ["python3.11", "-m", "mpi4py", "-m", "train"]
    assert under(["a.py", "1"]) == [sys.executable, "-m", "mpi4py", "a.py", "1"]
    assert under(["mxforge", "exec", "a.py"]) == [sys.executable, "-m", "mpi4py", "a.py"]
    assert under(["python", "-m", "mpi4py", "a.py"]) == ["python", "-m", "mpi4py", "a.py"]
    assert under(["sh", "a.sh"]) == ["sh", "a.sh"]


def test_a_missing_launcher_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(launch, "sys", SimpleNamespace(executable=str(tmp_path / "python")))
    monkeypatch.setattr(launch.shutil, "which", lambda name: None)
    with pytest.raises(ToolError, match=r"mpiexec is not installed: pip install 'mxforge\[mpi\]'"):
        launch._mpiexec(2, None, [])


def test_variables_are_checked() -> None:
    with pytest.raises(UsageError, match="not of the form NAME:VALUE"):
        launch._mpiexec(1, None, ["NAME"])


def test_many_keys_are_measured() -> None:
    done = started("-n", 2, sys.executable, "-m", "mxforge.tools.bench.distributed_worker", "keys")
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout.removeprefix("[0] ").partition("}")[0] + "}")
    assert row["keys"] == 160 and row["pushpull"] > row["allreduce"] / 10 > 0
