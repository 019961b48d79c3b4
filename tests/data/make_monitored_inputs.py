"""Records under which names MXNet 1.9.1's executors tell monitors of operators' inputs.

`python tests/data/make_monitored_inputs.py`, where `mxnet==1.9.1` is installed, writes `monitored_inputs.json` beside
itself: operator, attributes, number of inputs, names. Each operator runs in a process of its own, which some end.
"""

import json
import os
import signal
from pathlib import Path

import numpy as np
from make_goldens import cases_of, operator_handle

HERE = Path(__file__).resolve().parent
CASES = 4  # how many cases of an operator are tried
SECONDS = 15


def names_of(case):
    """What a monitor hears before the outputs, without the variables' own names."""
    import mxnet as mx
    from mxnet._ctypes.symbol import _symbol_creator

    arrays = case.draw(np.random.default_rng(0))
    variables = [mx.sym.var("v%d" % i) for i in range(len(arrays))]
    keys, values = list(case.attributes), list(case.attributes.values())
    symbol = _symbol_creator(operator_handle(case.op), variables, None, keys, values, "n", False)
    bound = {"v%d" % i: mx.nd.array(x, dtype=x.dtype) for i, x in enumerate(arrays)}
    states = {name: bound.pop(name) for name in symbol.list_auxiliary_states()}
    heard = []
    executor = symbol.bind(mx.cpu(), bound, aux_states=states)
    executor.set_monitor_callback(lambda name, _: heard.append(name.decode()), monitor_all=True)
    executor.forward()
    mx.nd.waitall()
    return [name[2:] for name in heard if name.startswith("n_")][: len(arrays)]


def in_a_process(case):
    """`names_of`, or None where MXNet refuses or ends the process."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)
        try:
            os.write(writer, json.dumps(names_of(case)).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else None


def main():
    import mxnet  # noqa: F401  (once, before processes are made)

    found = {}
    for path in sorted((HERE / "operators").glob("*.py")):
        for case in cases_of(path.stem):
            if case.inputs:
                found.setdefault(case.op, []).append(case)
    rows = []
    for op in sorted(found):
        for case in found[op][:CASES]:
            names = in_a_process(case)
            if names is not None:
                rows.append(json.dumps([op, case.attributes, len(case.inputs), names]))
                break
    (HERE / "monitored_inputs.json").write_text("[\n" + ",\n".join(rows) + "\n]\n")


if __name__ == "__main__":
    main()
