"""Records the public names of modules of MXNet 2 (2.0.0b1) in names_of_mxnet2.json.

It runs in an environment with `mxnet==2.0.0b1` and `numpy<1.24` on Python 3.8.
"""

import json
import pathlib
from importlib import import_module

PATHS = """
    gluon gluon.nn gluon.rnn numpy numpy.linalg numpy.random numpy_extension numpy_extension.random
""".split()


def main():
    names = {}
    for path in ("", *PATHS):
        module = import_module(f"mxnet.{path}" if path else "mxnet")
        names[path] = " ".join(sorted(name for name in dir(module) if not name.startswith("_")))
    file = pathlib.Path(__file__).resolve().parent / "names_of_mxnet2.json"
    file.write_text(json.dumps(names, indent=1) + "\n")


if __name__ == "__main__":
    main()
