"""The options of `mxforge tune`."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..argument_types import positive

TUNE_EXAMPLES = """\
examples:
  mxforge tune resnet50 --input-shape data=1,3,224,224
  mxforge tune resnet50 --input-shape data=1,3,224,224 --time-limit 300 --threads 4 --json
  mxforge tune resnet50 --input-shape data=32,3,224,224 --training
  mxforge tune resnet50 --input-shape data=1,3,224,224 --ctx gpu --time-limit 300
"""


def fill_tune(parser: argparse.ArgumentParser) -> None:
    """Add the options that other commands on models lack."""
    text = "seconds of the search (default: 60); what was found by then is measured again and stored"
    parser.add_argument("--time-limit", type=positive, default=60, metavar="N", help=text)
    text = "tune a step of training: the forward program and the gradients of all parameters"
    parser.add_argument("--training", action="store_true", help=text)
    text = "the .json file to write (default: PREFIX-tuning.json beside the model, where other commands find it)"
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help=text)
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def add_tuning(parser: argparse.ArgumentParser) -> None:
    """Add the option of commands that compile."""
    text = "use the schedules of this file of mxforge tune (default: PREFIX-tuning.json, if it exists); off: use none"
    parser.add_argument("--tuning", metavar="FILE", help=text)
