"""Devices that work asynchronously: the order of work, memory that it uses, copies between devices, and its errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.ir.dialects.core import CoreBuilder
from mxforge.passes.manager import Options
from mxforge.runtime.compile import executable_for
from mxforge.runtime.device import DeviceError
from mxforge.runtime.devices import HOST, open_device
from mxforge.runtime.staging import LARGE, SMALL
from mxforge.runtime.storage import Storage, as_numpy, copy_between, storage_of
from rewriting import tensor
from support.simulated_stream import SimulatedStream

pytestmark = [pytest.mark.usefixtures("simulated_gpus"), pytest.mark.any_processor]
nd = mx.nd
LENGTH = 8


def gpu(number: int = 0) -> Any:
    return open_device("gpu", number)


def vector(value: float, device: Any = None) -> Storage:
    return storage_of(np.full(LENGTH, value, np.float32), device or gpu())


def read(storage: Storage) -> list[float]:
    found = np.zeros(LENGTH, np.float32)
    storage.device.read(storage.address, found)
    return found.tolist()


def adding() -> Any:
    """The program `sum_of_two`: x, y -> x + y."""
    b = CoreBuilder("sum_of_two")
    return executable_for(b.build([b.add(b.input(tensor(LENGTH)), b.input(tensor(LENGTH)))]), Options(), gpu())


def launches() -> int:
    return sum(gpu().launched.values())


def test_a_run_is_done_when_the_host_waits_for_it() -> None:
    add, x, y = adding(), vector(1), vector(0)
    gpu().synchronise()
    before = launches()
    for _ in range(3):
        add.run([x.address, x.address], [y.address])
    assert launches() == before
    assert read(y) == [2] * LENGTH
    assert launches() == before + 3


def test_memory_is_freed_in_the_order_of_the_work() -> None:
    """Operands and values between programs can be dropped as soon as the programs that use them are started."""
    add, total = adding(), vector(0)
    gpu().synchronise()
    before = gpu().used
    for value in range(5):
        x, y = vector(value), gpu().allocate(4 * LENGTH)
        add.run([x.address, x.address], [y.address])
        add.run([y.address, total.address], [total.address])
        del x, y
    assert gpu().used > before
    assert read(total) == [20] * LENGTH
    assert gpu().used == before


def test_the_source_of_a_write_can_change() -> None:
    content, target = np.zeros(SMALL // 4, np.float32), gpu().allocate(1000 * SMALL)
    for i in range(1000):  # more than there are blocks of pinned memory
        content[:] = i
        gpu().write(target.address + i * SMALL, content)
    content[:] = -1
    found = as_numpy(target, np.float32, (1000, SMALL // 4))
    np.testing.assert_array_equal(found, np.repeat(np.arange(1000, dtype=np.float32)[:, None], SMALL // 4, 1))


@pytest.mark.parametrize("nbytes", [0, 1, SMALL, SMALL + 1, LARGE, 3 * LARGE + 5])
def test_arrays_pass_through_pinned_memory_in_parts(nbytes: int) -> None:
    content = np.random.default_rng(1).integers(0, 256, nbytes, np.uint8)
    storage = storage_of(content, gpu())
    np.testing.assert_array_equal(as_numpy(storage, np.uint8, (nbytes,)), content)


def test_zeros_are_not_uploaded() -> None:
    before = gpu().stream.uploads
    arrays = [nd.zeros((100, 100), ctx=mx.gpu(0)), nd.zeros_like(nd.empty((9,), ctx=mx.gpu(0)))]
    arrays.append(nd.empty((3,), ctx=mx.gpu(0)))
    arrays[-1].attach_grad()
    gradient: Any = arrays[-1].grad
    assert not any(a.asnumpy().any() for a in (*arrays[:2], gradient))
    assert gpu().stream.uploads == before


def test_the_numbers_of_a_call_are_one_upload() -> None:
    weights = [nd.ones((4,), ctx=mx.gpu(0)) for _ in range(3)]
    operands = [a for w in weights for a in (w, nd.ones((4,), ctx=mx.gpu(0)))]
    for rate in (0.5, 0.25, 0.125):
        before = gpu().stream.uploads
        nd.multi_sgd_update(*operands, lrs=(rate,) * 3, wds=(0, 0, 0), num_weights=3, out=weights)
        x = nd.clip(weights[0], rate, 10)
        assert gpu().stream.uploads - before <= 2, "one for each call"
    np.testing.assert_allclose(x.asnumpy(), [0.125] * 4)
    np.testing.assert_allclose(weights[1].asnumpy(), [0.125] * 4)


def test_copies_between_devices_do_not_pass_through_the_host() -> None:
    source, target = vector(1), vector(0, gpu(1))
    uploads = gpu().stream.uploads, gpu(1).stream.uploads
    copy_between(gpu(1), target.address, gpu(), source.address, 4 * LENGTH)
    assert (gpu().stream.uploads, gpu(1).stream.uploads) == uploads
    assert read(target) == [1] * LENGTH


def test_copies_between_devices_are_in_the_order_of_both() -> None:
    """A copy sees what its source was before, and replaces what its target was before, in any order of waits."""
    for first in (0, 1):
        source, target, kept = vector(1), vector(2, gpu(1)), vector(0, gpu(1))
        gpu(1).copy(kept.address, target.address, 4 * LENGTH)
        copy_between(gpu(1), target.address, gpu(), source.address, 4 * LENGTH)
        gpu().write(source.address, np.full(LENGTH, 3, np.float32))
        gpu(first).synchronise()
        assert (read(kept), read(target), read(source)) == ([2] * LENGTH, [1] * LENGTH, [3] * LENGTH)


def test_a_source_can_be_dropped_after_a_copy() -> None:
    x = nd.arange(5, ctx=mx.gpu(0)) * 2
    y = (x + 1).as_in_context(mx.gpu(1))
    z = (y * 2).as_in_context(mx.gpu(0))
    del y
    assert z.asnumpy().tolist() == [2, 6, 10, 14, 18]


def test_copies_from_and_to_the_host() -> None:
    here = storage_of(np.arange(LENGTH, dtype=np.float32), HOST)
    there, back = gpu().allocate(4 * LENGTH), storage_of(np.zeros(LENGTH, np.float32), HOST)
    copy_between(gpu(), there.address, HOST, here.address, 4 * LENGTH)
    HOST.clear(here.address, 4 * LENGTH)
    copy_between(HOST, back.address, gpu(), there.address, 4 * LENGTH)
    assert as_numpy(back, np.float32, (LENGTH,)).tolist() == list(range(LENGTH))


def test_events_order_the_streams_of_a_device() -> None:
    """A second stream runs beside the first, but for the events that it waits for."""
    first, second = gpu().stream, SimulatedStream(gpu())
    x, y = vector(1), vector(0)
    second.wait(first.record())
    second.copy(y.address.value, x.address.value, 4 * LENGTH)
    event = second.record()
    first.wait(event)
    gpu().clear(x.address, 4 * LENGTH)
    assert not event.is_reached()
    assert (read(x), read(y)) == ([0] * LENGTH, [1] * LENGTH)
    assert event.is_reached()


def fail(operands: Sequence[Storage]) -> None:
    """Start a launch of `sum_of_two` on memory that is freed before it."""
    add, (x, y) = adding(), operands
    run = add.direct_call()
    gone = gpu().allocate(4 * LENGTH)
    address = gone.address
    del gone
    run(x.address, address, y.address)


def test_an_error_names_the_kernel_and_its_program() -> None:
    x, y = vector(1), vector(0)
    fail((x, y))
    with pytest.raises(mx.MXNetError, match=r"gpu\(0\): kernel k_\w+ of sum_of_two: BadAddress"):
        read(y)
    gpu().synchronise()  # the error is raised once
    adding().run([x.address, x.address], [y.address])
    assert read(y) == [2] * LENGTH


@pytest.mark.parametrize("wait", [nd.waitall, lambda: nd.ones((1,), ctx=mx.gpu(0)).wait_to_read()])
def test_errors_are_raised_where_mxnet_raises_them(wait: Any) -> None:
    fail((vector(1), vector(0)))
    with pytest.raises(mx.MXNetError, match="kernel"):
        wait()


def test_an_error_reaches_what_another_device_computes_from_it() -> None:
    x, y, there = vector(1), vector(0), vector(0, gpu(1))
    fail((x, y))
    copy_between(gpu(1), there.address, gpu(), y.address, 4 * LENGTH)
    with pytest.raises(mx.MXNetError, match="kernel k_"):
        read(there)
    with pytest.raises(mx.MXNetError, match="kernel k_"):
        gpu().synchronise()


def test_memory_is_freed_after_an_error() -> None:
    gpu().synchronise()
    before = gpu().used
    fail((vector(1), vector(0)))
    with pytest.raises(mx.MXNetError):
        gpu().synchronise()
    assert gpu().used == before


def test_addresses_of_other_memory_are_refused() -> None:
    other = vector(0, gpu(1))
    for call in (
        lambda: gpu().clear(other.address, 4),
        lambda: gpu().write(other.address, b"1234"),
        lambda: gpu().read(other.address, np.zeros(1)),
        lambda: gpu().copy(other.address, other.address, 4),
    ):
        with pytest.raises(DeviceError, match="is not an address of"):
            call()


def chained(length: int) -> Any:
    """x -> a program of several launches, whose values between them are scratch memory."""
    b = CoreBuilder(f"chained_{length}")
    x = b.input(tensor(length, length))
    y = b.add(b.matmul(x, x), x)
    return executable_for(b.build([b.matmul(y, b.matmul(y, x))]), Options(), gpu())


def test_programs_share_scratch_memory() -> None:
    """Runs that follow each other use the same memory; the last program needs more of it than the others."""
    programs = [chained(length) for length in (16, 24, 40)]
    assert all(program.program.scratch_bytes == program.program.arena_bytes > 0 for program in programs)
    rng = np.random.default_rng(0)
    operands = [rng.standard_normal(p.inputs[0].shape, np.float32) / 5 for p in programs]
    buffers = [(storage_of(x, gpu()), gpu().allocate(x.nbytes)) for x in operands]
    calls = [program.direct_call() for program in programs]
    gpu().synchronise()
    before = gpu().used
    for _ in range(2):
        for call, (x, y) in zip(calls[::-1], buffers[::-1], strict=True):
            call(x.address, y.address)
    for (_, y), x in zip(buffers, operands, strict=True):
        total = x @ x + x
        np.testing.assert_allclose(as_numpy(y, np.float32, x.shape), total @ (total @ x), rtol=1e-4, atol=1e-5)
    assert gpu().used - before <= 1.25 * programs[-1].program.scratch_bytes  # rounded up to a size class
