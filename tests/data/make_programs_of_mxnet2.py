"""Records what the programs of programs_of_mxnet2/*.py return under real MXNet 2 (2.0.0b1), in a .json beside each.

It runs in an environment with `mxnet==2.0.0b1` and `numpy<1.24` on Python 3.8; see make_programs.py. The programs run
in the NumPy mode (`npx.set_np`).
"""

import pathlib
import sys

import make_programs
import mxnet as mx

FOLDER = pathlib.Path(__file__).resolve().parent / "programs_of_mxnet2"

if __name__ == "__main__":
    mx.npx.set_np()
    for group in sys.argv[1:] or sorted(path.stem for path in FOLDER.glob("*.py")):
        make_programs.record(group, FOLDER)
