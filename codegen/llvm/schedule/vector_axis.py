"""Chooses the axis of a nest along which vectors lie."""

from __future__ import annotations

from ....ir.kernel import AxisKind, Extent, Store
from ....ir.symbolic import is_symbolic
from ...nest import Nest, woven_axis

SHUFFLED = (2, -1)
"""Strides along the vector axis for which whole vectors are loaded and shuffled."""


def vector_axis(nest: Nest) -> str:
    """The axis along which most accesses are contiguous; results count double, and later axes win ties. In a nest with
    reductions, what is read or written once for each row decides only if the other accesses do not."""
    if not nest.axes:
        return ""
    stored = {(s.buffer, s.index) for s in nest.stages if isinstance(s, Store)}

    def score(name: str) -> tuple[int, int]:
        totals = [0, 0]
        for key, access in nest.accesses.items():
            stride = access.stride(name)
            is_result = key in stored
            near = stride == 0 or (not (is_result or is_symbolic(stride)) and stride in SHUFFLED)
            of_row = bool(nest.reduced) and not access.gathers and not any(access.stride(a) for a in nest.reduced)
            totals[of_row] += (2 if is_result else 1) * (2 if stride == 1 else 0 if near else -3)
        return totals[0], totals[1]

    names = [a.name for a in nest.axes]
    woven = [name for name in names if woven_axis(nest, name)]
    if woven:
        return max(woven, key=lambda n: (score(n), names.index(n)))
    best = max(names, key=lambda n: (score(n), names.index(n)))
    return best if sum(score(best)) > 0 or len(names) == 1 else _longest(nest, names)


def _longest(nest: Nest, names: list[str]) -> str:
    parallel = nest.names(AxisKind.PARALLEL) or names
    return max(parallel, key=lambda n: (_number(nest.extent(n)), names.index(n)))


def _number(extent: Extent) -> int:
    """An extent, or 0 if it is a run-time extent."""
    return extent if isinstance(extent, int) else 0
