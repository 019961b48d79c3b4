"""Records gradients over the parameters of the recorded calls: swept_gradients.json and .npz here.

Run by real MXNet 1.9.1 after make_goldens.py and make_gradients.py: `python make_swept_gradients.py`. For each
operator, attributes and ranks of the operands, the first call in operators/ that has floats, all of them float32, and
whose gradient is not in gradients.json. A record is [file, number of the call in it, {position of an input: where its
gradient begins in the array, or null if it is zero}]. The cotangents are those of `golden_case.cotangent`.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any, Iterator

import numpy as np
from golden_case import Case, cotangent
from make_goldens import HERE, as_numpy, operator_handle, write_lines
from make_gradients import agreed, as_many_as_possible

RANDOM = re.compile(r"_image_random|_random_|_sample_|Dropout|_shuffle")
KEPT_BITS = 12  # of the mantissa: gradients are compared with less precision, and compress better so


def calls() -> Iterator[tuple[str, int, Case]]:
    """The calls to record."""
    seen = {_key(r["op"], r["attributes"], r["inputs"]) for r in json.loads((HERE / "gradients.json").read_text())}
    for path in sorted((HERE / "operators").glob("*.json")):
        with np.load(path.with_suffix(".npz")) as stored:
            pools = dict(stored)
        for number, record in enumerate(json.loads(path.read_text())):
            if "refused" in record or RANDOM.match(record["op"]) or record["attributes"].get("act_type") == "rrelu":
                continue
            floats = {dtype for dtype, *_ in record["inputs"] if dtype.startswith("float")}
            key = _key(record["op"], record["attributes"], record["inputs"])
            if floats != {"float32"} or key in seen or record["attributes"].get("dtype") == "bfloat16":
                continue
            seen.add(key)
            arrays = tuple(_stored(pools, reference) for reference in record["inputs"])
            yield path.stem, number, Case(record["op"], arrays, record["attributes"])


def _stored(pools: dict[str, np.ndarray], reference: list[Any]) -> np.ndarray:
    dtype, begin, *shape = reference
    return pools[dtype][begin:][: int(np.prod(shape, dtype=int))].reshape(shape)


def _key(op: str, attributes: dict[str, str], inputs: list[Any]) -> tuple[Any, ...]:
    return op, tuple(sorted(attributes.items())), tuple(len(shape) for _, _, *shape in inputs)


def answer(case: Case) -> Any:
    """The inputs, no cotangents, and by position the gradients; a text where MXNet gives none."""
    arrays = list(case.inputs)
    floats = [i for i, x in enumerate(arrays) if x.dtype.kind == "f"]
    try:
        return gradients(case, arrays, floats)
    except Exception as error:
        found = as_many_as_possible(case, arrays, floats, gradients)
        return found or str(error).strip().splitlines()[-1]


def gradients(case: Case, arrays: list[np.ndarray], wrt: list[int]) -> Any:
    import mxnet as mx
    from mxnet._ctypes.ndarray import _imperative_invoke

    inputs = [mx.nd.array(x, dtype=x.dtype) for x in arrays]
    for i in wrt:
        inputs[i].attach_grad()
    names, values = list(case.attributes), list(case.attributes.values())
    with mx.autograd.record():
        outputs = list(_imperative_invoke(operator_handle(case.op), inputs, names, values, None, False, True))
    heads = [mx.nd.array(cotangent(y.shape), dtype=y.dtype) for y in outputs]
    mx.autograd.backward(outputs, heads)
    return arrays, [], {i: as_numpy(inputs[i].grad) for i in wrt}


def shortened(array: np.ndarray) -> np.ndarray:
    """The elements rounded to KEPT_BITS."""
    half = np.uint32(1 << (22 - KEPT_BITS))
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    rounded = ((bits + half) & ~np.uint32((half << 1) - 1)).view(np.float32)
    return np.where(np.isfinite(array), rounded, array).astype(np.float32)


def main() -> None:
    import mxnet  # noqa: F401  (before the processes are made: they need not load it)

    parts, size, records = [], 0, []
    for file, number, case in calls():
        found = agreed(case, answer)
        if isinstance(found, str):
            print(f"no gradient: {case.op} {case.attributes}: {found[:100]}", file=sys.stderr)
            continue
        places = {}
        for i, array in found[2].items():
            places[i] = size if array.any() else None
            if array.any():
                parts.append(shortened(array.ravel()))
                size += array.size
        records.append([file, number, places])
    np.savez_compressed(HERE / "swept_gradients.npz", gradients=np.concatenate(parts))
    write_lines(HERE / "swept_gradients.json", records)
    print(f"{len(records)} gradients, {size} elements")


if __name__ == "__main__":
    main()
