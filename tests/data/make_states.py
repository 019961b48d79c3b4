"""Records the states of MXNet's optimizers, and the weights before and after further updates, in states.json.

usage: python make_states.py                  in an environment with mxnet==1.9.1 and numpy<1.24
       python make_states.py write DIR        where mxforge is installed
then:  python make_states.py check DIR        in MXNet's environment: it continues from the states that mxforge wrote
"""

import base64
import json
import sys
import zlib
from pathlib import Path

import numpy as np
from state_cases import OPTIMIZERS, Run

DATA = Path(__file__).parent
RECORDED = DATA / "states.json"


def record():
    import mxnet as mx

    found = {}
    for name in OPTIMIZERS:
        run = Run(mx, name)
        before = run.steps(0, 3)
        states = base64.b64encode(zlib.compress(run.updater.get_states(dump_optimizer=True), 9)).decode()
        found[name] = {"states": states, "before": before, "after": run.steps(3, 6)}
    RECORDED.write_text(json.dumps(found, indent=0) + "\n")


def write(folder):
    import mxforge as mx

    for name in OPTIMIZERS:
        run = Run(mx, name)
        run.steps(0, 3)
        (folder / name).write_bytes(run.updater.get_states(dump_optimizer=True))


def check(folder):
    import mxnet as mx

    for name, known in json.loads(RECORDED.read_text()).items():
        found = Run(mx, name).resume(known["before"], (folder / name).read_bytes())
        for mine, theirs in zip(found, known["after"]):
            np.testing.assert_allclose(mine, theirs, 1e-5, 2e-5, err_msg=name)
    print("all equal")


if len(sys.argv) == 1:
    record()
else:
    {"write": write, "check": check}[sys.argv[1]](Path(sys.argv[2]))
