"""Compiles all kernels of networks for an architecture of GPUs, and reports those that spill registers or fail.

    python tests/run_spills.py --target cuda-sm80 --training bert
    python tests/run_spills.py --target cuda-sm90 --dtype float16 --batch 32

Networks are those of the hardware table and of the model zoo; all by default. With `--training` the kernels are those
of a step: forward and backward. A kernel that spills is compiled again with twice as many warps, as programs do. Equal
kernels are compiled once. No GPU is needed. The exit status is 1 if a kernel fails or spills.
"""

from __future__ import annotations

import argparse
import sys
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import mxforge as mx
from mxforge.codegen.driver import compile_graph
from mxforge.codegen.triton.compile import compile_without_spills
from mxforge.codegen.triton.describe import DescribedTarget, described
from mxforge.codegen.triton.emit import TritonSource
from mxforge.codegen.triton.target import TARGETS
from mxforge.frontend.symbol.function import SymbolFunction
from mxforge.ir.graph import Graph
from mxforge.ir.types import DType, TensorType
from mxforge.passes.manager import Context, Options
from mxforge.passes.training import training_graphs
from mxforge.runtime.derivative import backward_graph

_ZOO = "alexnet densenet121 inception_v3 mobilenet_v2_1_0 resnet18_v2 resnet50_v1 squeezenet1_0 vgg16".split()
NETWORKS = (*_ZOO, "bert", "lstm")
_DTYPES = {"float32": DType.F32, "float16": DType.F16, "bfloat16": DType.BF16}
_FRAME = 16
"""Bytes of a stack frame that LLVM can leave in kernels that spill nothing."""


def graph_of(name: str, dtype: str, batch: int) -> tuple[Graph, list[int]]:
    """The graph of a network, and the positions of the inputs that are trained."""
    gluon = mx.gluon
    if name in _ZOO:
        net: Any = getattr(gluon.model_zoo.vision, name)()
        size = 299 if name == "inception_v3" else 224
        shape: tuple[int, ...] = (batch, 3, size, size)
    else:
        from mxforge.tools.bench.training_mxnet import network

        net = network(gluon, name)
        shape = (batch, 128, 768) if name == "bert" else (35, batch, 650)
    if not all(all(p.shape or (0,)) for p in net.collect_params().values()):
        net.infer_shape(mx.nd.zeros(shape))
    if dtype != "float32":
        net.cast(dtype)
    symbol, parameters = net(mx.sym.var("data")), {p.name: p for p in net.collect_params().values()}
    names = symbol.list_inputs()
    fixed = {"data", *symbol.list_auxiliary_states()}
    types = [
        TensorType(tuple(parameters[n].shape) if n in parameters else shape, _dtype(parameters.get(n), dtype))
        for n in names
    ]
    graph = SymbolFunction(symbol, [n for n in names if n in parameters]).graph(types)
    return graph, [i for i, n in enumerate(names) if n not in fixed]


def _dtype(parameter: Any, dtype: str) -> DType:
    own = dtype if parameter is None else parameter.dtype
    return _DTYPES[own if isinstance(own, str) else own.__name__]


def sources_of(graph: Graph, wrt: list[int], target: DescribedTarget, training: bool) -> Iterator[TritonSource]:
    """The sources of all kernels of a graph, or of a step of its training."""
    options = Options(training=training)
    if not training:
        compile_graph(graph, target, options)
    else:
        split = training_graphs(graph, wrt, Context(target, options))
        forward = compile_graph(split.forward, target, options)
        compile_graph(backward_graph(split, forward.outputs), target, options)
    for known in target.kernels.values():
        yield known.source


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", choices=[*NETWORKS, []], help="only these")
    parser.add_argument("--target", choices=TARGETS, default="cuda-sm90")
    parser.add_argument("--dtype", choices=_DTYPES, default="float32")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--training", action="store_true", help="the kernels of a step of training")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    target, done, wrong = TARGETS[options.target], set[str](), 0
    for name in options.networks or NETWORKS:
        graph, wrt = graph_of(name, options.dtype, options.batch)
        count = 0
        for source in sources_of(graph, wrt, described(target), options.training):
            if source.identity.replace(source.name, "") in done:
                continue
            done.add(source.identity.replace(source.name, ""))
            count += 1
            problem = _problem(source, target)
            if problem:
                wrong += 1
                dims = {d.name: d.block for d in source.schedule.dims}
                print(f"{name} {source.name}: {problem} ({dims}, {source.schedule.num_warps} warps)", flush=True)
        print(f"{name}: {count} new kernels", flush=True)
    print(f"{len(done)} kernels for {options.target}: {wrong} spill or fail")
    return 1 if wrong else 0


def _problem(source: TritonSource, target: Any) -> str:
    try:
        stack = compile_without_spills(replace(source, grid=(), numbers=()), target).resources.stack
    except Exception:
        return traceback.format_exc(limit=-1)
    return f"spills {stack} bytes" if stack > _FRAME else ""


if __name__ == "__main__":
    sys.exit(main())
