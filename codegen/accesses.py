"""The memory that each step of a program reads and writes, for the graph of its steps (`ir/program_graph.py`)."""

from __future__ import annotations

from collections import Counter

from ..ir.dialects.core import HostCallback
from ..ir.graph import Value
from ..ir.program import Copy, Place
from ..ir.program_graph import Access, Range
from .compiler import Step
from .driver import Compilation
from .emission import Packing


def step_accesses(compiled: Compilation) -> list[Access]:
    """What each of `Program.steps` reads and writes.

    All launches of a kernel have the accesses of the kernel. A step that writes a value after another one can keep a
    part of it, so it reads the value too: launches after the first one of a kernel, and kernels that compute parts of a
    result.
    """
    placement = compiled.placement
    launches = Counter(placement.run)
    packed: set[tuple[Value, Packing]] = set()
    written: set[Value] = set()  # values in whose memory a step wrote
    found: list[Access] = []
    for number, step in enumerate(compiled.steps):
        rest = launches[number]
        for position, packing, _ in step.packs:
            key = step.operands[position], packing
            if key not in packed and key[0] not in placement.prepared:
                found.append(_pack(compiled, *key))
                rest -= 1
            packed.add(key)
        found += [_access(compiled, number, launch, written) for launch in range(rest)]
    return [*found, *(_copy(step) for step in compiled.program.steps[len(found) :] if isinstance(step, Copy))]


def _pack(compiled: Compilation, value: Value, packing: Packing) -> Access:
    target = _range(compiled.placement.packed(value, packing), packing.nbytes)
    return Access((_value_range(compiled, value),), (target,))


def _access(compiled: Compilation, number: int, launch: int, written: set[Value]) -> Access:
    """The operands that a launch of a step reads, and its results and workspace. Adds the results to `written`."""
    step, placement = compiled.steps[number], compiled.placement
    packings = {position: packing for position, packing, _ in step.packs}
    results = _results(step)
    reads: list[Range] = []
    writes: list[Range] = []
    for position, value in enumerate(step.operands):
        packing, base = packings.get(position), compiled.sharing.resolve(value).base
        if packing is not None:
            reads.append(_range(placement.packed(value, packing), packing.nbytes))
            continue
        if value not in results or base in written:
            reads.append(_value_range(compiled, value))
        if value in results:
            writes.append(_value_range(compiled, value))
            written.add(base)
    if step.emission.workspace:
        workspace = _range(placement.workspace(number), step.emission.workspace)
        reads += [workspace] if launch else []
        writes.append(workspace)
    return Access(tuple(reads), tuple(writes))


def _results(step: Step) -> set[Value]:
    """The operands that a step writes."""
    results = {v for node in step.nodes for v in node.outputs}
    if isinstance(step.node.op, HostCallback):
        results.update(step.node.inputs[i] for i in step.node.op.writes)
    return results


def _value_range(compiled: Compilation, value: Value) -> Range:
    """The memory of a value; that of the whole value which contains it, if it is not contiguous there."""
    view = compiled.sharing.resolve(value)
    if view.strides is None:
        return _range(compiled.placement.place(value), value.type.nbytes)
    return _range(compiled.placement.place(view.base), view.base.type.nbytes)


def _copy(copy: Copy) -> Access:
    return Access((_range(copy.source, copy.nbytes),), (_range(copy.target, copy.nbytes),))


def _range(place: Place, nbytes: int) -> Range:
    return Range(place.space, place.index, place.offset, place.offset + nbytes)
