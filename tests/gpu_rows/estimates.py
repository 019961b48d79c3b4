"""Compares estimated times with measured ones:

    python -m tests.gpu_rows.estimates hardware.json [GPU]

prints a table for docs/benchmarks.md of the rows of a `hardware.json` whose programs can be estimated. GPU is a name
that `mxforge profile --estimate` takes; h100 by default. No GPU is needed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def main(arguments: Sequence[str]) -> int:
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    results = json.loads(Path(arguments[0]).read_text())
    print("\n".join(table(results["rows"], *arguments[1:2])))
    return 0


def table(rows: Mapping[str, Any], gpu: str = "h100") -> Iterator[str]:
    """The lines of the table."""
    from gpu_rows.rows import rows as all_rows

    yield "| workload | measured us | estimated us | estimate / measured | limited by |"
    yield "|---|--:|--:|--:|---|"
    for row in all_rows():
        measured = rows.get(row.name, {}).get("mxforge", {}).get("us")
        if measured is None or row.spec["kind"] not in ("network", "operator"):
            continue
        microseconds, bounds = estimate(row.spec, gpu)
        shares = ", ".join(f"{name} {100 * share:.0f} %" for name, share in bounds.items() if share >= 0.1)
        cells = row.name, f"{measured:.4g}", f"{microseconds:.4g}", f"{microseconds / measured:.2f}", shares
        yield f"| {' | '.join(cells)} |"


def estimate(spec: Mapping[str, Any], gpu: str = "h100") -> tuple[float, dict[str, float]]:
    """The microseconds of the program of a row, and the shares of what limits its launches."""
    from mxforge.codegen.driver import compile_steps
    from mxforge.codegen.triton.describe import described
    from mxforge.frontend.symbol.function import SymbolFunction
    from mxforge.tools.profile.estimate import estimate_program
    from mxforge.tools.profile.estimate_command import seconds_by_bound
    from mxforge.tools.profile.gpu_data import GPUS

    symbol, types, parameters = _program(spec)
    function = SymbolFunction(symbol, parameters)
    options = replace(function.options(training=False), static_shape=True)
    if spec["dtype"] == "tf32":
        options = replace(options, precision="tf32")
    target = described(GPUS[gpu].target)
    program = compile_steps(function.graph(types), target, options).program
    steps = estimate_program(program, target.kernels, GPUS[gpu])
    total = sum(step.seconds for step in steps)
    return 1e6 * total, {name: seconds / total for name, seconds in seconds_by_bound(steps).items()}


def _program(spec: Mapping[str, Any]) -> tuple[Any, list[Any], list[str]]:
    """(symbol, the types of its inputs, the names of its parameters)"""
    import mxforge as mx
    from mxforge.ir.types import DType, TensorType

    shape = tuple(spec["shape"])
    dtype = "float32" if spec["dtype"] == "tf32" else spec["dtype"]
    if spec["kind"] == "operator":
        symbol, shapes, parameters = _operator(mx.sym, spec["operator"]), {}, dict[str, Any]()
    else:
        symbol, parameters = _network(mx, spec, dtype)
        shapes = {name: tuple(p.shape) for name, p in parameters.items()}
    known = {"float32": DType.F32, "float16": DType.F16, "bfloat16": DType.BF16}
    types: list[Any] = []
    for name in symbol.list_inputs():
        default = shape[1:] if name in ("gamma", "beta") else shape
        own = parameters[name].dtype if name in parameters else dtype
        types.append(TensorType(shapes.get(name, default), known[_name(own)]))
    return symbol, types, list(parameters)


def _name(dtype: Any) -> str:
    import numpy as np

    return dtype if isinstance(dtype, str) else np.dtype(dtype).name


def _operator(sym: Any, name: str) -> Any:
    x, y, gamma, beta = (sym.var(n) for n in ("data", "y", "gamma", "beta"))
    operators = {
        "copy": lambda: sym.identity(x),
        "softmax": lambda: sym.softmax(x),
        "layer_norm": lambda: sym.LayerNorm(x, gamma, beta),
        "sum": lambda: sym.sum(x),
        "column_sum": lambda: sym.sum(x, axis=0),
        "product": lambda: sym.dot(x, y),
    }
    return operators[name]()


def _network(mx: Any, spec: Mapping[str, Any], dtype: str) -> tuple[Any, dict[str, Any]]:
    from gpu_rows.ours import network_of

    net = network_of(spec["network"])
    if not all(all(p.shape or (0,)) for p in net.collect_params().values()):
        net.infer_shape(mx.nd.zeros(spec["shape"]))
    if dtype != "float32":
        net.cast(dtype)
    symbol = net(mx.sym.var("data"))
    return symbol, {p.name: p for p in net.collect_params().values() if p.name in symbol.list_inputs()}


if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parent))
    sys.exit(main(sys.argv[1:]))
