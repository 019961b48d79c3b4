"""Programs that combine their outputs over the members of a group, on the host and on a simulated GPU."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from mxforge.ir.dialects.core import CoreBuilder
from mxforge.ir.graph import Graph
from mxforge.ir.manifest import program_from_bytes, program_to_bytes
from mxforge.ir.printer import print_program
from mxforge.ir.program import Copy, Place, Program, Space, own_places
from mxforge.ir.program_rewrite import combine_outputs
from mxforge.ir.steps import Collective
from mxforge.ir.types import DType
from mxforge.ir.verifier import verify_program
from mxforge.passes.manager import Options
from mxforge.runtime.communicator import CommunicationError, ThreadGroup, communicating, starting
from mxforge.runtime.compile import compile_program
from mxforge.runtime.devices import HOST, open_device
from mxforge.runtime.exchange import Exchange
from mxforge.runtime.storage import storage_of
from rewriting import tensor

Array = np.ndarray[Any, Any]
LENGTH, MEMBERS = 33, 3


def gradients(dtype: DType = DType.F32) -> Graph:
    """x -> exp(x), the sum of its squares in every element, for which it is read, and the sum of x."""
    b = CoreBuilder()
    x = b.input(tensor(LENGTH, dtype=dtype))
    first = b.exp(x)
    sums = [b.broadcast(b.sum(v, (0,)), (LENGTH,), ()) for v in (b.mul(first, first), x)]
    return b.build([first, *sums])


def run(program: Program, x: Array, device: Any) -> list[Array]:
    operands = [
        storage_of(x, device),
        *(storage_of(np.zeros(t.shape, t.dtype.memory), device) for t in program.outputs),
    ]
    loaded = device.load(program)
    loaded.run([operands[0].address], [y.address for y in operands[1:]])
    results = [np.zeros(t.shape, t.dtype.memory) for t in program.outputs]
    for storage, result in zip(operands[1:], results, strict=True):
        device.read(storage.address, result)
    return results


def in_group(member: Callable[[int], Any], group: ThreadGroup) -> list[Any]:
    """What each member returns or raises, each on a thread of its own."""
    found: list[Any] = [None] * group.size

    def work(rank: int) -> None:
        with communicating(group.member(rank)):
            try:
                found[rank] = member(rank)
            except Exception as error:
                found[rank] = error

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(group.size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@pytest.fixture(params=["cpu", "gpu"])
def device(request: pytest.FixtureRequest) -> Any:
    if request.param == "cpu":
        return HOST
    request.getfixturevalue("simulated_gpus")
    return open_device("gpu", 0)


def test_a_bucket_is_combined_as_soon_as_it_is_final() -> None:
    program = combine_outputs(compile_program(gradients(), Options(), HOST), ((0,), (1, 2)))
    verify_program(program)
    combined = [n for n, step in enumerate(program.steps) if isinstance(step, Collective)]
    assert len(combined) == 2 and combined[0] < len(program.steps) - 2
    assert [t.shape for t in program.outputs[3:]] == [(LENGTH,), (2 * LENGTH,)]
    for n, copied in zip(combined, ((0,), (1, 2)), strict=True):
        place, _ = own_places(program.steps[n])
        copies = [step for step in program.steps[:n] if isinstance(step, Copy) and step.target.index == place.index]
        assert [step.source.index for step in copies] == list(copied)
        assert not any(place in own_places(step) for step in program.steps[n + 1 :])
    assert program_from_bytes(program_to_bytes(program)).steps == program.steps
    assert 'operation = "sum"' in print_program(program)


def test_buckets_are_combined_in_order() -> None:
    """A bucket that is final before the one in front of it waits."""
    program = combine_outputs(compile_program(gradients(), Options(), HOST), ((2, 1), (0,)))
    assert [own_places(s)[0].index for s in program.steps if isinstance(s, Collective)] == [3, 4]


@pytest.mark.parametrize("operation", ["sum", "mean", "max", "min"])
def test_members_get_the_combination(device: Any, operation: str) -> None:
    program = compile_program(gradients(), Options(), device)
    combined = combine_outputs(program, ((1, 0), (2,)), operation)
    inputs = [np.linspace(-1, 1, LENGTH, dtype=np.float32) * (rank + 1) for rank in range(MEMBERS)]
    alone = [run(program, x, device) for x in inputs]
    found = in_group(lambda rank: run(combined, inputs[rank], device), ThreadGroup(MEMBERS))
    for position, expected in enumerate(([1, 0], [2]), 3):
        parts = np.stack([np.concatenate([outputs[i] for i in expected]) for outputs in alone])
        for outputs in found:
            np.testing.assert_allclose(outputs[position], getattr(parts, operation)(0), 1e-6)
            assert outputs[position].tobytes() == found[0][position].tobytes()
    for own, outputs in zip(alone, found, strict=True):
        for theirs, ours in zip(own, outputs[:3], strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_collectives_can_end_later(device: Any) -> None:
    """The program only begins them; an exchange sums on a thread of its own."""
    program = combine_outputs(compile_program(gradients(), Options(), device), ((0,), (2, 1)))
    inputs = [np.linspace(-1, 1, LENGTH, dtype=np.float32) * (rank + 1) for rank in range(MEMBERS)]
    group = ThreadGroup(MEMBERS)

    def member(rank: int) -> list[list[Array]]:
        exchange = Exchange(group.member(rank))
        rounds: list[list[Array]] = []
        for _ in range(2):
            with starting(lambda values: exchange.begin(values.copy())):  # the outputs do not live long enough
                run(program, inputs[rank], device)
            assert exchange.begun == 2
            rounds.append(exchange.finish())
        return rounds

    expected = in_group(lambda rank: run(program, inputs[rank], device)[3:], ThreadGroup(MEMBERS))
    for rounds, once in zip(in_group(member, ThreadGroup(MEMBERS)), expected, strict=True):
        for found in rounds:
            assert [part.tobytes() for part in found] == [part.tobytes() for part in once]


def test_a_thread_is_alone_by_default(device: Any) -> None:
    program, x = compile_program(gradients(), Options(), device), np.ones(LENGTH, np.float32)
    outputs = run(combine_outputs(program, ((0,),)), x, device)
    np.testing.assert_array_equal(outputs[0], outputs[3])


def test_bfloat16_is_added_as_float32() -> None:
    program = combine_outputs(compile_program(gradients(DType.BF16), Options(), HOST), ((0,),))
    zeros = np.zeros(LENGTH, np.uint16)
    found = in_group(lambda rank: run(program, zeros, HOST)[3], ThreadGroup(MEMBERS))
    assert all((y == 0x4040).all() for y in found)  # 3.0


def test_a_member_that_does_not_come_is_an_error() -> None:
    program, x = combine_outputs(compile_program(gradients(), Options(), HOST), ((0,),)), np.ones(LENGTH, np.float32)
    found = in_group(lambda rank: None if rank == 1 else run(program, x, HOST), ThreadGroup(MEMBERS, timeout=0.2))
    assert found[1] is None and all(isinstance(found[rank], CommunicationError) for rank in (0, 2))
    assert np.isfinite(run(program, x, HOST)[0]).all()  # the program can run again


def test_members_with_other_operations_are_an_error() -> None:
    group, values = ThreadGroup(2), np.zeros(2, np.float32)
    errors = in_group(lambda rank: group.member(rank).all_reduce(("sum", "max")[rank], values), group)
    assert all(isinstance(error, CommunicationError) for error in errors)
    assert all("max of float32 (2,), sum of float32 (2,)" in str(error) for error in errors)


def test_members_with_other_values_are_an_error() -> None:
    group = ThreadGroup(2)
    found = in_group(lambda rank: group.member(rank).all_reduce("sum", np.zeros(2 + rank, np.float32)), group)
    assert all(isinstance(error, CommunicationError) and "different collectives" in str(error) for error in found)


def test_an_output_without_a_value_is_an_error() -> None:
    program = compile_program(gradients(), Options(), HOST)
    with pytest.raises(ValueError, match="no step writes output 1"):
        steps = [s for s in program.steps if Place(Space.OUTPUT, 1) not in getattr(s, "arguments", ())]
        combine_outputs(replace(program, steps=tuple(steps)), ((1,),))
