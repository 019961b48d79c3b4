"""Finds the extents of a model's inputs that can vary, so that one ONNX file serves many shapes.

A model is written for symbolic extents (`ir/symbolic.py`), whose values during the export are numbers that no other
extent is likely to have. The decisions of the export are guards. It is right for all extents for which they hold, and
they are evaluated for many. An axis for which one fails keeps the extent that it was exported with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isqrt
from typing import Any

from ...ir.graph import Graph, GraphError
from ...ir.lazy_dataclass import dataclass
from ...ir.symbolic import Symbol, Trace
from ...ir.types import Shape
from ..base import MXNetError

Axis = tuple[str, int]
"""An input's name and the number of an axis."""

_LARGE = 1009, 1511, 2003, 2503, 3001, 3511, 4001, 4507, 5003, 5501, 6007, 6521
"""Values of symbolic extents. They differ by more than windows and strides change them."""

_FACTORS = 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71
_FEW = 7
"""Shorter axes are not assumed to be shorter still."""

_TRIED = (
    *(*range(1, 10), 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 200, 224, 255, 256, 257, 300, 384, 512),
    *(513, 1000, 1024, 2048),
)
"""The extents for which decisions must hold, unless the model cannot be computed for them at all."""

_ERRORS = GraphError, MXNetError, NotImplementedError, ValueError, TypeError


@dataclass(frozen=True)
class Group:
    """Axes with the same extent, which is `extent` in the shapes of the export. `name` is "" for an axis without."""

    axes: tuple[Axis, ...]
    extent: int
    name: str = ""


@dataclass(frozen=True)
class Unknown:
    """The extents that vary, and for each other axis that should, why it does not."""

    groups: tuple[Group, ...]
    refused: Mapping[Axis, str]
    values: tuple[int, ...]

    def graph(self, graph: Graph) -> tuple[Graph, dict[str, str]]:
        """The graph for unknown extents, and the names of their symbols."""
        trace = Trace()
        symbols = _symbols(trace, self.values)
        names = {s.name: g.name for s, g in zip(symbols, self.groups, strict=True) if g.name}
        return _with_extents(graph, self.groups, symbols), names


def find_unknown(graph: Graph, wanted: Sequence[Group], write: Callable[[Graph], object]) -> Unknown:
    """The groups of `wanted` that can vary together; groups whose extents must be equal become one.

    `graph` is of mx nodes, for known shapes, and `write` writes it for symbolic ones.
    """
    search = _Search(graph, write)
    everything = search.values(wanted)
    if everything is not None:
        return Unknown(tuple(wanted), {}, everything)
    chosen: list[Group] = []
    refused: dict[Axis, str] = {}
    rest = list(wanted)
    while rest:
        group = rest.pop(0)
        search.reason = ""
        joined = next((others for others in _partners(chosen, group, rest) if search.fits(chosen, group, others)), None)
        if joined is None:
            refused.update(dict.fromkeys(group.axes, search.reason))
            continue
        for other in joined if len(joined) > 1 else ():
            fewer = [o for o in joined if o is not other]
            joined = fewer if search.fits(chosen, group, fewer) else joined
        chosen = _with(chosen, group, joined)
        rest = [other for other in rest if other not in joined]
    return Unknown(tuple(chosen), refused, search.values(chosen) or ())


def _with(chosen: Sequence[Group], group: Group, joined: Sequence[Group]) -> list[Group]:
    """The chosen groups, and a group that is one with those it is joined with."""
    if not joined:
        return [*chosen, group]
    before, after = [g for g in joined if g in chosen], [g for g in joined if g not in chosen]
    return [*(g for g in chosen if g not in joined), _joined([*before, group, *after])]


def _partners(chosen: Sequence[Group], group: Group, rest: Sequence[Group]) -> Iterator[Sequence[Group]]:
    """The groups with which a group can be one: none, one that is chosen or not yet tried, or several of these."""
    equal = [o for o in (*chosen, *rest) if o.extent == group.extent and not (o.name and group.name)]
    aligned = [o for o in equal if o.axes[0][1] == group.axes[0][1]]
    singles = [*aligned, *(o for o in equal if o not in aligned)]
    yield ()
    yield from ((other,) for other in singles)
    yield from (several for several in (aligned, equal) if len(several) > 1 and sum(bool(o.name) for o in several) < 2)


def _joined(groups: Sequence[Group]) -> Group:
    axes = tuple(axis for group in groups for axis in group.axes)
    name = next((g.name for g in groups if g.name), f"{axes[0][0]}_{axes[0][1]}")
    return Group(axes, groups[0].extent, name)


class _Search:
    """Tries whether extents can vary; `reason` is why the first ones that were tried since it was "" cannot."""

    def __init__(self, graph: Graph, write: Callable[[Graph], object]) -> None:
        self.graph, self.write, self.reason = graph, write, ""
        self.taken = {n for v in graph.inputs for n in v.type.shape}

    def fits(self, chosen: Sequence[Group], group: Group, joined: Sequence[Group]) -> bool:
        """True if a group can vary with the chosen ones, as one with others."""
        return self.values(_with(chosen, group, joined)) is not None

    def values(self, groups: Sequence[Group]) -> tuple[int, ...] | None:
        """Values with which the model can be written for these extents as unknown ones; None if there are none."""
        for values in self._assumed(groups):
            problem = self._problem(groups, values)
            if problem is None:
                return values
            self.reason = self.reason or problem
        return None

    def _assumed(self, groups: Sequence[Group]) -> Iterator[tuple[int, ...]]:
        """Values to try: large ones, multiples of the known extents, and much shorter ones, since an axis can have a
        largest length. All differ from each other and from the extents of the inputs."""
        large = self._distinct(groups, lambda _: _LARGE)
        multiples = self._distinct(groups, lambda g: [g.extent * n for n in _FACTORS])
        shorter = self._distinct(groups, lambda g: [*filter(_is_prime, range(g.extent * 3 // 4, _FEW, -1)), *_LARGE])
        yield from dict.fromkeys((large, multiples, shorter))

    def _distinct(self, groups: Sequence[Group], values: Callable[[Group], Sequence[int]]) -> tuple[int, ...]:
        chosen: list[int] = []
        for group in groups:
            free = next((n for n in values(group) if n not in self.taken and n not in chosen), None)
            if free is None:
                raise MXNetError(f"export_model: {len(groups)} extents cannot vary independently")
            chosen.append(free)
        return tuple(chosen)

    def _problem(self, groups: Sequence[Group], values: Sequence[int]) -> str | None:
        """Why the model cannot be written for unknown extents; None if it can."""
        trace = Trace()
        try:
            self.write(_with_extents(self.graph, groups, _symbols(trace, values)))
        except _ERRORS as error:
            reason = error.reason if isinstance(error, GraphError) else str(error)
            return next((f"{reason} ({n} is the unknown extent)" for n in values if str(n) in reason), reason)
        holds = _holding(trace)
        for sample in self._samples(groups):
            broken = [] if holds(sample) else _broken(trace, sample)
            if broken and self._is_valid(groups, sample):
                return f"the model requires certain extents ({broken[0]})"
        return None

    def _samples(self, groups: Sequence[Group]) -> Iterator[tuple[int, ...]]:
        extents = tuple(g.extent for g in groups)
        yield extents
        for n in _TRIED:
            for i in range(len(groups)):
                yield (*extents[:i], n, *extents[i + 1 :])
            yield tuple(n + i for i in range(len(groups)))

    def _is_valid(self, groups: Sequence[Group], extents: Sequence[int]) -> bool:
        """True if the model can be computed for known extents."""
        try:
            _with_extents(self.graph, groups, extents)
        except _ERRORS:
            return False
        return True


def _holding(trace: Trace) -> Callable[[Sequence[int]], bool]:
    """A function that is true for extents for which all decisions hold."""
    evaluate = trace.evaluator(True)

    def holds(extents: Sequence[int]) -> bool:
        try:
            return evaluate(*extents) is not None
        except ArithmeticError:
            return False

    return holds


def _broken(trace: Trace, extents: Sequence[int]) -> list[str]:
    """The decisions that do not hold, other than that two extents differ: what is done if they differ is right if they
    are equal too."""
    try:
        broken = trace.broken_guards(*extents)
    except ArithmeticError:
        return ["a quotient by zero"]
    return [g for g in broken if "!=" not in g and not (g.startswith("not") and "==" in g)]


def _symbols(trace: Trace, values: Sequence[int]) -> list[Symbol]:
    for value in values:
        trace.unknown(value)
    return list(trace.unknowns)


def _with_extents(graph: Graph, groups: Sequence[Group], extents: Sequence[Any]) -> Graph:
    """The graph with other extents of the axes of groups."""
    from ...codegen.dynamic import with_shapes

    changed = {axis: n for group, n in zip(groups, extents, strict=True) for axis in group.axes}

    def shape(name: str, known: Shape) -> Shape:
        return tuple(changed.get((name, k), n) for k, n in enumerate(known))

    return with_shapes(graph, [shape(v.name, v.type.shape) for v in graph.inputs])


def _is_prime(n: int) -> bool:
    return n > 1 and all(n % k for k in range(2, isqrt(n) + 1))
