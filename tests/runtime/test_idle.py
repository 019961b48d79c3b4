"""Memory of idle programs: programs that ran longest ago free their memory, and some recent programs never do."""

from __future__ import annotations

import gc
import threading
from weakref import WeakSet

import mxforge as mx
import pytest
from mxforge.runtime import idle

pytestmark = pytest.mark.any_processor

MIB = 1 << 20


class Program:
    """A program with this much memory."""

    def __init__(self, nbytes: int, owner: int | None = None) -> None:
        self.nbytes, self.owner = nbytes, owner
        self.last_run = idle.clock.now
        idle.add_allocation(self, nbytes)

    def idle_bytes(self) -> int:
        return self.nbytes

    def owners(self) -> set[int]:
        return set() if self.owner is None else {self.owner}

    def release(self) -> None:
        self.nbytes = 0


class Owner:
    """An owner of parameters."""


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle, "_holders", WeakSet())


def test_the_programs_that_ran_longest_ago_free_their_memory() -> None:
    programs = [Program(MIB) for _ in range(100)]
    assert sum(p.nbytes for p in programs) <= idle.LIMIT + idle.LIMIT // 8
    assert all(p.nbytes for p in programs[-24:]) and not any(p.nbytes for p in programs[:50])


def test_a_run_makes_a_program_recent() -> None:
    first = Program(MIB)
    others: list[Program] = []
    for _ in range(100):
        first.last_run = idle.clock.now
        others.append(Program(MIB))
    assert first.nbytes and not others[0].nbytes


def test_a_few_alternating_programs_keep_their_memory() -> None:
    programs = [Program(idle.LIMIT) for _ in range(idle.ALWAYS_KEPT)]
    assert all(p.nbytes for p in programs)
    Program(idle.LIMIT)
    assert not programs[0].nbytes and all(p.nbytes for p in programs[1:])


def test_the_program_of_each_living_owner_that_ran_last_keeps_its_memory() -> None:
    owners = [Owner() for _ in range(100)]
    for number, owner in enumerate(owners):
        idle.add_owner(-1 - number, owner)
    programs = [Program(idle.LIMIT, -1 - n % 100) for n in range(200)]
    assert not any(p.nbytes for p in programs[:100])
    assert all(p.nbytes for p in programs[100:])
    owners.clear()
    Program(idle.LIMIT)
    assert sum(p.nbytes > 0 for p in programs) == idle.ALWAYS_KEPT - 1


def test_a_program_that_is_kept_for_a_user_keeps_its_memory_while_the_user_lives() -> None:
    user = Owner()
    programs = [Program(idle.LIMIT) for _ in range(40)]
    kept = Program(idle.LIMIT)
    idle.keep_memory(kept, user)
    programs += [Program(idle.LIMIT) for _ in range(40)]
    assert kept.nbytes
    del user
    programs += [Program(idle.LIMIT) for _ in range(2)]
    assert not kept.nbytes


def test_any_thread_can_hold_memory() -> None:
    def work() -> None:
        for _ in range(300):
            kept.append(Program(MIB))

    kept: list[Program] = []
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(p.nbytes for p in kept) <= idle.LIMIT + idle.LIMIT // 8


NETS = {"hybridized": True, "one by one": False}


@pytest.mark.parametrize("form", NETS)
def test_many_shapes_take_a_bounded_amount_of_memory(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle, "LIMIT", 4 * MIB)
    monkeypatch.setattr(idle, "ALWAYS_KEPT", 1)
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Conv2D(32, 3, padding=1, in_channels=3), mx.gluon.nn.MaxPool2D())
    net.initialize()
    net.hybridize(NETS[form])
    first = net(mx.nd.ones((2, 3, 100, 100))).asnumpy()
    for width in range(101, 108):
        net(mx.nd.ones((2, 3, 100, width)))
    gc.collect()
    held = [program.idle_bytes() for program in idle._holders]
    assert sum(held) <= idle.LIMIT + max(held, default=0) + idle.LIMIT // 8
    assert (net(mx.nd.ones((2, 3, 100, 100))).asnumpy() == first).all()
