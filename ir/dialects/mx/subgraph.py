"""Networks inside operators: bodies of loops and branches of conditions, as networks of mx operators.

A subgraph has no types: they follow from the operands of each use. The text of an operator's subgraphs is a JSON list.
Each item is a list of nodes `[op, name, attributes, [[node, output], ...]]` in order, where op "null" is an input, and
a list of results. The attribute "subgraphs" of a node has the same form.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypeVar, cast

from ...graph import Graph, Value
from ...types import DType
from .builder import MxBuilder
from .infer_types import Inference, Use, infer_types
from .operator import Operator, lookup
from .shapes import PartialShape


class Subgraph:
    """Uses of operators on numbered values; `inputs` are the numbers of the inputs, `names` their names."""

    def __init__(self, parsed: Any) -> None:
        """Read a parsed text; ValueError or KeyError names the problem and the node."""
        nodes, results = _checked(parsed)
        self.inputs: list[int] = []
        self.names: list[str] = []
        self.uses: list[Use] = []
        self.outputs: list[int] = []
        first = [0]
        for op, name, attrs, operands in nodes:
            count = first[-1]
            if op == "null":
                self.inputs.append(count)
                self.names.append(name)
                first.append(count + 1)
                continue
            where = f"node {name!r} ({op}) of a subgraph"
            operator = _operator(op, attrs, len(operands), where)
            outputs = tuple(range(count, count + operator.num_outputs))
            self.uses.append(Use(operator, _numbers(first, operands, where), outputs, name))
            first.append(count + operator.num_outputs)
        self.outputs += _numbers(first, results, "the results of a subgraph")

    def infer(
        self,
        shapes: Sequence[PartialShape],
        dtypes: Sequence[DType | None],
        out_shapes: Sequence[PartialShape] = (),
        out_dtypes: Sequence[DType | None] = (),
    ) -> Inference:
        """Infers types from known shapes and dtypes of inputs and results; InferenceError if they contradict each
        other. The returned object is cached and must not be changed."""
        return _inferred(self, tuple(shapes), tuple(dtypes), tuple(out_shapes), tuple(out_dtypes))

    def apply(self, b: MxBuilder, operands: Sequence[Value]) -> list[Value]:
        """The results on these operands, lowered to core."""
        values = dict(zip(self.inputs, operands, strict=True))
        types = [v.type for v in operands]
        for use in self.infer([t.shape for t in types], [t.dtype for t in types]).uses:
            b.begin_operator()
            results = use.op.results(b, *(values[n] for n in use.inputs))
            values.update(zip(use.outputs, results, strict=False))
        return [values[n] for n in self.outputs]


_T = TypeVar("_T")


def _known_only(numbers: Sequence[int], values: Sequence[_T | None]) -> dict[int, _T | None]:
    """The known entries, by the numbers of their values."""
    return {n: f for n, f in zip(numbers, values, strict=False) if f is not None}


@lru_cache(maxsize=4096)
def _inferred(
    g: Subgraph,
    shapes: tuple[PartialShape, ...],
    dtypes: tuple[DType | None, ...],
    out_shapes: tuple[PartialShape, ...],
    out_dtypes: tuple[DType | None, ...],
) -> Inference:
    """Cached, because inference repeats queries, and nested loops multiply the repetitions."""
    known_shapes = {**_known_only(g.outputs, out_shapes), **_known_only(g.inputs, shapes)}
    known_dtypes = {**_known_only(g.outputs, out_dtypes), **_known_only(g.inputs, dtypes)}
    return infer_types(g.uses, known_shapes, known_dtypes)


Links = list[tuple[int, int]]
Nodes = list[tuple[str, str, dict[str, Any], Links]]


def _operator(op: str, attrs: dict[str, Any], passed: int, where: str) -> Operator:
    """The operator of a node with `passed` inputs."""
    if "subgraphs" in attrs:
        attrs = {**attrs, "subgraphs": json.dumps(attrs["subgraphs"])}
    try:
        operator = lookup(op).parse(attrs)
        operator.require_inputs(passed)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    return operator


def _numbers(first: Sequence[int], links: Links, where: str) -> tuple[int, ...]:
    """The numbers of the values in `links`; the values of node n have the numbers first[n] to first[n + 1]."""
    for n, i in links:
        if first[n] + i >= first[n + 1]:
            raise ValueError(f"{where}: node {n} has no output {i}")
    return tuple(first[n] + i for n, i in links)


def _checked(parsed: Any) -> tuple[Nodes, Links]:
    """The nodes and results of a text; ValueError unless every link refers to an earlier node."""
    try:
        nodes, results = parsed
        for i, (op, name, attrs, operands) in enumerate(nodes):
            fits = isinstance(op, str) and isinstance(name, str) and isinstance(attrs, dict)
            if not fits or not all(0 <= n < i and k >= 0 for n, k in operands):
                raise ValueError(f"node {i}")
        if not all(0 <= n < len(nodes) and k >= 0 for n, k in results):
            raise ValueError("results")
    except (TypeError, ValueError) as error:
        raise ValueError(f"the text of a subgraph is malformed: {error}") from None
    return nodes, results


@lru_cache(maxsize=256)
def read_subgraphs(text: str) -> tuple[Subgraph, ...]:
    """The subgraphs in a text; ValueError or KeyError describes what is wrong."""
    try:
        parsed: Any = json.loads(text or "[]")
    except RecursionError:
        raise ValueError("the text of a subgraph is nested too deeply") from None
    if not isinstance(parsed, list):
        raise ValueError("the text of a subgraph is not a list")
    return tuple(Subgraph(one) for one in cast("list[Any]", parsed))


@lru_cache(maxsize=256)
def with_legacy_shapes(text: str) -> str:
    """The text of the subgraphs with each operator replaced by its `Operator.with_legacy_shapes`."""
    parsed: Any = json.loads(text or "[]")
    changed = [[[_with_legacy_shapes(*node) for node in nodes], results] for nodes, results in parsed]
    return text if changed == parsed else json.dumps(changed)


def _with_legacy_shapes(op: str, name: str, attrs: dict[str, Any], operands: Links) -> list[Any]:
    if op == "null":
        return [op, name, attrs, operands]
    operator = _operator(op, attrs, len(operands), name)
    legacy = operator.with_legacy_shapes()
    if legacy is not operator:
        attrs = dict(legacy.attrs())
        if "subgraphs" in attrs:
            attrs["subgraphs"] = json.loads(attrs["subgraphs"])
    return [op, name, attrs, operands]


class BodyBuilder(MxBuilder):
    """Builds a graph that runs inside another one: a step of a loop, a branch.

    Its key is an input, which the caller changes from run to run. Each draw adds its number to the key; `draws` is the
    number of draws. States that operators change inside are temporaries.
    """

    def __init__(self, name: str, outer: MxBuilder) -> None:
        super().__init__(name, training=outer.training, own_gradients=outer.own_gradients)
        self.draws = 0

    def draw_keys(self, count: int) -> Value:
        key = self.input_key()
        first, self.draws = self.draws, self.draws + count
        return self.advance_key(key, first) if first else key

    def update(self, state: Value, new_value: Value) -> None:
        pass

    def input_key(self) -> Value:
        """The input that takes the random key."""
        if self._key is None:
            self._key = self.key_input()
        return self._key

    def build_with_key(self, outputs: Sequence[Value], position: int, keyed: bool = False) -> Graph:
        """The graph, with its key at this position among the inputs if it draws random numbers or if `keyed`."""
        if keyed or self._key is not None:
            self.inputs.remove(self.input_key())
            self.inputs.insert(position, self.input_key())
            for i, value in enumerate(self.inputs):
                value.index = i
        return self.build(outputs)
