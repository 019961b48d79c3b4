"""Direct and bound calls of programs that have no shorter way than `run`."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from .device import Address, BoundCall, DirectCall, Runnable


def direct_by_run(program: Runnable) -> DirectCall:
    """See `Runnable.direct_call`."""
    count = len(program.inputs)
    return lambda *addresses: program.run(addresses[:count], addresses[count:], object())


def bound_by_run(program: Runnable, fixed: Mapping[int, Address]) -> BoundCall:
    """See `Runnable.bound_call`."""
    inputs: list[Address] = [fixed.get(i) for i in range(len(program.inputs))]
    free = [i for i, address in enumerate(inputs) if address is None]
    count = len(free)
    version: Hashable = object()

    def run(*addresses: Address) -> None:
        all_inputs = inputs.copy()
        for i, address in zip(free, addresses, strict=False):
            all_inputs[i] = address
        program.run(all_inputs, addresses[count:], version)

    def prepare(new: Hashable) -> None:
        nonlocal version
        version = new

    return BoundCall(run, prepare)
