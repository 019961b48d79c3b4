"""Sums between GPUs by NCCL: a simulated library with simulated GPUs, and the bindings with functions in Python."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.frontend.kvstore.distributed import DistributedKVStore
from mxforge.ir.types import DType
from mxforge.runtime import nccl
from mxforge.runtime.communicator import CommunicationError, ThreadGroup
from mxforge.runtime.device import number_of
from mxforge.runtime.devices import open_device
from mxforge.runtime.nccl_library import SIGNATURES, Config, NcclLibrary, UniqueId
from mxforge.runtime.storage import storage_of
from support.simulated_nccl import SimulatedNccl
from worker_threads import in_threads

Array = np.ndarray[Any, Any]
nd = mx.nd


@pytest.fixture
def library(simulated_gpus: Any, monkeypatch: pytest.MonkeyPatch) -> SimulatedNccl:
    library = SimulatedNccl()
    monkeypatch.setattr(nccl, "load", lambda: library)
    return library


def members(work: Callable[[nccl.NcclGroup, Any, int], Any], library: SimulatedNccl) -> list[Any]:
    """What each of two members returns or raises."""
    group = ThreadGroup(2, 10.0)

    def run(rank: int) -> Any:
        device = open_device("gpu", rank)
        return work(nccl.NcclGroup(group.member(rank), device, library), device, rank)

    return in_threads(run, 2)


def on(device: Any, values: Array) -> tuple[Any, int]:
    storage = storage_of(values, device)
    return storage, number_of(storage.address)


def read(device: Any, storage: Any, like: Array) -> Array:
    result = np.empty_like(like)
    device.read(storage.address, result)
    return result


def test_collectives(library: SimulatedNccl) -> None:
    def work(group: nccl.NcclGroup, device: Any, rank: int) -> list[list[float]]:
        values = np.arange(6, dtype=np.float32) + 10 * rank
        storages, (a, b, c, d) = zip(*[on(device, values) for _ in range(4)], strict=True)
        part, target = on(device, np.zeros(3, np.float32))
        gathered, into = on(device, np.zeros(12, np.float32))
        group.all_reduce("sum", a, DType.F32, 6)
        group.reduce_scatter("mean", b, target, DType.F32, 3)
        group.all_gather(c, into, DType.F32, 6)
        group.broadcast(d, DType.F32, 6, 1)
        group.wait()
        found = [read(device, s, values) for s in (storages[0], storages[3])]
        found += [read(device, part, values[:3]), read(device, gathered, np.zeros(12, np.float32))]
        return [array.tolist() for array in found]

    first, second = members(work, library)
    assert first[0] == second[0] == [10, 12, 14, 16, 18, 20]
    assert first[1] == second[1] == [10, 11, 12, 13, 14, 15]
    assert (first[2], second[2]) == ([5, 6, 7], [8, 9, 10])
    assert first[3] == second[3] == [0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15]


def test_a_member_that_does_not_come_is_an_error(library: SimulatedNccl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nccl, "settings", lambda: SimpleNamespace(communication_seconds=0.2))

    def work(group: nccl.NcclGroup, device: Any, rank: int) -> Any:
        _, address = on(device, np.zeros(3, np.float32))
        if rank == 1:
            return None
        group.all_reduce("sum", address, DType.F32, 3)
        with pytest.raises(CommunicationError, match=r"worker 0 of 2, gpu\(0\) waited 0 s for values of other GPUs"):
            group.wait()
        with pytest.raises(CommunicationError, match="in which another worker does not take part"):
            group.all_reduce("sum", address, DType.F32, 3)
        return "named"

    assert members(work, library) == ["named", None]
    assert [member.is_aborted for member in library.members.values() if member.rank == 0] == [True]


def test_an_error_of_the_library_is_that_of_all(library: SimulatedNccl) -> None:
    def work(group: nccl.NcclGroup, device: Any, rank: int) -> None:
        _, address = on(device, np.zeros(3, np.float32))
        group.all_reduce("sum", address, DType.F32, 3 - rank)
        group.wait()

    for rank, error in enumerate(members(work, library)):
        assert isinstance(error, CommunicationError), error
        assert str(error) == f"worker {rank} of 2, gpu({rank}): NCCL: error 5"


@pytest.mark.parametrize("kind", ["nccl", "dist_device_sync"])
@pytest.mark.parametrize("update", [True, False], ids=["store", "trainer"])
def test_stores_train_on_gpus(library: SimulatedNccl, kind: str, update: bool) -> None:
    """As with sums on the host, without copies of gradients there."""

    def train(kind: str) -> list[Any]:
        group = ThreadGroup(2, 10.0)

        def work(rank: int) -> list[bytes]:
            ctx = mx.gpu(rank)
            store = DistributedKVStore(kind, group.member(rank))
            net = mx.gluon.nn.HybridSequential(prefix="net_")
            with net.name_scope():
                net.add(mx.gluon.nn.Dense(4, in_units=3), mx.gluon.nn.Dense(1, in_units=4))
            net.initialize(ctx=ctx)
            for k, parameter in enumerate(net.collect_params().values()):
                parameter.set_data(nd.full(parameter.shape, 0.1 * k + rank, ctx=ctx))
            sgd = {"learning_rate": 0.1}
            trainer = mx.gluon.Trainer(net.collect_params(), "sgd", sgd, store, update_on_kvstore=update)
            for step in range(3):
                with mx.autograd.record():
                    loss = net(nd.full((2, 3), 0.1 * step + rank, ctx=ctx)).sum()
                loss.backward()
                trainer.step(4)
            return [p.data().asnumpy().tobytes() for p in net.collect_params().values()]

        return in_threads(work, 2)

    first, second = train(kind)
    assert library.calls == ["all_reduce"] * 6
    assert isinstance(first, list), first
    assert first == second == train("dist_sync")[0]


def test_half_precision_and_other_arrays(library: SimulatedNccl) -> None:
    group = ThreadGroup(2, 10.0)

    def work(rank: int) -> list[list[float]]:
        store = DistributedKVStore("nccl", group.member(rank))
        keys, dtypes = ["a", "b", "c"], ("float16", "bfloat16", "int32")
        arrays = [nd.full((3,), rank + 1, ctx=mx.gpu(rank), dtype=dtype) for dtype in dtypes]
        store.init(keys, arrays)
        for _ in range(2):
            store.pushpull(keys, arrays)
        on_host = nd.full((3,), rank)
        store.init("h", on_host)
        store.pushpull("h", on_host)
        return [array.asnumpy().tolist() for array in (*arrays, on_host)]

    for found in in_threads(work, 2):
        assert found == [[6, 6, 6]] * 3 + [[1, 1, 1]], found


def test_without_the_library(simulated_gpus: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One worker lacks it: an error on all of them, or sums on the host."""
    missing = iter([True, False])

    def load() -> Any:
        if next(missing):
            raise CommunicationError("NCCL cannot be loaded (no file): pip install 'mxforge[nccl]'")
        return SimulatedNccl()

    monkeypatch.setattr(nccl, "load", load)
    for kind, expected in (("nccl", "pip install"), ("dist_device_sync", "[3.0]")):
        missing, group = iter([True, False]), ThreadGroup(2, 10.0)

        def work(rank: int, kind: str = kind, group: ThreadGroup = group) -> str:
            store = DistributedKVStore(kind, group.member(rank))
            array = nd.full((1,), rank + 1, ctx=mx.gpu(rank))
            store.init("a", array)
            try:
                store.pushpull("a", array)
            except mx.MXNetError as error:
                return str(error)
            return str(array.asnumpy().tolist())

        for found in in_threads(work, 2):
            assert expected in str(found), found


def test_arguments_of_the_functions() -> None:
    """The bindings pass structures and pointers as the functions of C take them."""
    seen: list[Any] = []

    def result(name: str) -> Any:
        def function(*arguments: Any) -> int:
            if name == "ncclGetUniqueId":
                arguments[0].contents.bytes = b"identity"
            elif name == "ncclCommInitRankConfig":
                arguments[0][0] = 77
                config = arguments[4].contents
                assert (config.size, config.magic, config.version) == (ctypes.sizeof(Config), 0xCAFEBEEF, 21700)
                assert (config.blocking, config.min_ctas, config.net_name) == (0, -(2**31), None)
                seen.append((name, arguments[1], arguments[2].bytes, arguments[3]))
                return 7
            elif name == "ncclCommGetAsyncError":
                arguments[1][0] = 3
            else:
                seen.append((name, *arguments))
            return 0

        return ctypes.CFUNCTYPE(ctypes.c_int, *SIGNATURES[name])(function)

    functions = {name: result(name) for name in SIGNATURES}
    functions["ncclGetErrorString"] = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int)(lambda code: _text(b"remote"))
    functions["ncclGetLastError"] = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(lambda code: _text(b"peer 3"))
    library = NcclLibrary(lambda name: ctypes.cast(functions[name], ctypes.c_void_p).value or 0)
    device: Any = SimpleNamespace(enter=lambda: None, stream=SimpleNamespace(handle=5))
    identity = library.unique_id()
    assert identity == bytes(UniqueId(b"identity"))
    handle = library.open(device, 4, identity, 2)
    assert library.state(handle) == 3
    library.all_reduce(device, handle, 16, 9, 7, 0)
    library.reduce_scatter(device, handle, 16, 32, 9, 7, 4)
    library.all_gather(device, handle, 16, 32, 9, 7)
    library.broadcast(device, handle, 16, 9, 7, 1)
    library.abort(handle)
    with pytest.raises(CommunicationError, match="NCCL: remote: peer 3"):
        library.check(6, handle)
    assert seen == [
        ("ncclCommInitRankConfig", 4, b"identity", 2),
        ("ncclAllReduce", 16, 16, 9, 7, 0, 77, 5),
        ("ncclReduceScatter", 16, 32, 9, 7, 4, 77, 5),
        ("ncclAllGather", 16, 32, 9, 7, 77, 5),
        ("ncclBroadcast", 16, 16, 9, 7, 1, 77, 5),
        ("ncclCommAbort", 77),
    ]


_texts: dict[bytes, Any] = {}


def _text(content: bytes) -> int:
    return ctypes.addressof(_texts.setdefault(content, ctypes.create_string_buffer(content)))
