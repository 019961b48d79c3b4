"""Records what the programs of frontend_programs.py return under real MXNet 1.9.1: python make_frontend.py"""

import json
import pathlib

import mxnet as mx
from frontend_programs import PROGRAMS

TARGET = pathlib.Path(__file__).resolve().parent / "frontend.json"


def run(function):
    with mx.name.NameManager():
        return function(mx)


if __name__ == "__main__":
    found = {name: run(function) for name, function in PROGRAMS.items()}
    lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in found.items()]
    TARGET.write_text("{\n" + ",\n".join(lines) + "\n}\n")
