"""Programs of several workers, here threads: the estimator, and data that is divided among them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.frontend.kvstore.distributed import DistributedKVStore
from worker_threads import workers

nd, gluon = mx.nd, mx.gluon
ROWS, BATCH = 12, 4
DATA = np.random.RandomState(0).rand(ROWS, 3).astype(np.float32)
LABELS = DATA.sum(1, keepdims=True)


class SplitSampler(gluon.data.Sampler):
    """A part of the indices, as in MXNet's examples of distributed training."""

    def __init__(self, length: int, num_parts: int = 1, part_index: int = 0) -> None:
        self._length = length // num_parts
        self._start = self._length * part_index

    def __iter__(self) -> Any:
        return iter(range(self._start, self._start + self._length))

    def __len__(self) -> int:
        return self._length


def fitted(store: Any, rows: np.ndarray[Any, Any], labels: np.ndarray[Any, Any], batch: int, rate: float) -> bytes:
    """The parameters after two epochs of the estimator."""
    from mxforge.frontend.gluon.contrib.estimator import Estimator, LoggingHandler

    net = gluon.nn.Dense(1, in_units=3, prefix="net_")
    net.initialize()
    net.weight.set_data(nd.array([[0.1, 0.2, 0.3]]) + (store.rank if store else 0))
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": rate}, kvstore=store)
    estimator = Estimator(net, gluon.loss.L2Loss(), mx.metric.MSE(), trainer=trainer, context=mx.cpu())
    dataset = gluon.data.ArrayDataset(rows, labels)
    parts = {} if store is None else {"num_parts": store.num_workers, "part_index": store.rank}
    data = gluon.data.DataLoader(dataset, batch, sampler=SplitSampler(len(rows), **parts))
    estimator.fit(data, epochs=2, event_handlers=[LoggingHandler(log_interval=100)])
    return np.concatenate([p.data().asnumpy().ravel() for p in net.collect_params().values()]).tobytes()


def test_the_estimator_trains_with_all_workers() -> None:
    """As one process with batches of the rows of both. A step divides by the batch of a worker, as in MXNet."""
    first, second = workers(lambda store: fitted(store, DATA, LABELS, BATCH // 2, 0.05), 2)
    assert isinstance(first, bytes), first
    assert first == second
    order = np.arange(ROWS).reshape(2, -1, BATCH // 2).swapaxes(0, 1).reshape(-1)
    alone = fitted(None, DATA[order], LABELS[order], BATCH, 0.1)
    np.testing.assert_allclose(np.frombuffer(first, np.float32), np.frombuffer(alone, np.float32), rtol=1e-5)


@pytest.mark.parametrize("kind", ["sampler", "records", "libsvm"])
def test_workers_read_parts_of_the_data(kind: str, tmp_path: Path) -> None:
    """Each row is read by one worker."""
    (tmp_path / "rows.libsvm").write_text("".join(f"{k} 0:{k}\n" for k in range(ROWS)))
    if kind == "records":
        records = mx.recordio.MXRecordIO(str(tmp_path / "rows.rec"), "w")
        for k in range(ROWS):
            header = mx.recordio.IRHeader(0, float(k), k, 0)
            records.write(mx.recordio.pack_img(header, np.full((4, 4, 3), k, np.uint8), img_fmt=".png"))
        records.close()

    def work(store: DistributedKVStore) -> list[float]:
        part = {"num_parts": store.num_workers, "part_index": store.rank}
        if kind == "sampler":
            return [float(k) for k in SplitSampler(ROWS, **part)]
        if kind == "libsvm":
            path = str(tmp_path / "rows.libsvm")
            batches: Any = mx.io.LibSVMIter(data_libsvm=path, data_shape=(1,), batch_size=2, **part)
        else:
            path = str(tmp_path / "rows.rec")
            batches = mx.io.ImageRecordIter(path_imgrec=path, data_shape=(3, 4, 4), batch_size=2, **part)
        return [x for batch in batches for x in batch.label[0].asnumpy().tolist()[: 2 - batch.pad]]

    first, second = workers(work, 2)
    assert isinstance(first, list), first
    assert min(len(first), len(second)) >= ROWS // 2 - 1  # files are divided by their bytes
    assert sorted(first + second) == list(range(ROWS))
