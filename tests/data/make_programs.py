"""Records what the programs of programs/*.py return under real MXNet 1.9.1, in a .json beside each.

`python make_programs.py` for all, `python make_programs.py frontend` for one file. Each file has a table `PROGRAMS` of
functions that take the package as `mx`; tests/frontend/test_programs.py runs them on mxforge and compares.
"""

import json
import pathlib
import sys
from importlib import import_module

import mxnet as mx

FOLDER = pathlib.Path(__file__).resolve().parent / "programs"


def run(function):
    with mx.name.NameManager():
        return function(mx)


def record(group, folder=FOLDER):
    found = {name: run(function) for name, function in import_module(f"{folder.name}.{group}").PROGRAMS.items()}
    lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in found.items()]
    (folder / f"{group}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    for group in sys.argv[1:] or sorted(path.stem for path in FOLDER.glob("*.py")):
        record(group)
