"""The loops over rows that a kernel needs, in which each reduction is a stage (`hoist_reductions`)."""

from __future__ import annotations

from collections.abc import Mapping

from ...ir.kernel import Kernel, Local, Reduce, Ref, Stage, Store, local, walk
from .centered import Centered


def reductions(kernel: Kernel) -> list[Local]:
    """The stages that are reductions."""
    return [s for s in kernel.stages if isinstance(s, Local) and isinstance(s.value, Reduce)]


def stores_along(kernel: Kernel) -> list[Store]:
    """The stores of a result for each point of the row."""
    reduced = {a.name for a in kernel.axes if a.kind.value == "reduce"}
    stores = [s for s in kernel.stages if isinstance(s, Store)]
    return [s for s in stores if reduced & {a for i in s.index for a, _ in getattr(i, "terms", ())}]


def depth(kernel: Kernel, stage: Stage, centered: Mapping[str, Centered] | None = None) -> int:
    """The number of loops that compute a stage's value; a reduction counts its own loop. Sums that are `centered` need
    as many as the totals of which they read the means."""
    if centered and isinstance(stage, Local) and stage.name in centered:
        return depth(kernel, centered[stage.name].total, centered)
    below = [depth(kernel, local(kernel, e.local), centered) for e in walk(stage.value) if isinstance(e, Ref)]
    own = isinstance(stage, Local) and isinstance(stage.value, Reduce)
    return max(below, default=0) + own
