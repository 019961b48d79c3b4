"""CUDA devices on a fake driver: the order of work, memory, graphs, threads, several devices, errors."""

from __future__ import annotations

import gc
import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.ir.caches import clear_caches
from mxforge.ir.dialects.core import CoreBuilder
from mxforge.passes.manager import Options
from mxforge.runtime import idle
from mxforge.runtime.compile import executable_for
from mxforge.runtime.cuda.stream import CudaStream
from mxforge.runtime.devices import open_device
from mxforge.runtime.staging import LARGE, SMALL
from mxforge.runtime.storage import Storage, as_numpy, copy_between, storage_of
from rewriting import tensor

pytest.importorskip("triton", reason="triton is not installed")
pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
from support.fake_cuda import FakeCuda

pytestmark = [pytest.mark.usefixtures("fake_cuda"), pytest.mark.any_processor]
GPU = mx.gpu(0)
LENGTH = 16
nd, nn = mx.nd, mx.gluon.nn


def gpu(number: int = 0) -> Any:
    return open_device("gpu", number)


def chained(length: int = LENGTH) -> Any:
    """x -> ((x @ x + x) @ y) @ x ...: a program of several launches, whose values between them are scratch memory."""
    b = CoreBuilder("chained")
    x = b.input(tensor(length, length))
    y = b.add(b.matmul(x, x), x)
    return executable_for(b.build([b.matmul(y, b.matmul(y, x))]), Options(), gpu())


def expected(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    y = x @ x + x
    return y @ (y @ x)


def operands(count: int) -> tuple[list[np.ndarray[Any, Any]], list[tuple[Storage, Storage]]]:
    """Matrices, and for each its storage and that of a result."""
    rng = np.random.default_rng(0)
    values = [rng.standard_normal((LENGTH, LENGTH), np.float32) / 5 for _ in range(count)]
    return values, [(storage_of(x, gpu()), gpu().allocate(x.nbytes)) for x in values]


def check(values: Sequence[np.ndarray[Any, Any]], buffers: Sequence[tuple[Storage, Storage]]) -> None:
    for x, (_, result) in zip(values, buffers, strict=True):
        np.testing.assert_allclose(as_numpy(result, np.float32, x.shape), expected(x), rtol=1e-4, atol=1e-5)


def test_there_are_two_gpus() -> None:
    assert mx.context.num_gpus() == 2
    free, total = mx.context.gpu_memory_info(1)
    assert 0 < free <= total
    with pytest.raises(mx.MXNetError, match=r"gpu\(2\) cannot be used: num_gpus\(\) is 2"):
        nd.ones((2,), ctx=mx.gpu(2))


def test_the_target_is_that_of_the_hardware() -> None:
    target = gpu().target
    assert (target.capability, target.shared_bytes, target.multiprocessors) == (90, 227 << 10, 4)


# -- graphs


def test_the_second_run_replays_a_graph(fake_cuda: FakeCuda) -> None:
    call = chained().direct_call()
    values, buffers = operands(1)
    (x, y), calls = buffers[0], fake_cuda.calls
    call(x.address, y.address)
    launches = calls["cuLaunchKernel"]
    assert launches >= 3 and not calls["cuGraphCreate"]
    for runs in range(1, 4):
        gpu().clear(y.address, y.nbytes)
        call(x.address, y.address)
        check(values, buffers)
        assert (calls["cuGraphInstantiate"], calls["cuGraphLaunch"]) == (1, runs)
    assert calls["cuLaunchKernel"] == launches and not calls["cuGraphExecKernelNodeSetParams"]
    assert fake_cuda.launched.total() == 4 * launches


def test_a_graph_is_changed_where_addresses_change(fake_cuda: FakeCuda) -> None:
    """Runs on other operands change the nodes that have them, also while an earlier run is queued."""
    call = chained().direct_call()
    values, buffers = operands(4)
    for x, y in (*buffers, *buffers):
        call(x.address, y.address)
    check(values, buffers)
    calls = fake_cuda.calls
    assert (calls["cuGraphInstantiate"], calls["cuGraphLaunch"]) == (1, 7)
    assert 0 < calls["cuGraphExecKernelNodeSetParams"] <= 6 * calls["cuLaunchKernel"]
    before = calls["cuGraphExecKernelNodeSetParams"]
    x, y = buffers[-1]
    other = gpu().allocate(y.nbytes)
    call(x.address, other.address)
    assert calls["cuGraphExecKernelNodeSetParams"] == before + 1, "one launch writes the result"


def test_a_graph_is_right_after_a_change_that_failed(fake_cuda: FakeCuda) -> None:
    call = chained().direct_call()
    values, buffers = operands(2)
    for x, y in (buffers[0], buffers[0]):
        call(x.address, y.address)
    fake_cuda.errors["cuGraphExecKernelNodeSetParams"] = [0, 1]
    x, y = buffers[1]
    with pytest.raises(mx.MXNetError, match="CUDA_ERROR_INVALID_VALUE"):
        call(x.address, y.address)
    for x, y in buffers:
        call(x.address, y.address)
    check(values, buffers)


def test_short_lists_are_launched(fake_cuda: FakeCuda) -> None:
    x = nd.ones((3,), ctx=GPU)
    for _ in range(5):
        x = x + x
    assert x.asnumpy().tolist() == [32] * 3
    assert not fake_cuda.calls["cuGraphCreate"]


def test_copies_and_zeros_are_nodes_of_a_graph(fake_cuda: FakeCuda) -> None:
    from mxforge.codegen.records import COPY, FILL
    from mxforge.runtime.launch_list import BoundLaunch, LaunchList

    source = storage_of(np.arange(1, LENGTH + 1, dtype=np.float32), gpu())
    first, second = (storage_of(np.full(LENGTH, 7, np.float32), gpu()) for _ in range(2))
    words = np.zeros(5, np.int64).data
    step: Any = None
    launches = [
        BoundLaunch(step, COPY, 4 * LENGTH, 0, 2),
        BoundLaunch(step, FILL, 8, 2, 3),
        BoundLaunch(step, COPY, 16, 3, 5),
    ]
    work = LaunchList(launches, words, SimpleNamespace(name="moves"))  # type: ignore[arg-type]
    for target in (first, second, first):
        at = target.address.value
        words[0], words[1], words[2], words[3], words[4] = at, source.address.value, at + 8, at + 32, at
        gpu().run(work)
    for target in (first, second):
        found = as_numpy(target, np.float32, (LENGTH,)).tolist()
        assert found == [1, 2, 0, 0, 5, 6, 7, 8, 1, 2, 0, 0, *range(13, 17)]
    assert fake_cuda.calls["cuGraphExecMemcpyNodeSetParams"] == 2
    assert fake_cuda.calls["cuGraphExecMemsetNodeSetParams"] == 1


def test_what_is_dropped_is_destroyed_after_the_work(fake_cuda: FakeCuda) -> None:
    """Programs, their graphs and modules are dropped while their runs are queued."""
    gpu().synchronise()
    values, buffers = operands(1)
    before = fake_cuda.live()
    program = chained()
    call = program.direct_call()
    for _ in range(3):
        call(buffers[0][0].address, buffers[0][1].address)
    clear_caches()
    del program, call
    gc.collect()
    assert fake_cuda.live()["executable graph"] == 1
    check(values, buffers)
    gpu().synchronise()
    after = fake_cuda.live()
    assert after.get("executable graph", 0) == after.get("graph", 0) == 0
    assert after.get("module", 0) == before.get("module", 0)


# -- memory


def test_a_freed_block_serves_the_next_request(fake_cuda: FakeCuda) -> None:
    first = gpu().allocate(1000)
    address = first.address
    del first
    again = gpu().allocate(1001)
    assert again.address == address and fake_cuda.calls["cuMemAllocAsync"] == 1
    assert gpu().allocate(1000).address != address


def test_memory_returns_to_the_driver(fake_cuda: FakeCuda) -> None:
    kept = storage_of(np.arange(100, dtype=np.uint8), gpu())
    many = [gpu().allocate(n) for n in (1, 5000, 1 << 20)]
    del many
    GPU.empty_cache()
    assert fake_cuda.live()["block"] == gpu().memory.blocks_in_use() == 1
    assert fake_cuda.calls["cuMemPoolTrimTo"] == 1
    assert as_numpy(kept, np.uint8, (100,)).tolist() == list(range(100))


def test_no_memory_leaks(fake_cuda: FakeCuda) -> None:
    gpu().synchronise()
    net = nn.Dense(4, in_units=8)
    net.initialize(ctx=GPU)
    net.hybridize()

    def step() -> None:
        with mx.autograd.record():
            loss = net(nd.ones((2, 8), ctx=GPU)).sum()
        loss.backward()
        nd.waitall()

    step(), step()
    gc.collect()
    before = gpu().memory.blocks_in_use(), fake_cuda.live()
    for _ in range(3):
        step()
    gc.collect()
    assert (gpu().memory.blocks_in_use(), fake_cuda.live()) == before


def test_idle_memory_is_returned_before_memory_is_out(fake_cuda: FakeCuda) -> None:
    fake_cuda.capacity = 3 << 20
    x = nd.zeros((3 << 17,), ctx=GPU)  # 1.5 MiB
    del x
    y = nd.ones((9 << 16,), ctx=GPU)  # 2.25 MiB
    assert y.asnumpy().all()
    assert fake_cuda.calls["cuMemFreeAsync"] >= 1


def test_out_of_memory_names_the_largest_buffers(fake_cuda: FakeCuda) -> None:
    fake_cuda.capacity = 4 << 20
    x = nd.ones((1 << 19,), ctx=GPU)
    y = nd.ones((1 << 17,), ctx=GPU)
    words = r"cannot allocate 4,194,304 bytes on gpu\(0\): [\d,]+ of 4,194,304 are free"
    with pytest.raises(MemoryError, match=words) as e:
        nd.zeros((1 << 20,), ctx=GPU)
    assert "the largest: 2,097,152, 524,288" in str(e.value) and "caches 0" in str(e.value)
    del x
    assert (nd.ones((3 << 18,), ctx=GPU).sum() + y.sum()).asscalar() == (3 << 18) + (1 << 17)


def test_out_of_memory_in_a_program_names_it(fake_cuda: FakeCuda) -> None:
    call = chained(256).direct_call()
    x, y = (gpu().allocate(4 << 16) for _ in range(2))
    fake_cuda.capacity = fake_cuda.contexts[0].memory.used
    with pytest.raises(MemoryError, match="chained: cannot allocate"):
        call(x.address, y.address)
    fake_cuda.capacity = 1 << 30
    call(x.address, y.address)
    gpu().synchronise()


@pytest.mark.parametrize("nbytes", [0, 1, SMALL, SMALL + 1, LARGE, 3 * LARGE + 5])
def test_arrays_pass_through_pinned_memory(nbytes: int) -> None:
    content = np.random.default_rng(1).integers(0, 256, nbytes, np.uint8)
    given = content.copy()
    storage = storage_of(given, gpu())
    given[:] = 0
    np.testing.assert_array_equal(as_numpy(storage, np.uint8, (nbytes,)), content)


def test_zeros_do_not_come_from_the_host(fake_cuda: FakeCuda) -> None:
    x = nd.zeros((100, 100), ctx=GPU)
    x.attach_grad()
    nd.waitall()
    assert not fake_cuda.calls["cuMemcpyHtoDAsync"] and not x.asnumpy().any()


@pytest.mark.parametrize("dtype", ["int8", "float16", "bfloat16", "float32", "float64", "int64"])
def test_numbers_are_filled_in_on_the_device(fake_cuda: FakeCuda, dtype: str) -> None:
    x = nd.zeros((4, 3), ctx=GPU, dtype=dtype)
    for value in (1, 0, -2, 3):
        x[1:3] = value
        y = nd.full((5,), value, ctx=GPU, dtype=dtype)
        assert x.astype("float32").asnumpy().tolist() == [[0] * 3, [value] * 3, [value] * 3, [0] * 3]
        assert y.astype("float32").asnumpy().tolist() == [value] * 5
    assert nd.ones((2,), ctx=GPU, dtype=dtype).astype("float32").asnumpy().tolist() == [1, 1]
    assert not fake_cuda.calls["cuMemcpyHtoDAsync"]


# -- several devices, threads


def test_copies_between_gpus_are_in_the_order_of_both(fake_cuda: FakeCuda) -> None:
    for first in (0, 1):
        source = storage_of(np.full(LENGTH, 1, np.float32), gpu())
        target = storage_of(np.full(LENGTH, 2, np.float32), gpu(1))
        kept = gpu(1).allocate(4 * LENGTH)
        gpu(1).copy(kept.address, target.address, 4 * LENGTH)
        copy_between(gpu(1), target.address, gpu(), source.address, 4 * LENGTH)
        gpu().write(source.address, np.full(LENGTH, 3, np.float32))
        gpu(first).synchronise()
        assert [as_numpy(s, np.float32, (1,))[0] for s in (kept, target, source)] == [2, 1, 3]
    assert fake_cuda.peers == {(0, 1), (1, 0)} and fake_cuda.calls["cuMemcpyPeerAsync"] == 2


def test_events_order_two_streams_of_a_gpu() -> None:
    """A second stream runs beside the first, but for the events that it waits for."""
    first, second = gpu().stream, CudaStream(gpu())
    x, y = storage_of(np.full(LENGTH, 1, np.float32), gpu()), gpu().allocate(4 * LENGTH)
    second.wait(first.record())
    second.copy(y.address.value, x.address.value, 4 * LENGTH)
    event = second.record()
    first.wait(event)
    gpu().clear(x.address, 4 * LENGTH)
    assert not event.is_reached()
    assert [as_numpy(s, np.float32, (LENGTH,)).tolist() for s in (x, y)] == [[0] * LENGTH, [1] * LENGTH]
    assert event.is_reached()


def test_events_are_used_again(fake_cuda: FakeCuda) -> None:
    for _ in range(10):
        gpu().stream.record().synchronise()
    assert fake_cuda.calls["cuEventCreate"] <= 2


def test_training_on_two_gpus() -> None:
    contexts = [mx.gpu(0), mx.gpu(1)]
    net = nn.Dense(2, in_units=3)
    net.initialize(mx.init.One(), ctx=contexts)
    net.hybridize()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5}, kvstore="device")
    for _ in range(3):
        parts = mx.gluon.utils.split_and_load(nd.ones((4, 3)), contexts)
        with mx.autograd.record():
            losses = [net(x).sum() for x in parts]
        mx.autograd.backward(losses)
        trainer.step(4)
    for context in contexts:
        assert net.weight.data(context).asnumpy().tolist() == [[-0.5] * 3] * 2


def test_threads_share_a_device() -> None:
    """Each thread makes the contexts of the devices that it uses current, in turn."""
    call, results, errors = chained().direct_call(), {}, []

    def work(number: int) -> None:
        try:
            for turn in range(4):
                context = mx.gpu((number + turn) % 2)
                x = nd.full((4,), number, ctx=context)
                values, buffers = operands(1)
                call(buffers[0][0].address, buffers[0][1].address)
                check(values, buffers)
                results[number, turn] = (x * 2 + 1).asnumpy().tolist()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert results == {(n, t): [2 * n + 1] * 4 for n in range(4) for t in range(4)}


# -- errors


def test_an_illegal_access_names_the_program_and_ends_the_device() -> None:
    b = CoreBuilder("sum_of_two")
    add = executable_for(b.build([b.add(b.input(tensor(8)), b.input(tensor(8)))]), Options(), gpu())
    x, gone = gpu().allocate(32), gpu().allocate(32)
    run, address = add.direct_call(), gone.address
    del gone
    gpu().release_cached()
    run(x.address, address, x.address)
    error = r"gpu\(0\): CUDA_ERROR_ILLEGAL_ADDRESS: .* started last: sum_of_two. This process cannot use gpu\(0\)"
    with pytest.raises(mx.MXNetError, match=error):
        gpu().synchronise()
    with pytest.raises(mx.MXNetError, match=error):
        nd.ones((2,), ctx=GPU).asnumpy()
    with idle.returned_to_the_system():
        del x  # programs on the host do this
    assert nd.ones((2,)).asnumpy().tolist() == [1, 1], "the CPU works"


def test_a_launch_that_is_refused_names_its_kernel(fake_cuda: FakeCuda) -> None:
    x = nd.ones((7,), ctx=GPU)
    (x * x).wait_to_read()
    fake_cuda.errors["cuLaunchKernel"] = [1]
    with pytest.raises(mx.MXNetError, match=r"gpu\(0\): CUDA_ERROR_INVALID_VALUE: .* \(kernel \w+ of "):
        x * x
    assert (x * x).asnumpy().tolist() == [1] * 7


def test_a_module_that_cannot_be_loaded(fake_cuda: FakeCuda) -> None:
    fake_cuda.errors["cuModuleLoadData"] = [200]
    with pytest.raises(mx.MXNetError, match=r"CUDA_ERROR_INVALID_IMAGE: invalid image \(loading kernel "):
        nd.ones((5,), ctx=GPU).cosh()
    assert nd.zeros((5,), ctx=GPU).cosh().asnumpy().tolist() == [1] * 5
