"""Records gradients of MXNet's operators: gradients.json and gradients.npz here, for the calls in gradient_cases.py.

Run by real MXNet 1.9.1, as make_goldens.py is: `python make_gradients.py`. A call runs in autograd's train mode; its
float results have a cotangent each, and the gradients of its float inputs are recorded, as far as MXNet gives them.
Each call runs in a process of its own with and without oneDNN; where both answer and differ it is left out.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from typing import Any, Callable

import numpy as np
from golden_case import Case
from gradient_cases import cases
from make_goldens import HERE, PLAIN, Pool, as_numpy, operator_handle, seed_of, write_lines

SECONDS = 60


def answer(case: Case) -> Any:
    """The inputs, the cotangents, and by position the gradients; a text where MXNet gives none."""
    random = np.random.default_rng(seed_of(case))
    arrays = case.draw(random)
    floats = [i for i, x in enumerate(arrays) if x.dtype.kind == "f"]
    try:
        return gradients(case, arrays, floats)
    except Exception as error:
        found = as_many_as_possible(case, arrays, floats, gradients)
        return found or str(error).strip().splitlines()[-1]


def as_many_as_possible(case: Case, arrays: list[np.ndarray], floats: list[int], gradients: Callable[..., Any]) -> Any:
    """The gradients by some of the inputs, as far as MXNet has them together; None if by none."""
    wrt: list[int] = []
    found = None
    for i in floats:
        try:
            found = gradients(case, arrays, [*wrt, i])
        except Exception:
            continue
        wrt.append(i)
    return found


def gradients(case: Case, arrays: list[np.ndarray], wrt: list[int]) -> Any:
    import mxnet as mx
    from mxnet._ctypes.ndarray import _imperative_invoke

    inputs = [mx.nd.array(x, dtype=x.dtype) for x in arrays]
    for i in wrt:
        inputs[i].attach_grad()
    given = [mx.nd.zeros_like(inputs[i]) for i in case.out] or None
    names, values = list(case.attributes), list(case.attributes.values())
    with mx.autograd.record():
        outputs = list(_imperative_invoke(operator_handle(case.op), inputs, names, values, given, False, True))
    random = np.random.default_rng(seed_of(case) + 1)
    heads = [mx.nd.array(random.integers(-64, 65, y.shape) / 64, dtype=y.dtype) for y in outputs]
    mx.autograd.backward(outputs, heads)
    cotangents = [as_numpy(h) for h, y in zip(heads, outputs) if np.dtype(y.dtype).kind == "f"]
    return arrays, cotangents, {i: as_numpy(inputs[i].grad) for i in wrt}


def run(case: Case, environment: dict[str, str], answer: Callable[[Case], Any]) -> Any:
    """The answer of a process of its own, which may die."""
    receive, send = multiprocessing.Pipe(duplex=False)
    if (child := os.fork()) == 0:
        os.environ.update(environment)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        send.send(answer(case))
        os._exit(0)
    send.close()
    try:
        return receive.recv() if receive.poll(SECONDS) else "it hung"
    except EOFError:
        return "it died"
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


def agreed(case: Case, answer: Callable[[Case], Any] = answer) -> Any:
    """The answer with and without oneDNN; a text if they differ, or if there is none."""
    first, second = run(case, {}, answer), run(case, PLAIN, answer)
    if isinstance(first, str) or isinstance(second, str):
        return second if isinstance(first, str) else first
    same = all(np.allclose(g, second[2][i], 1e-3, 1e-3, equal_nan=True) for i, g in first[2].items() if i in second[2])
    return first if same else "the answers with and without oneDNN differ"


def record(case: Case, found: Any, pool: Pool) -> dict[str, Any]:
    inputs, cotangents, gradients = found
    return {
        "op": case.op,
        "attributes": case.attributes,
        "inputs": [pool.add(x) for x in inputs],
        "cotangents": [pool.add(x) for x in cotangents],
        "gradients": {i: pool.add(x) for i, x in gradients.items()},
    }


if __name__ == "__main__":
    import mxnet  # noqa: F401  (before the processes are made: they need not load it)

    pool, records = Pool(), []
    for case in cases():
        found = agreed(case)
        if isinstance(found, str):
            print(f"no gradient: {case.op} {case.attributes}: {found[:100]}", file=sys.stderr)
        else:
            records.append(record(case, found, pool))
    pool.save(HERE / "gradients.npz")
    write_lines(HERE / "gradients.json", records)
    print(f"{len(records)} gradients of {len({r['op'] for r in records})} operators")
