"""Lowers the operations of StableHLO that upstream's `stablehlo-legalize-to-linalg` leaves, to loops on tensors.

A rule replaces one operation. The regions of operations become code on tensors of rank 0, which upstream lowers with
the rest of the module; `use_scalars` makes it code on elements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...stablehlo.upstream import Upstream, UpstreamError, place_of, walk
from .builder import Builder, Values
from .calls import lower_call
from .convolutions import lower_convolution
from .factorizations import lower_cholesky, lower_triangular_solve
from .products import lower_dot_general
from .reductions import lower_reduce, lower_reduce_window
from .scatter import lower_scatter, lower_select_and_scatter
from .sort import lower_sort

Rule = Callable[[Builder, Any], Values | None]
"""What replaces the results of an operation; None if upstream lowers it."""


def legalize(upstream: Upstream, module: Any) -> None:
    """Replace the operations that upstream leaves."""
    _rewrite(upstream, module, _RULES)


def move_channels_last(upstream: Upstream, module: Any) -> None:
    """Replace the convolutions whose axes have another order than the scheduled one."""
    _rewrite(upstream, module, {"stablehlo.convolution": lower_convolution})


def _rewrite(upstream: Upstream, module: Any, rules: Mapping[str, Rule]) -> None:
    """Replace the operations that have a rule, inner ones first."""
    operations: list[Any] = []
    walk(module.operation, lambda op: operations.append(op) if op.name in rules else None)
    builder = Builder(upstream)
    for op in reversed(operations):
        with upstream.ir.InsertionPoint(op), op.location:
            results = rules[op.name](builder, op)
        if results is not None:
            _replace(op, results)


def refuse_rest(upstream: Upstream, module: Any) -> None:
    """UpstreamError that names the first operation that is still of StableHLO."""

    def check(op: Any) -> None:
        name = op.operation.name
        if name.startswith(("stablehlo.", "chlo.")) and name != "stablehlo.return":
            raise UpstreamError(f"{name}{place_of(upstream.ir, op.location)} cannot be compiled")

    walk(module.operation, check)


def use_scalars(upstream: Upstream, module: Any) -> None:
    """Replace computations on tensors of rank 0 by their bodies, on elements: tensors would be buffers."""
    operations: list[Any] = []
    walk(module.operation, lambda op: operations.append(op) if _is_scalar(upstream, op) else None)
    builder = Builder(upstream)
    for op in operations:
        with upstream.ir.InsertionPoint(op), op.location:
            results = builder.moved(op.regions[0], [_element(upstream, builder, v) for v in op.operands])
            _replace(op, [builder.scalar(x) for x in results])


def _replace(op: Any, results: Values) -> None:
    for old, new in zip(op.results, results, strict=True):
        old.replace_all_uses_with(new)
    op.erase()


def _is_scalar(upstream: Upstream, op: Any) -> bool:
    return op.name == "linalg.generic" and all(_rank(upstream, v) == 0 for v in (*op.operands, *op.results))


def _rank(upstream: Upstream, value: Any) -> int:
    """0 for an element."""
    return value.type.rank if isinstance(value.type, upstream.ir.RankedTensorType) else 0


def _element(upstream: Upstream, builder: Builder, value: Any) -> Any:
    return builder.extract(value) if isinstance(value.type, upstream.ir.RankedTensorType) else value


# -- control flow: values of rank 0 are carried as elements


def _lower_if(builder: Builder, op: Any) -> Values:
    (pred,) = op.operands
    then, otherwise = (_unpacking(builder, region) for region in op.regions)
    return _packed(builder, builder.branch(builder.extract(pred), then, otherwise, _carried_types(builder, op)), op)


def _lower_case(builder: Builder, op: Any) -> Values:
    index = builder.to_index(builder.extract(op.operands[0]))
    cases = [_unpacking(builder, region) for region in op.regions]
    return _packed(builder, builder.switch(index, cases, _carried_types(builder, op)), op)


def _lower_while(builder: Builder, op: Any) -> Values:
    condition, body = op.regions

    def more(*values: Any) -> Any:
        return builder.extract(builder.moved(condition, _packed(builder, values, op))[0])

    def step(*values: Any) -> Values:
        return _unpacked(builder, builder.moved(body, _packed(builder, values, op)))

    return _packed(builder, builder.repeat(_unpacked(builder, op.operands), more, step), op)


def _unpacking(builder: Builder, region: Any) -> Callable[[], Values]:
    return lambda: _unpacked(builder, builder.moved(region, ()))


def _carried_types(builder: Builder, op: Any) -> list[Any]:
    return [v.type if v.type.rank else v.type.element_type for v in op.results]


def _unpacked(builder: Builder, tensors: Sequence[Any]) -> Values:
    return [v if v.type.rank else builder.extract(v) for v in tensors]


def _packed(builder: Builder, values: Values, op: Any) -> Values:
    """Tensors of the types of an operation's results."""
    return [v if r.type.rank else builder.scalar(v) for v, r in zip(values, op.results, strict=True)]


# -- moves


def _lower_concatenate(builder: Builder, op: Any) -> Values:
    """Each operand becomes a slice of the result, in which it can be computed."""
    type, axis = op.results[0].type, op.attributes["dimension"].value
    result = builder.empty(type.shape, type.element_type)
    offset = 0
    for operand in op.operands:
        if 0 not in operand.type.shape:
            result = builder.insert_slice(operand, result, [offset if k == axis else 0 for k in range(type.rank)])
        offset += operand.type.shape[axis]
    return [result]


def _lower_constant(builder: Builder, op: Any) -> Values | None:
    """One number everywhere is not stored for each element."""
    value, type = op.attributes["value"], op.results[0].type
    if not type.rank or not isinstance(value, builder.ir.DenseElementsAttr) or not value.is_splat:
        return None
    scalar = builder.ir.RankedTensorType.get([], type.element_type)
    one = {"value": builder.ir.DenseElementsAttr.get_splat(scalar, value.get_splat_value())}
    return [builder.full(builder.extract(builder.operation("stablehlo.constant", scalar, (), one)), type)]


def _lower_barrier(builder: Builder, op: Any) -> Values:
    """Nothing is moved across it here."""
    return list(op.operands)


def _lower_batch_norm(builder: Builder, op: Any) -> Values:
    """(x - mean) / sqrt(variance + epsilon) * scale + offset."""
    x, scale, offset, mean, variance = op.operands
    channels, type = scale.type, x.type
    epsilon = builder.ir.DenseElementsAttr.get_splat(
        channels, builder.ir.FloatAttr.get(channels.element_type, op.attributes["epsilon"].value)
    )
    added = builder.operation("stablehlo.constant", channels, (), {"value": epsilon})
    factor = builder.operation("stablehlo.rsqrt", channels, [builder.of("add", variance, added)])
    axes = {"broadcast_dimensions": builder.ir.DenseI64ArrayAttr.get([op.attributes["feature_index"].value])}
    wide = [
        builder.operation("stablehlo.broadcast_in_dim", type, [v], axes)
        for v in (mean, builder.of("multiply", factor, scale), offset)
    ]
    return [builder.of("add", builder.of("multiply", builder.of("subtract", x, wide[0]), wide[1]), wide[2])]


_RULES: dict[str, Rule] = {
    "stablehlo.batch_norm_inference": _lower_batch_norm,
    "stablehlo.custom_call": lower_call,
    "stablehlo.constant": _lower_constant,
    "stablehlo.optimization_barrier": _lower_barrier,
    "stablehlo.concatenate": _lower_concatenate,
    "stablehlo.if": _lower_if,
    "stablehlo.case": _lower_case,
    "stablehlo.while": _lower_while,
    "stablehlo.scatter": lower_scatter,
    "stablehlo.select_and_scatter": lower_select_and_scatter,
    "stablehlo.dot_general": lower_dot_general,
    "stablehlo.reduce": lower_reduce,
    "stablehlo.reduce_window": lower_reduce_window,
    "stablehlo.sort": lower_sort,
    "stablehlo.cholesky": lower_cholesky,
    "stablehlo.triangular_solve": lower_triangular_solve,
}
