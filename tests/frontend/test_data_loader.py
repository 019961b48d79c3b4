"""Data loaders with worker processes and threads: batches, errors, dead workers, seeds, and what is left behind."""

from __future__ import annotations

import errno
import gc
import multiprocessing
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.frontend.gluon.data.dataloader import _MultiWorkerIter
from mxforge.frontend.gluon.data.workers import memory, pool
from processes import run_apart

pytestmark = pytest.mark.usefixtures("few_objects_to_traverse")

data = mx.gluon.data
IMAGES = np.arange(7 * 200 * 200, dtype=np.float32).reshape(7, 200, 200)  # a batch is large enough for shared memory
LABELS = np.arange(7, dtype=np.int32)


class Calls(data.Dataset):
    """Samples that a function computes from their numbers."""

    def __init__(self, function: Callable[[int], Any], length: int = 8) -> None:
        self._function = function
        self._length = length

    def __getitem__(self, idx: Any) -> Any:
        return self._function(idx)

    def __len__(self) -> int:
        return self._length


def of_calls(function: Callable[[int], Any], workers: int = 1, length: int = 8, **kwargs: Any) -> Any:
    return data.DataLoader(Calls(function, length), 2, num_workers=workers, **kwargs)


def children() -> set[int | None]:
    """The processes of this one, without those that garbage keeps."""
    gc.collect()
    return {process.pid for process in multiprocessing.active_children()}


def open_files() -> int:
    """The number of open files, without those of garbage."""
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def shared_blocks() -> int:
    """The number of blocks of shared memory that this process maps."""
    return Path("/proc/self/maps").read_text().count("mxforge-batch")


@pytest.fixture(scope="module")
def images() -> Iterator[Any]:
    dataset = data.ArrayDataset(mx.nd.array(IMAGES), LABELS).transform_first(lambda x: x + 1)
    yield data.DataLoader(dataset, 3, num_workers=2)


def test_batches_of_worker_processes(images: Any) -> None:
    for _ in range(2):
        batches = list(images)
        assert [label.asnumpy().tolist() for _, label in batches] == [[0, 1, 2], [3, 4, 5], [6]]
        assert (np.concatenate([image.asnumpy() for image, _ in batches]) == IMAGES + 1).all()
        assert {str(x.context) for batch in batches for x in batch} == {"cpu_shared(0)"}
        assert {str(np.dtype(label.dtype)) for _, label in batches} == {"int32"}
    assert len(images) == 3


def test_two_epochs_at_once(images: Any) -> None:
    for (image, label), (other, _) in zip(images, images, strict=True):
        assert (image.asnumpy() == IMAGES[label.asnumpy()] + 1).all() and (image.asnumpy() == other.asnumpy()).all()
        other[:] = 0  # the memory of one batch is not that of the other
        assert image.asnumpy().all()


def test_epochs_leave_nothing_behind(images: Any) -> None:
    list(images)
    files, threads, workers = open_files(), threading.active_count(), children()
    abandoned = []
    for epoch in range(40):
        batches = iter(images)
        image, label = next(batches)
        assert (image[0].asnumpy() == IMAGES[label[0].asscalar()] + 1).all()
        if epoch % 4 == 0:
            abandoned = [batches]
    blocks = shared_blocks()
    for _ in range(10):
        next(iter(images))
    assert blocks <= shared_blocks() + 2 <= 22 and abandoned
    assert (open_files(), children()) == (files, workers)
    assert threading.active_count() <= threads  # those of earlier tests can end


def test_batches_stay_valid_without_their_loader() -> None:
    files, workers = open_files(), children()
    loader = of_calls(lambda i: mx.nd.full((200, 200), i), workers=2, length=12)
    batches = list(loader)
    del loader
    gc.collect()
    assert children() == workers and open_files() == files
    assert [batch[1, 0, 0].asscalar() for batch in batches] == [1, 3, 5, 7, 9, 11]
    batches[0][:] = -1
    assert (batches[1][0] == 2).asnumpy().all()


def test_batches_of_any_objects() -> None:
    def batchify(samples: list[Any]) -> Any:
        large = np.full((2, 100, 100), samples[0], np.float64)
        arrays = {"large": large, "small": mx.nd.array([1, 2]), "half": mx.nd.ones((200, 200), dtype="float16")}
        return arrays, "text" * 5000, None, samples

    (arrays, text, nothing, samples), second = of_calls(int, length=4, batchify_fn=batchify)
    assert (arrays["large"] == 0).all() and (second[0]["large"] == 2).all() and arrays["large"].dtype == np.float64
    arrays["large"][:] = 5
    assert arrays["small"].asnumpy().tolist() == [1, 2] and arrays["small"].context == mx.Context("cpu_shared")
    assert arrays["half"].dtype == np.float16 and (arrays["half"].asnumpy() == 1).all()
    assert text == "text" * 5000 and nothing is None and samples == [0, 1]


def test_labels_that_are_kept_do_not_keep_images(images: Any) -> None:
    labels = [label for _ in range(4) for _, label in images]
    blocks = shared_blocks()
    labels += [label for _ in range(8) for _, label in images]
    assert shared_blocks() <= blocks and len(labels) == 36


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("last, sizes", [("keep", [3, 3, 1]), ("discard", [3, 3]), ("rollover", [3, 3, 3, 3])])
def test_last_batches(last: str, sizes: list[int], workers: int) -> None:
    loader = data.DataLoader(LABELS, 3, last_batch=last, num_workers=workers, thread_pool=True)
    assert [len(batch) for _ in range(2 if last == "rollover" else 1) for batch in loader] == sizes


def test_options(images: Any) -> None:
    pinned = data.DataLoader(images._dataset, 3, num_workers=1, thread_pool=True, pin_memory=True, pin_device_id=1)
    assert {str(x.context) for batch in pinned for x in batch} == {"cpu_pinned(1)"}
    done: list[int] = []
    loader = of_calls(lambda i: done.append(i) or i, thread_pool=True, prefetch=1, auto_reload=True)
    assert len(list(loader)) == 4 and loader._iter is not None  # the next epoch has begun
    loader.clean()
    with pytest.raises(AssertionError, match="timeout must be positive, given 0"):
        of_calls(int, timeout=0)


def test_the_order_does_not_depend_on_how_long_batches_take() -> None:
    def slow(i: int) -> int:
        time.sleep(0.02 if i < 4 else 0)
        return i

    assert [batch.asnumpy().tolist() for batch in of_calls(slow, workers=3)] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    many = of_calls(int, workers=2, length=600, prefetch=250)  # more tasks than fit into the sockets
    assert np.concatenate([batch.asnumpy() for batch in many]).tolist() == list(range(600))


class Odd(Exception):
    """An error that its own pickle does not restore."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def fail_with(error: BaseException) -> Callable[[int], int]:
    def function(i: int) -> int:
        if i == 3:
            raise error
        return i

    return function


@pytest.mark.parametrize("threads", [False, True])
def test_an_error_of_the_dataset_is_raised_by_the_loop(threads: bool) -> None:
    workers = children()
    loader = of_calls(fail_with(KeyError("missing")), thread_pool=threads)
    for _ in range(2):  # the workers live on
        batches = iter(loader)
        assert next(batches).asnumpy().tolist() == [0, 1]
        with pytest.raises(KeyError, match="missing") as caught:
            next(batches)
        trace = str(caught.value.__cause__) if not threads else "".join(map(str, caught.traceback))
        assert "function" in trace and Path(__file__).name in trace
    assert threads or len(children() - workers) == 1


@pytest.mark.parametrize(
    "error, text",
    [
        (Odd(1, 2), "raised .*Odd: 1 and 2"),
        (StopIteration(5), "raised StopIteration: 5"),
        (SystemExit(3), "raised SystemExit: 3"),
    ],
)
def test_errors_that_cannot_be_raised_elsewhere(error: BaseException, text: str) -> None:
    with pytest.raises(mx.MXNetError, match=f"worker 0 of a DataLoader {text}"):
        list(of_calls(fail_with(error)))


def test_stop_iteration_of_a_thread_does_not_end_the_epoch() -> None:
    with pytest.raises(RuntimeError, match="the dataset or batchify_fn raised StopIteration"):
        list(of_calls(fail_with(StopIteration()), thread_pool=True))


def test_batches_that_cannot_be_sent() -> None:
    with pytest.raises((AttributeError, TypeError, mx.MXNetError), match=r"pickle|get local object"):
        list(of_calls(int, batchify_fn=lambda samples: lambda: samples))


def test_samples_that_make_no_batch(images: Any) -> None:
    shapes = [mx.nd.ones((2,)), mx.nd.ones((3,))]
    for workers in (0, 1):
        with pytest.raises(mx.MXNetError, match=r"stack: Shape inconsistent"):
            list(data.DataLoader(shapes, 2, num_workers=workers, thread_pool=True))
        with pytest.raises(ValueError, match=r"samples of a batch have different numbers of elements: \[1, 2\]"):
            list(data.DataLoader([(1,), (1, 2)], 2, num_workers=workers, thread_pool=True))
        with pytest.raises(IndexError):
            list(data.DataLoader([1, 2], batch_sampler=[[0, 2]], num_workers=workers, thread_pool=True))
        assert list(data.DataLoader([], 2, num_workers=workers, thread_pool=True)) == []


def test_a_killed_worker_is_an_error_at_once(images: Any) -> None:
    def sample(i: int) -> int:
        if i == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return i

    start = time.monotonic()
    loader = of_calls(sample, workers=2)
    for _ in range(2):  # the second epoch starts new workers
        with pytest.raises(
            mx.MXNetError, match=r"worker \d of a DataLoader \(process \d+\) was killed by SIGKILL, perhaps"
        ):
            list(loader)
    with pytest.raises(mx.MXNetError, match=r"worker 0 of a DataLoader \(process \d+\) ended with exit code 7"):
        list(of_calls(lambda i: os._exit(7)))
    assert time.monotonic() - start < 20


def test_a_timeout() -> None:
    workers = children()
    for threads in (False, True):
        batches = iter(of_calls(lambda i: time.sleep(60), timeout=0.1, thread_pool=threads))
        with pytest.raises(multiprocessing.TimeoutError):
            next(batches)
    del batches
    gc.collect()
    assert children() == workers  # a worker that is busy is ended too


def test_an_interrupted_epoch() -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    loader = of_calls(lambda i: (time.sleep(0.01), i)[1], workers=2)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for delay in (0.005, 0.02):
            with pytest.raises(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, delay)
                for _ in range(100):
                    list(loader)
            assert [batch.asnumpy().tolist() for batch in loader] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    finally:
        signal.signal(signal.SIGALRM, before)


def test_an_interrupted_task_does_not_drop_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    loader = of_calls(lambda i: i, workers=1)
    expected = [batch.asnumpy().tolist() for batch in loader]

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(pool, "Task", interrupted)
        with pytest.raises(KeyboardInterrupt):
            list(loader)
    assert [batch.asnumpy().tolist() for batch in loader] == expected


def test_a_forked_process_may_not_use_the_loader_and_does_not_end_it(images: Any) -> None:
    child = os.fork()
    if not child:
        try:
            list(images)
        except mx.MXNetError as error:
            images._worker_pool.terminate()
            os._exit(0 if "serve the process that created it" in str(error) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(list(images)) == 3


def test_no_memory_for_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(memory.os, "posix_fallocate", full)
    text = r"worker cannot get 327,680 bytes of shared memory for a batch: No space left on device. Use fewer workers"
    with pytest.raises(mx.MXNetError, match=text):
        list(of_calls(lambda i: mx.nd.ones((200, 200))))


def test_systems_without_files_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(memory.os, "memfd_create")
    blocks = shared_blocks()
    batches = list(of_calls(lambda i: mx.nd.full((200, 200), i)))
    assert [batch[1, 0, 0].asscalar() for batch in batches] == [1, 3, 5, 7] and shared_blocks() == blocks


def draws(i: int) -> np.ndarray:
    return np.array([mx.nd.random.uniform(shape=(1,)).asscalar(), np.random.rand(), random.random()])


def test_seeds_do_not_depend_on_the_number_of_workers() -> None:
    found = []
    for workers in (1, 3):
        mx.random.seed(1)
        np.random.seed(2)
        random.seed(3)
        loader = of_calls(draws, workers)
        found.append([np.concatenate([batch.asnumpy() for batch in loader]) for _ in range(2)])
        found[-1].append([np.random.rand(), random.random()])  # a loader does not advance these generators
    assert all((one == other).all() for one, other in zip(found[0][:2], found[1][:2], strict=True))
    assert found[0][2] == found[1][2] == [np.random.RandomState(2).rand(), random.Random(3).random()]
    assert len(np.unique(np.concatenate(found[0][:2]))) == 2 * 8 * 3
    np.random.seed(5)
    assert not (np.concatenate([batch.asnumpy() for batch in loader])[:, 1] == found[0][0][:, 1]).any()


def test_workers_compute_with_one_thread() -> None:
    from mxforge.runtime.host.threads import get_num_threads

    mx.nd.ones((1000, 1000)).sum().wait_to_read()  # starts the threads of this process
    net = mx.gluon.nn.Dense(3, in_units=4)
    net.initialize()
    net.hybridize()
    x = mx.nd.random.uniform(shape=(5, 4))
    expected = net(x).asnumpy()
    loader = of_calls(lambda i: (net(x), mx.nd.ones((3, i + 1)).sum(), get_num_threads(), mx.autograd.is_recording()))
    with mx.autograd.record():
        for outputs, sums, threads, recording in loader:
            assert (outputs.asnumpy() == expected).all() and set(threads.asnumpy()) == {1}
            assert not recording.asnumpy().any() and (sums[1] - sums[0]).asscalar() == 3


def test_iterators_of_other_packages() -> None:
    """Classes derived from `_MultiWorkerIter` with worker functions that return pickles, as in GluonCV."""

    class Iter(_MultiWorkerIter):
        def _push_next(self) -> None:
            samples = next(self._iter, None)
            if samples is not None:
                self._data_buffer[self._sent_idx] = self._worker_pool.apply_async(self._worker_fn, (samples, "kind"))
                self._sent_idx += 1

    with multiprocessing.get_context("fork").Pool(1) as pool:
        batches = Iter(pool, None, [[0, 1], [2]], worker_fn=pickled, prefetch=1)  # type: ignore[arg-type]
        assert list(batches) == [([0, 1], "kind"), ([2], "kind")]


def pickled(*args: Any) -> bytes:
    from mxforge.frontend.gluon.data.dataloader import ForkingPickler

    return bytes(ForkingPickler.dumps(args))


SPAWN = """
import mxforge as mx, numpy as np, os, random
data = mx.gluon.data
def sample(x, label):
    return x + mx.nd.random.uniform(shape=(1,)), label
def main():
    mx.random.seed(1)
    dataset = data.ArrayDataset(mx.nd.ones((4, 200, 200)), np.arange(4)).transform(sample)
    forked = [x.asnumpy() for x, _ in data.DataLoader(dataset, 2, num_workers=1)]
    import multiprocessing
    multiprocessing.set_start_method("spawn")
    mx.random.seed(1)
    loader = data.DataLoader(dataset, 2, num_workers=1)
    assert all((x.asnumpy() == y).all() for (x, _), y in zip(loader, forked, strict=True))
    try:
        data.DataLoader(dataset.transform(lambda x, y: x), 2, num_workers=1)
    except Exception as error:
        assert "pickle" in str(error) or "get local object" in str(error), error
    else:
        raise AssertionError
    global batches  # they are alive at exit, as are the loader and its worker
    batches = iter(loader)
    next(batches)
"""


def test_spawned_workers_and_the_exit_of_the_interpreter(tmp_path: Path) -> None:
    (tmp_path / "spawned.py").write_text(SPAWN)
    run_apart(f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import spawned; spawned.main()", tmp_path)
