"""Records how MXNet 1.9.1 refuses the programs in `mistakes/`: `python tests/data/make_mistakes.py`.

Runs where `mxnet==1.9.1` is installed, and writes the lines `--- MXNet:` anew. Each program has a process of its own:
some that MXNet accepts damage its memory.
"""

import multiprocessing
import os
import sys
import tempfile
import warnings

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import mxnet as mx
from mistakes import groups, inner_frames, read, write


def outcome(mistake):
    """MXNet's type of error and the length of its traceback."""
    error = mistake.run(mx)
    return ("none", 0) if error is None else (type(error).__name__, len(inner_frames(error)))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    os.chdir(tempfile.mkdtemp())
    for group in groups():
        recorded = read(group)
        with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
            for mistake, found in zip(recorded, pool.imap(outcome, recorded, chunksize=1)):
                mistake.mxnet, mistake.frames = found
        write(group, recorded)
