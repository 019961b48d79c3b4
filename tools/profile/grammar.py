"""The options of `mxforge profile`."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..argument_types import positive, positive_number, positives

ESTIMATED = tuple("a100 a100-40gb a10 a40 rtx3090 l4 l40s rtx4090 h100 h100-pcie h200 b200".split())
"""The GPUs whose times are estimated: those of `gpu_data.py`, which the grammar does not import."""

PROFILE_EXAMPLES = """\
examples:
  mxforge profile resnet50 --input-shape data=1,3,224,224
  mxforge profile resnet50 --input-shape data=1,3,224,224 --by launch --top 10
  mxforge profile resnet50 --input-shape data=1,3,224,224 --csv layers.csv --trace trace.json --plot roofline.png
  mxforge profile resnet50 --input-shape data=1,3,224,224 --simulate-threads 8,16,32,64
  mxforge profile resnet50 --input-shape data=1,3,224,224 --estimate h100 --by launch
"""


def fill_profile(parser: argparse.ArgumentParser) -> None:
    """Add the options that other commands on models lack."""
    parser.add_argument("--repeat", type=positive, default=20, metavar="N", help="measured runs (default: 20)")
    text = "what a row is: the layers that are computed together (layer, the default), or a launch of the program"
    parser.add_argument("--by", choices=("layer", "launch"), default="layer", help=text)
    parser.add_argument("--top", type=positive, metavar="N", help="show the N slowest rows only; files have all")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text, with the rows of both kinds")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write the rows to this .csv file")
    text = "write the launches of one run to this .json file, for chrome://tracing or ui.perfetto.dev"
    parser.add_argument("--trace", type=Path, metavar="FILE", help=text)
    text = "draw the launches under the roofs of this machine, as .png, .svg or .pdf; needs Matplotlib"
    parser.add_argument("--plot", type=Path, metavar="FILE", help=text)
    text = "estimate the times on this GPU instead, which the machine need not have"
    parser.add_argument("--estimate", choices=ESTIMATED, metavar="GPU", help=f"{text}: {', '.join(ESTIMATED)}")
    _fill_simulation(parser)


def _fill_simulation(parser: argparse.ArgumentParser) -> None:
    text = "predict the time on so many threads instead, from times on one thread (see `mxforge help threads`)"
    parser.add_argument("--simulate-threads", type=positives, metavar="N,N", help=text)
    costs = parser.add_argument_group("assumptions of --simulate-threads")
    text = "microseconds in which two threads share a launch, without its work (default: 1)"
    costs.add_argument("--launch-cost", type=positive_number, metavar="US", help=text)
    text = "nanoseconds for each chunk of a launch, one after the other (default: 100)"
    costs.add_argument("--chunk-cost", type=positive_number, metavar="NS", help=text)
    text = "bytes that all threads read from memory, in GB per second (default: 200)"
    costs.add_argument("--memory-bandwidth", type=positive_number, metavar="GB", help=text)
