"""The table of routines: primitives with hand-written kernels."""

from __future__ import annotations

from collections.abc import Callable

from ....ir.dialects.core import ArgSort, Cumulative, Scatter, SelectAndScatter, Sort
from ....ir.graph import Node, Op
from ...emission import Emission
from ..emit import TritonSource
from .cumulative import emit_cumulative
from .launches import Launches
from .scatter import emit_scatter
from .sort import emit_argsort, emit_sort
from .window_gradient import emit_window_gradient

_ROUTINES: dict[type[Op], Callable[[Op, Launches], bool]] = {
    ArgSort: emit_argsort,
    Cumulative: emit_cumulative,
    Scatter: emit_scatter,
    SelectAndScatter: emit_window_gradient,
    Sort: emit_sort,
}


def emit_routine(
    node: Node, is_fixed: bool, aligned: bool, in_place: bool
) -> tuple[Emission, list[TritonSource]] | None:
    """The launches of a primitive, and their kernels; None if it has no routine. See `Launches`."""
    emit = _ROUTINES.get(type(node.op))
    launches = Launches([v.type for v in (*node.inputs, *node.outputs)], is_fixed, aligned, in_place)
    if emit is None or not emit(node.op, launches):
        return None
    return launches.emission(), launches.sources
