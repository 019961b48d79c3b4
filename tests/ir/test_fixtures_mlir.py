"""The graphs of real exported models at every stage: upstream MLIR accepts them, and they parse back to themselves."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from mxforge.codegen.llvm.target import AVX2
from mxforge.frontend import symbol as sym
from mxforge.frontend.symbol.to_graph import symbol_to_graph
from mxforge.ir.graph import Graph
from mxforge.ir.hashing import structural_hash
from mxforge.ir.irdl import irdl_module
from mxforge.ir.parser import parse_graph
from mxforge.ir.printer import print_graph
from mxforge.ir.types import DType, TensorType
from mxforge.passes.manager import Context, run_passes
from mxforge.passes.pipeline import FOR_KERNELS, FOR_REFERENCE

FIXTURES = Path(__file__).parent.parent / "data" / "fixtures"
SHAPES = {
    "convnet": (2, 3, 32, 32),
    "mlp": (16, 12),
    "tagger": (9, 3),
    "squeezenet1.1": (1, 3, 224, 224),
    "mobilenet0.25": (1, 3, 224, 224),
    "mobilenetv2_0.25": (1, 3, 224, 224),
}


@cache
def stages(model: str) -> dict[str, Graph]:
    """The graph of a model in mx, in core and in fused regions."""
    symbol = sym.load(str(FIXTURES / f"{model}-symbol.json"))
    arguments, _, auxiliary = symbol.infer_shape(data=SHAPES[model])
    assert arguments is not None
    assert auxiliary is not None
    names = [*symbol.list_arguments(), *symbol.list_auxiliary_states()]
    types = {n: TensorType(s, DType.F32) for n, s in zip(names, [*arguments, *auxiliary], strict=True)}
    graph = symbol_to_graph(symbol, types, parameters=[n for n in names if n not in ("data", "softmax_label")])
    context = Context(AVX2)
    return {
        "mx": graph,
        "core": run_passes(FOR_REFERENCE, graph, context),
        "fused": run_passes(FOR_KERNELS, graph, context),
    }


@pytest.mark.parametrize("model", SHAPES)
def test_upstream_mlir_accepts_every_stage(model: str) -> None:
    mlir = pytest.importorskip("torch_mlir.ir", reason="the torch-mlir wheel is not installed")
    irdl = pytest.importorskip("torch_mlir.dialects.irdl")
    texts = [print_graph(g) for g in stages(model).values()]
    with mlir.Context() as context, mlir.Location.unknown():
        assert not context.allow_unregistered_dialects
        irdl.load_dialects(mlir.Module.parse(irdl_module(*texts)))
        for text in texts:
            assert mlir.Module.parse(text).operation.verify()
        broken = texts[0].replace('"mx.', '"mx.no_such_', 1)
        with pytest.raises(mlir.MLIRError):
            mlir.Module.parse(broken)


@pytest.mark.parametrize("model", SHAPES)
def test_print_parse_print_is_the_identity(model: str) -> None:
    for graph in stages(model).values():
        text = print_graph(graph)
        again = parse_graph(text)
        assert print_graph(again) == text
        assert structural_hash(again) == structural_hash(graph)
