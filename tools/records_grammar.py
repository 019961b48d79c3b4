"""The options of `mxforge im2rec` and `mxforge rec2idx`."""

from __future__ import annotations

import argparse

from .argument_types import natural, positive

IM2REC_EXAMPLES = """\
examples:
  mxforge im2rec --list --recursive --train-ratio 0.9 photos folder/of/photos
  mxforge im2rec --resize 256 --quality 90 --num-thread 4 photos folder/of/photos
"""
REC2IDX_EXAMPLES = """\
examples:
  mxforge rec2idx photos_train.rec photos_train.idx
"""


def fill_im2rec(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("prefix", metavar="PREFIX", help="the beginning of the names of .lst, .rec and .idx files")
    parser.add_argument("root", metavar="FOLDER", help="the folder of the images")
    lists = parser.add_argument_group("lists")
    lists.add_argument("--list", action="store_true", help="write lists of the images, instead of record files")
    suffixes = [".jpeg", ".jpg", ".png"]
    text = "the suffixes of images (default: .jpeg .jpg .png)"
    lists.add_argument("--exts", nargs="+", default=suffixes, metavar="SUFFIX", help=text)
    lists.add_argument("--chunks", type=positive, default=1, metavar="N", help="the number of lists (default: 1)")
    lists.add_argument("--train-ratio", type=float, default=1.0, metavar="X", help="the share of _train (default: 1)")
    lists.add_argument("--test-ratio", type=float, default=0.0, metavar="X", help="the share of _test (default: 0)")
    lists.add_argument("--recursive", action="store_true", help="take each folder below as a class")
    lists.add_argument("--no-shuffle", dest="shuffle", action="store_false", help="keep the order of names")
    lists.add_argument("--shuffle", dest="shuffle", action="store_true", help=argparse.SUPPRESS)
    parser.set_defaults(shuffle=True)
    records = parser.add_argument_group("records")
    records.add_argument("--pass-through", action="store_true", help="store files as they are")
    records.add_argument("--resize", type=natural, default=0, metavar="N", help="the length of the shorter edge")
    records.add_argument("--center-crop", action="store_true", help="crop the square at the centre")
    text = "1 to 100 for JPEG, 1 to 9 for PNG (default: 95)"
    records.add_argument("--quality", type=natural, default=95, metavar="N", help=text)
    text = "the number of processes; the order of the records does not depend on it (default: 1)"
    records.add_argument("--num-thread", type=positive, default=1, metavar="N", help=text)
    text = "1 colour, 0 grey, -1 as in the file, with alpha (default: 1)"
    records.add_argument("--color", type=int, default=1, choices=(-1, 0, 1), help=text)
    records.add_argument("--encoding", default=".jpg", choices=(".jpg", ".png"), help="the format (default: .jpg)")
    records.add_argument("--pack-label", action="store_true", help="store all labels of a line, not only the first")


def fill_rec2idx(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("record", metavar="RECORD", help="a .rec file")
    parser.add_argument("index", metavar="INDEX", help="the .idx file to write")
