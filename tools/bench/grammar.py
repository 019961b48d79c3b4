"""The options of `mxforge bench`, and the names of its suites and peers. Imports no large module."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..argument_types import positive, positives

_GRAPHS = ("torch-graph", "torch-graph-nhwc")
TORCH = ("torch", "torch-nhwc", "torch-compile", "torch-compile-nhwc", *_GRAPHS)
PEERS = ("mxnet", "mxnet-mkldnn", "onnxruntime", *TORCH, "numpy", "mxforge")
ON_GPUS = ("mxnet", *TORCH, "mxforge")
"""The peers that run on GPUs."""
ONLY_ON_GPUS = _GRAPHS
SUITES = ("pointwise", "softmax", "layernorm", "eager", "mlp")
OPERATORS = (
    "exp",
    "add",
    "add-row",
    "sum-rows",
    "sum-columns",
    "transpose",
    "concat",
    "slice",
    "slice-step",
    "product",
)
PRODUCTS = ("product-256", "product", "product-2048")
ORDERS = (
    "sort",
    "sort-rows",
    "argsort",
    "argsort-rows",
    "top",
    "top-rows",
    "running-sums-rows",
    "running-sums-columns",
)
SEQUENCES = ("lstm-1", "lstm-4", "lstm-32", "gru-1", "gru-4", "gru-32", "bert-128", "bert-512")
STEPS = (
    "train-mlp",
    "train-mlp-eager",
    "train-lenet",
    "train-resnet18",
    "train-resnet50",
    "train-mobilenet",
    "train-lstm",
    "train-bert",
    "train-adam",
    "train-sgd-small",
)
AUGMENTERS = (
    "augment-decode",
    "augment-crop",
    "augment-jitter",
    "augment-iter-crop",
    "augment-iter-jitter",
    "augment-iter-detection",
)
READERS = ("read-images", "read-records", "read-index")
MANY = {
    "operators": OPERATORS,
    "products": PRODUCTS,
    "orders": ORDERS,
    "sequences": SEQUENCES,
    "training": STEPS,
    "augmenters": AUGMENTERS,
    "data": READERS,
}
"""Suites of suites."""
ON_HOST = ("loader", "augmenters", "data", *AUGMENTERS, *READERS)
"""Suites of work that is not for GPUs."""
ALONE = ("calls", "numpy", "shapes", "scaling")
"""Suites with reports of their own, which measure mxforge alone."""
ALL_OPERATORS = "all-operators"
DISTRIBUTED = "distributed"
WITH_PEERS = {ALL_OPERATORS: ("mxnet", "torch", "numpy"), DISTRIBUTED: ("torch",)}
"""The other suites with reports of their own, and the peers of each."""
OWN_REPORTS = (*ALONE, *WITH_PEERS)
_ALL_SUITES = tuple(
    dict.fromkeys(
        (
            *SUITES,
            *OPERATORS,
            *PRODUCTS,
            *ORDERS,
            *SEQUENCES,
            "loader",
            *STEPS,
            *AUGMENTERS,
            *READERS,
            *MANY,
            *OWN_REPORTS,
        )
    )
)

BENCH_EXAMPLES = """\
examples:
  mxforge bench resnet50 --input-shape data=1,3,224,224 --against mxnet --python mxnet=/opt/mxnet/bin/python --threads 2
  mxforge bench resnet50 --input-shape data=1,3,224,224 --batch 1,2,4,8 --threads 1,2 \\
      --against onnxruntime --markdown report.md --plot report.png
  mxforge bench --suite bert-128 --ctx gpu --against torch,torch-graph,torch-compile
  mxforge bench --suite softmax --against mxnet,torch --python mxnet=/opt/mxnet/bin/python \\
      --python torch=/opt/torch/bin/python
"""


class _Pythons(argparse.Action):
    """Collects `PEER=PATH` in a dictionary."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: object, _: object = None
    ) -> None:
        name, equals, path = str(values).partition("=")
        if not (name and equals and path):
            parser.error(f"argument {self.option_strings[0]}: {values!r} is not PEER=PATH")
        if name not in PEERS:
            parser.error(f"argument {self.option_strings[0]}: {_not_a_peer(name)}")
        setattr(namespace, self.dest, {**getattr(namespace, self.dest), name: path})


def peers(text: str) -> tuple[str, ...]:
    """Names of peers separated by commas."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if name not in PEERS:
            raise argparse.ArgumentTypeError(_not_a_peer(name))
    return names


def _not_a_peer(name: str) -> str:
    from ...ir.suggestions import suggestion

    return f"{name!r} is not a peer; peers are {', '.join(PEERS)}.{suggestion(name, PEERS)}"


def _suite(text: str) -> str:
    """The name of a suite."""
    from ...ir.suggestions import suggestion

    if text not in _ALL_SUITES:
        hint = suggestion(text, _ALL_SUITES) or f" Suites are {', '.join(_ALL_SUITES)}"
        raise argparse.ArgumentTypeError(f"{text!r} is not a suite.{hint}")
    return text


def add_bench_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that only this command has."""
    parser.add_argument(
        "--suite",
        type=_suite,
        choices=_ALL_SUITES,
        metavar="NAME",
        help=f"a micro workload instead of a model: {', '.join(SUITES)}; an operator on large arrays: "
        f"{', '.join(OPERATORS)}, or operators for all of them; a product of square matrices: "
        f"{', '.join(PRODUCTS)}, or products; sorts and running sums: {', '.join(ORDERS)}, or orders; "
        f"a network on sequences: {', '.join(SEQUENCES)}, or sequences; "
        "calls: first calls and calls with new shapes; numpy: mx.np beside mx.nd, NumPy and PyTorch; "
        "shapes: calls of hybridized networks with new shapes; loader: an epoch of a data loader; "
        f"one step of training: {', '.join(STEPS)}, or training for all of them; work on 32 photographs: "
        f"{', '.join(AUGMENTERS)}, or augmenters; readers of files: {', '.join(READERS)}, or data; "
        f"{ALL_OPERATORS}: 150 operators, forward and with gradients, in a table of ratios",
    )
    text = "the first extent of every input; each of several is measured"
    parser.add_argument("--batch", type=positives, dest="batches", metavar="N,...", help=text)
    text = "threads of all programs (default: the CPUs of this process); each of several is measured"
    parser.add_argument("--threads", type=positives, dest="thread_counts", metavar="N,...", help=text)
    parser.add_argument("--repeat", type=positive, default=20, metavar="N", help="rounds of measurement (default: 20)")
    parser.add_argument("--against", type=peers, default=(), metavar="PEER,...", help=f"any of {', '.join(PEERS)}")
    parser.add_argument(
        "--python",
        action=_Pythons,
        dest="pythons",
        default={},
        metavar="PEER=PATH",
        help="the Python interpreter in which the peer is installed",
    )
    text = "the model for onnxruntime (default: mxforge exports it, which requires the package onnx)"
    parser.add_argument("--onnx", type=Path, metavar="FILE", help=text)
    parser.add_argument(
        "--torch", type=Path, metavar="FILE", help="the model for torch: TorchScript, or saved by torch.export"
    )
    text = "largest difference (default: 1e-5; 5e-2 with --weights bf16; more for steps of training)"
    parser.add_argument("--tolerance", type=float, metavar="X", help=text)
    text = "write the figures to this file; without FILE or with -, print them instead of text"
    parser.add_argument("--json", type=Path, nargs="?", const=Path("-"), metavar="FILE", help=text)
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write tables to this file")
    text = "draw the figures to a .png, .svg or .pdf file; requires Matplotlib"
    parser.add_argument("--plot", type=Path, metavar="FILE", help=text)
