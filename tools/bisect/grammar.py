"""The options of `mxforge bisect`."""

from __future__ import annotations

import argparse

from ..argument_types import positive, positive_number

BISECT_EXAMPLES = """\
examples:
  mxforge bisect resnet50 --input-shape data=1,3,224,224
  mxforge bisect resnet50 --input cat.jpg --preset imagenet
  mxforge bisect resnet50 --input-shape data=8,3,224,224 --training
  mxforge bisect train.py --epochs 1
"""


def fill_bisect(parser: argparse.ArgumentParser) -> None:
    """Add the options that other commands on models lack."""
    text = "bisect a step of training: the joint graph, the forward graph and the gradients of all parameters"
    parser.add_argument("--training", action="store_true", help=text)
    text = "the difference that counts as rounding, by the largest element (default: half of the digits of the dtype)"
    parser.add_argument("--tolerance", type=positive_number, metavar="X", help=text)
    text = "for a script: compare the first N runs of each program (default: 1)"
    parser.add_argument("--runs", type=positive, metavar="N", help=text)
