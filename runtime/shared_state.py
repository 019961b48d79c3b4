"""Supports programs that replace a state which shares memory with another operand.

A run replaces a copy of the state, which is written back after the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..ir.types import TensorType
from .device import Address, Device, number_of
from .storage import Storage


def copy_shared_state(
    addresses: list[Address], types: Sequence[TensorType], state: Sequence[int], device: Device
) -> list[tuple[Address, Storage, int]]:
    """Replace the address of each operand in `state` that overlaps another operand with the address of a copy.

    Returns (address, copy, bytes) for each: after the run `write_back` stores the new values. A program writes its
    state while it still reads other operands, so the two must not overlap. Scalar parameters, which are in the host's
    memory for every device, overlap no operand.
    """
    memory = type(addresses[state[0]])
    spans = {i: (a, a + t.nbytes) for i, (a, t) in enumerate(zip(addresses, types, strict=False)) if type(a) is memory}
    shared = _shared_spans(spans)
    copied: list[tuple[Address, Storage, int]] = []
    for i in state:
        if i in shared:
            begin, end = spans[i]
            block = device.allocate(end - begin)
            device.copy(block.address, begin, end - begin)
            addresses[i] = block.address
            copied.append((begin, block, end - begin))
    return copied


def _shared_spans(spans: Mapping[int, tuple[Address, Address]]) -> set[int]:
    """The keys of the spans (begin, end) that overlap others."""
    order = sorted(spans, key=lambda i: (number_of(spans[i][0]), number_of(spans[i][1])))
    shared: set[int] = set()
    furthest = -1  # of the spans so far, the one that ends last
    for i in order:
        if furthest >= 0 and number_of(spans[i][0]) < number_of(spans[furthest][1]):
            shared |= {i, furthest}
        if furthest < 0 or number_of(spans[i][1]) > number_of(spans[furthest][1]):
            furthest = i
    return shared


def write_back(copies: Sequence[tuple[Address, Storage, int]]) -> None:
    """Copy the new values of state to its original addresses."""
    for address, block, nbytes in copies:
        block.device.copy(address, block.address, nbytes)


def shares_state(addresses: Sequence[Address], sizes: Sequence[int], state: Sequence[int]) -> bool:
    """True if an operand in `state` overlaps another operand, of these addresses and bytes. All are on one device."""
    chosen, end, owner = set(state), -1, -1
    for start, i in sorted(zip(map(number_of, addresses), range(len(addresses)), strict=True)):
        if start < end and (i in chosen or owner in chosen):
            return True
        if start + sizes[i] > end:
            end, owner = start + sizes[i], i
    return False
