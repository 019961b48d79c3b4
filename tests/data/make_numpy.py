"""Records what MXNet's `mx.np` and `mx.npx` return: values, dtypes, shapes and gradients of the calls in
`numpy_cases.py`, and the dtypes of sums of arrays of each two dtypes.

    python tests/data/make_numpy.py          in an environment with mxnet==1.9.1 and numpy==1.23.5 on Python 3.9

In an environment with mxnet==2.0.0b1 and numpy<1.24 on Python 3.8 it records the calls that only MXNet 2 knows.
"""

from __future__ import annotations

import json
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import mxnet as mx
from mxnet import autograd, np, npx

sys.path.insert(0, str(Path(__file__).resolve().parent))
from numpy_cases import _DTYPES, CASES, NOT_DIFFERENTIATED, OF_MXNET2, variables

FOLDER = Path(__file__).resolve().parent / "numpy"


def described(value: Any) -> Any:
    """A result as JSON: arrays as (dtype, shape, numbers), other values as themselves."""
    if isinstance(value, np.ndarray):
        array = value.asnumpy()
        return {
            "dtype": str(value.dtype),
            "shape": list(array.shape),
            "data": [plain(v) for v in array.reshape(-1).tolist()],
        }
    if isinstance(value, (list, tuple)):
        return [described(v) for v in value]
    if hasattr(value, "dtype") and hasattr(value, "item") and not isinstance(value, type):
        return {"number": plain(value.item()), "dtype": str(value.dtype)} if not getattr(value, "shape", ()) else None
    return value if isinstance(value, (bool, int, float, str)) else str(value)


def plain(value: Any) -> Any:
    """A number with nine digits; NaN and infinities as text."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.9g}") if abs(value) < 1e300 else str(value)


def gradients(call: str) -> Any:
    """The gradients of a call by the float arrays that it names; None if there are none."""
    names = variables(np)
    used = [n for n in re.findall(r"\b[a-z_]\w*\b", call) if n in names and str(names[n].dtype) == "float32"]
    if not used or any(part in call for part in NOT_DIFFERENTIATED):
        return None
    for name in used:
        names[name].attach_grad()
    try:
        with autograd.record():
            value = eval(call, {"np": np, "npx": npx, **names})
            heads = [v for v in (value if isinstance(value, (list, tuple)) else [value]) if isinstance(v, np.ndarray)]
            heads = [v for v in heads if str(v.dtype).startswith("float")]
        if not heads:
            return None
        autograd.backward(heads, [np.ones_like(h) * 1.5 for h in heads])
        return {name: described(names[name].grad) for name in dict.fromkeys(used)}
    except Exception as error:
        return {"error": type(error).__name__}


def record(call: str) -> dict[str, Any]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = described(eval(call, {"np": np, "npx": npx, **variables(np)}))
    except Exception as error:
        return {"call": call, "error": type(error).__name__}
    answer = {"call": call, "result": result}
    slopes = gradients(call)
    return answer if slopes is None else {**answer, "gradients": slopes}


def promotion() -> dict[str, list[str]]:
    """The dtype of the sum of arrays, by the dtype of the left one; in the order of dtypes."""
    arrays = {d: np.array([1]).astype(d) for d in _DTYPES}
    return {s: [str((arrays[s] + arrays[t]).dtype) for t in _DTYPES] for s in _DTYPES}


def main() -> None:
    npx.set_np()
    FOLDER.mkdir(exist_ok=True)
    is_second = mx.__version__ == "2.0.0beta1"
    for group, calls in (OF_MXNET2 if is_second else CASES).items():
        lines = [json.dumps(record(call)) for call in dict.fromkeys(calls)]
        (FOLDER / f"{group}.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")
    if not is_second:
        (FOLDER / "promotion.json").write_text(json.dumps(promotion(), indent=1) + "\n")


if __name__ == "__main__":
    assert mx.__version__ in ("1.9.1", "2.0.0beta1")
    main()
