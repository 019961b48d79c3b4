"""Prepared memory: each owner of parameters keeps its own, up to a number of bytes in the whole process."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from weakref import WeakSet

import mxforge as mx
import pytest
from mxforge.ir.dialects.core import CoreBuilder
from mxforge.ir.program import Computation, Program
from mxforge.passes.manager import Options
from mxforge.runtime import idle, prepared
from mxforge.runtime.derivative import Differentiable
from mxforge.runtime.devices import HOST
from mxforge.runtime.host.executable import Executable, listen
from mxforge.runtime.prepared import Prepared, PreparedPool, Version
from rewriting import tensor

MIB = 1 << 20


class Owner:
    """An owner of parameters, registered under this number."""

    def __init__(self, number: int) -> None:
        self.version = Version(number, 1)
        idle.add_owner(number, self)


@pytest.fixture
def owners(monkeypatch: pytest.MonkeyPatch) -> list[Owner]:
    """Twelve owners. The pools of a test are the only ones."""
    monkeypatch.setattr(prepared, "_pools", WeakSet())
    return [Owner(-1 - i) for i in range(12)]


def run(pool: PreparedPool, owner: Owner) -> Prepared:
    """Use a block as a run does. True in its `version` if it is the one that the owner prepared."""
    block = pool.take(owner.version)
    block.set_version(owner.version)
    pool.put(block)
    return block


def test_any_number_of_owners_keep_their_blocks(owners: list[Owner]) -> None:
    pool = PreparedPool(MIB, HOST.allocate_zeroed)
    first = [run(pool, owner) for owner in owners]
    assert [run(pool, owner) for owner in owners] == first
    assert len(set(map(id, first))) == len(owners) and pool.idle_bytes() == len(owners) * MIB


def test_the_least_recently_used_blocks_of_all_pools_make_room(
    owners: list[Owner], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepared, "BUDGET", 4 * MIB)
    small, large = PreparedPool(MIB, HOST.allocate_zeroed), PreparedPool(2 * MIB, HOST.allocate_zeroed)
    first = [run(small, owner) for owner in owners[:4]]
    assert run(small, owners[0]) is first[0]  # the second is now the oldest
    run(large, owners[0])
    assert small.owners() == {owners[0].version.owner, owners[3].version.owner}
    assert small.idle_bytes() + large.idle_bytes() == 4 * MIB
    run(small, owners[5])
    assert small.owners() == {owners[0].version.owner, owners[5].version.owner}


def test_a_block_larger_than_the_budget_is_used(owners: list[Owner], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared, "BUDGET", MIB)
    pool = PreparedPool(2 * MIB, HOST.allocate_zeroed)
    assert run(pool, owners[0]) is run(pool, owners[0])
    run(pool, owners[1])
    assert pool.owners() == {owners[1].version.owner}


def test_blocks_of_owners_that_do_not_live_are_used_again(owners: list[Owner]) -> None:
    pool = PreparedPool(MIB, HOST.allocate_zeroed)
    block = run(pool, owners.pop())
    gc.collect()
    assert run(pool, owners[0]) is block and pool.idle_bytes() == MIB


def test_runs_at_once_use_different_blocks(owners: list[Owner]) -> None:
    pool = PreparedPool(MIB, HOST.allocate_zeroed)
    blocks = [pool.take(owners[0].version) for _ in range(3)]
    for block in blocks:
        block.set_version(owners[0].version)
        pool.put(block)
    assert len(set(map(id, blocks))) == 3 and pool.take(owners[0].version) in blocks


@pytest.fixture
def launches() -> Iterator[list[str]]:
    """The symbols of all launches from now on."""
    found: list[str] = []

    def note(_program: Program, launch: Computation | None, _begin: int, _end: int) -> None:
        if launch is not None:
            found.append(launch.symbol)

    listen(note)
    yield found
    listen(None)


def test_blocks_of_one_architecture_pack_their_weights_once(launches: list[str]) -> None:
    data = mx.nd.ones((16, 256))
    nets = [mx.gluon.nn.Dense(256, in_units=256) for _ in range(10)]
    for net in nets:
        net.initialize()
        net.hybridize()
    counts: list[int] = []
    for _ in range(3):
        for net in nets:
            launches.clear()
            net(data).wait_to_read()
            counts.append(len(launches))
    assert set(counts[10:]) == {counts[-1]} and counts[9] > counts[-1]


@pytest.mark.parametrize(("rows", "keeps"), [(20, True), (2000, False)])
def test_training_programs_keep_weights_only_if_packing_takes_long(rows: int, keeps: bool) -> None:
    """A forward program can run many times between two updates of the weights, a backward program does not."""
    b = CoreBuilder()
    x, w = b.input(tensor(rows, 256)), b.input(tensor(256, 256), parameter=True)
    y = b.dot(x, w, (), (), (1,), (1,))
    derivative = Differentiable(b.build([b.mul(y, y)]), Options(), HOST).derivative((0, 1))
    forward, backward = (f.specialization.executable for f in (derivative.forward, derivative.backward))
    assert isinstance(forward, Executable) and isinstance(backward, Executable)
    assert bool(forward.program.prepare) is keeps and backward.program.prepare == ()
    assert (backward.program.prepared_bytes, backward.program.arena_bytes > 0) == (0, True)
