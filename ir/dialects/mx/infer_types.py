"""Infers shapes and dtypes of a network of mx operators, forwards and backwards.

Deferred initialisation derives the shapes of weights from the data's, and MXNet also derives data from outputs. A
network is a list of operator uses on numbered values. A shape of None has unknown rank; an extent can be UNKNOWN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import TypeVar

from ...graph import GraphError
from ...lazy_dataclass import dataclass
from ...types import DType, Shape, TensorType
from .operator import Operator
from .shapes import UNKNOWN, Extents, PartialShape, is_known, operands_text, shape_text, unify


class InferenceError(ValueError):
    """Shapes or dtypes contradict each other; the message names node, operator, argument and shapes."""


@dataclass(frozen=True)
class Use:
    """One use of an operator. `inputs` and `outputs` are numbers of values, including hidden outputs. `location` is the
    user's line."""

    op: Operator
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    name: str = ""
    location: str = ""


@dataclass
class Inference:
    """The known types of a network's values; `uses` are its operators, completed from their outputs."""

    uses: list[Use]
    shapes: dict[int, PartialShape] = field(default_factory=dict[int, PartialShape])
    dtypes: dict[int, DType | None] = field(default_factory=dict[int, "DType | None"])

    def type_of(self, value: int) -> TensorType | None:
        """The value's type if shape and dtype are known, else None."""
        shape, dtype = self.shapes.get(value), self.dtypes.get(value)
        return TensorType(shape, dtype) if is_known(shape) and dtype is not None else None

    def unknown(self, values: Iterable[int]) -> list[int]:
        """The values whose shape is not fully known."""
        return [v for v in values if not is_known(self.shapes.get(v))]


def infer_types(
    uses: Sequence[Use], shapes: Mapping[int, PartialShape], dtypes: Mapping[int, DType | None] | None = None
) -> Inference:
    """Everything that follows from the known shapes and dtypes; `uses` are in topological order.

    Other shapes and dtypes stay unknown. InferenceError if they contradict each other.
    """
    nothing = dict.fromkeys(value for use in uses for value in (*use.inputs, *use.outputs))
    known = Inference(list(uses), {**nothing, **shapes}, {**nothing, **(dtypes or {})})
    _to_fixed_point(known, _step_dtypes)
    _to_fixed_point(known, _step_shapes)
    for use in uses:
        _check(known, use)
    known.uses = [_resolved(known, use) for use in known.uses]
    return known


_Step = Callable[[Inference, Use], list[int]]
"""Infers what one use implies. Returns the values of which more is known now."""
_T = TypeVar("_T")


def _to_fixed_point(known: Inference, step: _Step) -> None:
    """Traverse forwards and backwards until nothing changes. A use is skipped if its values have not changed since its
    last step."""
    uses_of: dict[int, list[int]] = {}
    for number, use in enumerate(known.uses):
        for value in (*use.inputs, *use.outputs):
            uses_of.setdefault(value, []).append(number)
    forwards = range(len(known.uses))
    pending = set(forwards)
    while pending:
        for number in (*forwards, *reversed(forwards)):
            if number in pending:
                pending.remove(number)
                for value in step(known, known.uses[number]):
                    pending.update(uses_of[value])


def _step_dtypes(known: Inference, use: Use) -> list[int]:
    inputs = [known.dtypes.get(v) for v in use.inputs]
    outputs = [known.dtypes.get(v) for v in use.outputs]
    try:
        use.op.require_one_dtype(inputs)
        use.op.complete_dtypes(inputs, outputs)
        predicted = _output_dtypes(use.op, inputs)
    except (TypeError, ValueError) as error:
        raise InferenceError(f"{_described(use)}: {error}") from error
    if predicted is not None:
        outputs = [have or inferred for have, inferred in zip(outputs, predicted, strict=False)]
    return _record(known.dtypes, (*use.inputs, *use.outputs), (*inputs, *outputs))


def _output_dtypes(op: Operator, inputs: Sequence[DType | None]) -> Sequence[DType | None] | None:
    """The outputs' dtypes; of those that depend on an unknown dtype, None. Inputs in `own_dtypes` do not count, unless
    the operator defines `output_dtypes` itself."""
    names = op.input_names(len(inputs))
    own = type(op).own_dtypes if type(op).output_dtypes is Operator.output_dtypes else frozenset[str]()
    if any(d is None and name not in own for d, name in zip(inputs, names, strict=False)):
        return op.fixed_dtypes()
    return op.output_dtypes([d or DType.F32 for d in inputs])


def _step_shapes(known: Inference, use: Use) -> list[int]:
    inputs = [known.shapes.get(v) for v in use.inputs]
    outputs = [known.shapes.get(v) for v in use.outputs]
    before = (*inputs, *outputs)
    try:
        use.op.fill_in(inputs, outputs)
        if not all(is_known(s) for s in outputs):
            _infer_outputs(known, use, inputs, outputs)
    except (TypeError, ValueError, GraphError, IndexError) as error:
        raise InferenceError(_explain(use, before, error)) from error
    return _record(known.shapes, (*use.inputs, *use.outputs), (*inputs, *outputs))


def _check(known: Inference, use: Use) -> None:
    """InferenceError if the operator rejects its operands or returns other shapes than the known ones: `complete` need
    not check everything."""
    shapes = [known.shapes.get(v) for v in use.inputs]
    if not use.inputs or use.op.sized_by_values or not all(is_known(s) for s in shapes):
        return
    of_outputs = [known.shapes.get(v) for v in use.outputs]
    try:
        results = _apply(use.op, [s for s in shapes if is_known(s)], [known.dtypes.get(v) for v in use.inputs])
        for shape, result in zip(of_outputs, results, strict=False):
            unify(shape, result.shape)
    except (TypeError, ValueError, GraphError, IndexError) as error:
        raise InferenceError(_explain(use, (*shapes, *of_outputs), error)) from error


def _infer_outputs(known: Inference, use: Use, inputs: Sequence[PartialShape], outputs: list[PartialShape]) -> None:
    """Infer the outputs' types from the inputs'."""
    ranked = [s for s in inputs if s is not None]
    if len(ranked) < len(inputs) or use.op.is_open or use.op.sized_by_values:
        return
    dtypes = [known.dtypes.get(v) for v in use.inputs]
    shapes = [s for s in ranked if is_known(s)]
    if len(shapes) < len(ranked):
        outputs[:] = [unify(s, t) for s, t in zip(outputs, _probe(use.op, ranked, dtypes), strict=False)]
        return
    results = _apply(use.op, shapes, dtypes)
    outputs[:] = [unify(s, t.shape) for s, t in zip(outputs, results, strict=False)]
    if None not in dtypes:
        for value, t in zip(use.outputs, results, strict=False):
            known.dtypes[value] = t.dtype


def _apply(op: Operator, shapes: Sequence[Shape], dtypes: Sequence[DType | None]) -> tuple[TensorType, ...]:
    """The outputs' types. An unknown dtype counts as the first known float, or as float32."""
    assumed = next((d for d in dtypes if d is not None and d.is_float), DType.F32)
    return op.infer(*(TensorType(s, d or assumed) for s, d in zip(shapes, dtypes, strict=True)))


def _probe(op: Operator, shapes: Sequence[Extents], dtypes: Sequence[DType | None]) -> list[PartialShape]:
    """The outputs' shapes for inputs with unknown extents: an extent is unknown if it depends on the substitute.

    If a substitute does not fit (a larger window, parts that do not divide it), nothing is known.
    """
    samples: list[tuple[TensorType, ...]] = []
    for extent in op.probe_extents:
        try:
            samples.append(_apply(op, [tuple(extent if n is UNKNOWN else n for n in s) for s in shapes], dtypes))
        except (TypeError, ValueError, GraphError, IndexError):
            return [None] * op.num_outputs
    return [_agreement([t.shape for t in types]) for types in zip(*samples, strict=True)]


def _agreement(shapes: Sequence[Shape]) -> PartialShape:
    if len({len(shape) for shape in shapes}) > 1:
        return None
    return tuple(extents[0] if len(set(extents)) == 1 else UNKNOWN for extents in zip(*shapes, strict=True))


def _record(table: dict[int, _T], values: Sequence[int], inferred: Sequence[_T]) -> list[int]:
    """Enter what was found. Returns the values that changed."""
    changed: list[int] = []
    for value, new in zip(values, inferred, strict=False):
        if table.get(value) != new:
            table[value] = new
            changed.append(value)
    return changed


def _resolved(known: Inference, use: Use) -> Use:
    types = [known.type_of(v) for v in use.outputs]
    if None in types:
        return use
    op = use.op.resolve([t for t in types if t is not None])
    return use if op is use.op else replace(use, op=op)


def _explain(use: Use, shapes: Sequence[PartialShape], error: Exception) -> str:
    names = (*use.op.input_names(len(use.inputs)), *use.op.output_names())
    known = {n: shape_text(s) for n, s in zip(names, shapes, strict=False) if s is not None}
    return f"{_described(use)}: {error}{operands_text(known)}"


def _described(use: Use) -> str:
    where = f", made at {use.location}" if use.location else ""
    return f"{use.name} ({type(use.op).mx_name()}{where})"
