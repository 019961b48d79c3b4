"""Programs on devices whose kernels are launched one by one: direct and bound calls, and lists of launches."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from mxforge.codegen.triton.program_emitter import TritonEmitter
from mxforge.ir.dialects.core import CoreBuilder
from mxforge.passes.manager import Options
from mxforge.runtime.compile import executable_for
from mxforge.runtime.device import DeviceAddress, DeviceError
from mxforge.runtime.devices import open_device
from mxforge.runtime.launch_list import LaunchList
from mxforge.runtime.launched_program import DeviceInstance, LaunchedProgram
from mxforge.runtime.prepared import Version
from mxforge.runtime.storage import Storage, storage_of
from rewriting import tensor

pytestmark = [pytest.mark.any_processor, pytest.mark.usefixtures("simulated_gpus")]
LENGTH = 8


def gpu(number: int = 0) -> Any:
    return open_device("gpu", number)


def vector(*start: float) -> Storage:
    """A vector on the GPU."""
    return storage_of(np.resize(np.asarray(start, np.float32), LENGTH), gpu())


def read(storage: Storage) -> list[float]:
    found = np.zeros(LENGTH, np.float32)
    gpu().read(storage.address, found)
    return found.tolist()


def loaded(prepares: bool = False) -> LaunchedProgram:
    """x, w -> the sum of w plus x, and w; `w` is a parameter if the program `prepares`."""
    b = CoreBuilder()
    x, w = b.input(tensor(LENGTH)), b.input(tensor(LENGTH), parameter=prepares)
    total = b.broadcast(b.sum(w, (0,)), (LENGTH,), ())
    made = executable_for(b.build([b.add(total, x), w]), Options(), gpu())
    assert isinstance(made, LaunchedProgram) and bool(made.program.prepare) is prepares
    return made


def test_a_direct_call_is_one_list_of_launches() -> None:
    program, x, w, y, z = loaded(), vector(1), vector(10), vector(0), vector(0)
    call, before = program.direct_call(), gpu().lists
    for factor in (1, 2):
        call(x.address, w.address, y.address, z.address)
        assert gpu().lists == before + factor
        assert read(y) == [81] * LENGTH and read(z) == [10] * LENGTH


def test_a_list_has_the_edges_of_its_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two products are independent; a third one reads both."""
    monkeypatch.setattr(TritonEmitter, "joins", False)
    b = CoreBuilder()
    x, y = (b.input(tensor(16, 16)) for _ in range(2))
    products = [b.matmul(v, v) for v in (x, y)]
    program = executable_for(b.build([b.matmul(products[0], products[1]), *products]), Options(), gpu())
    assert isinstance(program, LaunchedProgram)
    (launches,) = DeviceInstance(program).steps
    assert isinstance(launches, LaunchList) and len(launches.launches) == 3
    assert launches.edges() == [(0, 2), (1, 2)]


def test_other_operands_are_refused() -> None:
    program, good = loaded(), vector(1)
    call, before = program.direct_call(), gpu().lists
    foreign = storage_of(np.zeros(LENGTH, np.float32), gpu(1))
    for bad in (good.address.value, foreign.address, good.address + 4):
        for position in range(4):
            operands: list[Any] = [good.address] * 4
            operands[position] = bad
            with pytest.raises(DeviceError):
                call(*operands)
    assert gpu().lists == before
    with pytest.raises(DeviceError, match="not in its memory"):
        program.bound_call({1: foreign.address})


def test_bound_operands_that_are_not_aligned_are_copied() -> None:
    w = storage_of(np.arange(LENGTH + 1, dtype=np.float32), gpu())
    x, y, z = vector(0), vector(0), vector(0)
    run, prepare = loaded(prepares=True).bound_call({1: w.address + 4})
    assert prepare is not None
    prepare(1)
    run(x.address, y.address, z.address)
    assert read(y) == [36] * LENGTH


def test_a_bound_call_prepares_when_it_is_told() -> None:
    program, x, w, y, z = loaded(prepares=True), vector(1), vector(10), vector(0), vector(0)
    run, prepare = program.bound_call({1: w.address})
    assert prepare is not None
    for version, value in enumerate((10, 30)):
        gpu().write(w.address, np.full(LENGTH, value, np.float32))
        prepare(version)
        gpu().write(w.address, np.full(LENGTH, 7, np.float32))  # is not seen before the next version
        for _ in range(2):
            run(x.address, y.address, z.address)
            assert read(y) == [8 * value + 1] * LENGTH and read(z) == [7] * LENGTH


def test_owners_of_parameters_share_a_program() -> None:
    program, x, y, z = loaded(prepares=True), vector(1), vector(0), vector(0)
    weights = [vector(value) for value in (1, 5)]
    calls = [program.bound_call({1: w.address}) for w in weights]
    for call in calls:
        assert call.prepare is not None
        call.prepare(0)
    for value, call in zip((1, 5), calls, strict=True):
        call.run(x.address, y.address, z.address)
        assert read(y) == [8 * value + 1] * LENGTH


def test_memory_that_was_released_is_prepared_again() -> None:
    program, x, w, y, z = loaded(prepares=True), vector(1), vector(10), vector(0), vector(0)
    run, prepare = program.bound_call({1: w.address})
    assert prepare is not None
    prepare(Version(-77, 1))
    runs: Any = getattr(run, "__self__")  # noqa: B009
    for _ in range(2):
        run(x.address, y.address, z.address)
        assert read(y) == [81] * LENGTH
        assert runs.idle_bytes() >= program.program.prepared_bytes > 0 and runs.owners() == {-77}
        runs.release()
        assert runs.idle_bytes() == 0 and runs.owners() == set()


def test_threads_run_one_bound_call() -> None:
    program, w = loaded(), vector(10)
    run, _ = program.bound_call({1: w.address})
    wrong: list[Any] = []

    def work(number: int) -> None:
        x, y, z = vector(number), vector(0), vector(0)
        for _ in range(20):
            run(x.address, y.address, z.address)
            if read(y) != [80 + number] * LENGTH:
                wrong.append(read(y))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_run_agrees_with_a_direct_call() -> None:
    program, x, w, y, z = loaded(), vector(1, 2), vector(3, 4), vector(0), vector(0)
    program.run([x.address, w.address], [y.address, z.address])
    expected = read(y)
    program.direct_call()(x.address, w.address, z.address, y.address)
    assert read(z) == expected == [29, 30] * (LENGTH // 2)
    with pytest.raises(DeviceError):
        program.run([x.address, DeviceAddress("gpu(1)", 256)], [y.address, z.address])
