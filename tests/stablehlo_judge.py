"""Evaluates graphs of core with StableHLO's own interpreter, for tests."""

from __future__ import annotations

from typing import Any

import numpy as np
from mxforge.codegen.stablehlo.export import stablehlo_text
from mxforge.codegen.stablehlo.upstream import Upstream
from mxforge.ir.graph import Graph
from mxforge.ir.types import DType, TensorType
from single_results import in_float32

Array = np.ndarray[Any, Any]

upstream = Upstream()
ir, stablehlo = upstream.ir, upstream.stablehlo


def verified(graph: Graph) -> str:
    """The text of a graph, which upstream MLIR accepts."""
    text = stablehlo_text(graph)
    with upstream.context():
        assert ir.Module.parse(text).operation.verify()
    return text


def judged(graph: Graph, *arrays: Array) -> list[Array]:
    """The results of a graph by the interpreter. BF16 is float32."""
    results = evaluated(stablehlo_text(in_float32(graph)), *arrays)
    return [r.astype(_element(v.type.dtype)).reshape(v.type.shape) for r, v in zip(results, graph.outputs, strict=True)]


def evaluated(text: str, *arrays: Array) -> list[Array]:
    """The results of the function of a module by the interpreter, for arguments of the arrays' dtypes."""
    with upstream.context(), ir.Location.unknown():
        found = stablehlo.eval_module(upstream.parse(text), [_attribute(a, DType.from_numpy(a.dtype)) for a in arrays])
        return [_array(attribute) for attribute in found]


_STATIC = "stablehlo-refine-arguments{{types={}}},stablehlo-refine-shapes,func.func(stablehlo-canonicalize-dynamism)"


def refined(text: str, *arrays: Array) -> str:
    """A module with dynamic shapes for arguments of the arrays' types. Its shapes are static then."""
    types = ",".join(str(TensorType(a.shape, DType.from_numpy(a.dtype))) for a in arrays)
    with upstream.context(), ir.Location.unknown():
        module = upstream.parse(text)
        upstream.run(f"builtin.module({_STATIC.format(types)})", module)
        static = str(module)
    assert "?" not in static
    return static


def _element(dtype: DType) -> Any:
    return np.float32 if dtype is DType.BF16 else dtype.numpy


def _attribute(array: Array, dtype: DType) -> Any:
    element = ir.Type.parse(dtype.value)
    if dtype is DType.BOOL:
        bits = [ir.IntegerAttr.get(element, int(x)) for x in np.ravel(array)]
        return ir.DenseElementsAttr.get(bits, ir.RankedTensorType.get(array.shape, element))
    return ir.DenseElementsAttr.get(np.ascontiguousarray(array, dtype.numpy), type=element, shape=list(array.shape))


def _array(attribute: Any) -> Array:
    shape = ir.RankedTensorType(attribute.type).shape
    if str(ir.RankedTensorType(attribute.type).element_type) == "i1":
        return np.array([bool(x) for x in ir.DenseIntElementsAttr(attribute)], np.bool_).reshape(shape)
    return np.array(np.broadcast_to(np.array(attribute), shape))
