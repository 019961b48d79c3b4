"""The grammar of `mxforge convert`. Imports no large module."""

from __future__ import annotations

import argparse
from pathlib import Path

from .argument_types import positive_number

LOSSES = (
    *("l1", "l2", "huber", "hinge", "squared_hinge", "logistic"),
    *("softmax_cross_entropy", "sigmoid_binary_cross_entropy", "kl_div", "poisson_nll"),
)
CONVERT_EXAMPLES = """\
examples:
  mxforge convert resnet50-0000.params resnet50.safetensors --plain-names
  mxforge convert resnet50.npz resnet50-0000.params --symbol resnet50-symbol.json
  mxforge convert resnet50.pth resnet50-0000.params --symbol resnet50-symbol.json
  mxforge convert old-symbol.json new-symbol.json
  mxforge convert resnet50 resnet50.onnx --input-shape data=1,3,224,224 --verify
  mxforge convert resnet50.onnx resnet50-symbol.json
  mxforge convert resnet50 resnet50.mlir --input-shape data=1,3,224,224 --dynamic-batch
  mxforge convert net step.mlir --input-shape data=32,784 label=32 --training --loss softmax_cross_entropy \
      --optimizer adam --learning-rate 0.001
"""


def named_numbers(text: str) -> dict[str, float]:
    """`NAME=X,NAME=X,...`."""
    parts = [part.partition("=") for part in text.split(",")]
    try:
        return {name: float(value) for name, _, value in parts}
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=X,... (such as momentum=0.9,wd=1e-4)") from None


def fill_convert(parser: argparse.ArgumentParser) -> None:
    """Add the files and the options for parameters."""
    text = "a file of parameters (.params, .npz, .safetensors, PyTorch's .pt or .pth), a -symbol.json file, or a model"
    parser.add_argument("source", metavar="SOURCE", help=text)
    text = "the file to write; its suffix is the format: .params, .npz, .safetensors, .json, .onnx, .mlir or .mlirbc"
    parser.add_argument("file", metavar="FILE", help=text)
    parser.add_argument("--plain-names", action="store_true", help="remove arg: and aux: from the names of parameters")
    text = "name parameters as this symbol names its inputs, with arg: and aux: (prints the names that differ)"
    parser.add_argument("--symbol", type=Path, metavar="FILE", help=text)


def add_models(models: argparse._ActionsContainer) -> None:
    """Add the options for models."""
    models.add_argument("--verify", action="store_true", help="compare an ONNX file with ONNX Runtime on random inputs")
    text = "write a model for any batch size: the first extent of each input is unknown, and --input-shape gives any"
    models.add_argument("--dynamic-batch", action="store_true", help=text)
    text = "the version of StableHLO whose readers understand the .mlirbc file; requires the package torch-mlir"
    models.add_argument("--stablehlo-version", metavar="VERSION", help=text)


def add_training(steps: argparse._ActionsContainer) -> None:
    """Add the options for training steps."""
    steps.add_argument("--training", action="store_true", help="write a training step instead of a prediction")
    text = "the loss of the model's output and an input `label` (default: the model's outputs are losses)"
    steps.add_argument("--loss", choices=LOSSES, help=text)
    steps.add_argument("--optimizer", metavar="NAME", help="an optimizer of mxnet (default: sgd)")
    steps.add_argument("--learning-rate", type=positive_number, metavar="X", help="its learning rate")
    text = "further numbers of the optimizer, such as momentum=0.9,wd=1e-4"
    steps.add_argument("--optimizer-params", type=named_numbers, metavar="NAME=X,...", help=text)
