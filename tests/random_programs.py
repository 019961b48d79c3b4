"""Random programs of MXNet's operators as data: their parts, and how they run on arrays and symbols.

`random_program_steps.py` makes them, `run_random_programs.py` runs thousands of them against the reference target.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import mxforge as mx
import numpy as np
from random_layer_functions import LAYERS

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Step:
    """One call: `name` is a function of `nd` and `sym` by its path ("linalg.gemm2"), or of FUNCTIONS here."""

    name: str
    operands: tuple[int, ...]
    parameters: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        arguments = [f"v{i}" for i in self.operands] + [f"{k}={v!r}" for k, v in self.parameters.items()]
        return f"{self.name}({', '.join(arguments)})"


@dataclass(frozen=True)
class Program:
    """`inputs` are the values 0, 1, ...; the results of the steps follow, `counts[i]` for step i. `outputs` are the
    numbers of the program's outputs, `expected` their arrays on the reference target."""

    seed: int
    inputs: tuple[Array, ...]
    steps: tuple[Step, ...]
    counts: tuple[int, ...]
    outputs: tuple[int, ...]
    expected: tuple[Array, ...]
    tolerance: float
    resized: tuple[Program, ...] = ()  # the same steps on inputs of other extents

    def run(self, F: Any, inputs: Sequence[Any]) -> list[Any]:
        """The outputs, computed with the functions of F: `mx.nd` or `mx.sym`."""
        values = list(inputs)
        for step in self.steps:
            values += apply(F, step, [values[i] for i in step.operands])
        return [values[i] for i in self.outputs]

    def __str__(self) -> str:
        lines = [f"program {self.seed}, tolerance {self.tolerance:g}"]
        lines += [f"  v{i} = input {x.dtype}{x.shape}" for i, x in enumerate(self.inputs)]
        number = len(self.inputs)
        for step, count in zip(self.steps, self.counts, strict=True):
            names = ", ".join(f"v{number + k}" for k in range(count))
            lines.append(f"  {names} = {step}")
            number += count
        return "\n".join([*lines, f"  return {', '.join(f'v{i}' for i in self.outputs)}"])


def apply(F: Any, step: Step, operands: Sequence[Any]) -> list[Any]:
    """The results of a step, always as a list."""
    special = FUNCTIONS.get(step.name)
    if special is not None:
        made = special(F, *operands, **step.parameters)
    else:
        function = F
        for name in step.name.split("."):
            function = getattr(function, name)
        made = function(*operands, **step.parameters)
    return list(made) if isinstance(made, list | tuple | mx.sym.Symbol) else [made]


# -- steps that are more than one call


def _rows(F: Any, x: Any, begin: int, end: int) -> Any:
    """Rows of x: as an array, a view of its memory."""
    return x[begin:end] if F is mx.nd else F.slice_axis(x, axis=0, begin=begin, end=end)


def _row_cumulative(F: Any, x: Any) -> Any:
    """Running means over the rows, computed by a loop."""

    def step(row: Any, state: Any) -> tuple[Any, Any]:
        mixed = (row + state) / 2
        return mixed, mixed

    first = F.zeros_like(F.squeeze(F.slice_axis(x, axis=0, begin=0, end=1), axis=0))
    rows, last = F.contrib.foreach(step, x, first)
    return [rows, last]


def _halved(F: Any, x: Any, bound: float) -> Any:
    """x halved until its largest magnitude is below `bound`; the rows of each step."""
    steps, (last,) = F.contrib.while_loop(
        cond=lambda v: F.max(F.abs(v)) > bound, func=lambda v: (v * 0.75, [v * 0.5]), loop_vars=[x], max_iterations=4
    )
    return [*([steps] if not isinstance(steps, list) else steps), last]


def _branch(F: Any, x: Any, y: Any) -> Any:
    """One of two results, chosen by the sums."""
    return F.contrib.cond(F.sum(x) > 0, lambda: x * 2 + y, lambda: y - x)


def _positive(F: Any, x: Any) -> Any:
    """x x^T / 4 + I, which is positive definite."""
    square = F.linalg.gemm2(x, x, transpose_b=True, alpha=0.25)
    return F.broadcast_add(square, F.linalg.makediag(F.ones_like(F.sum(x, axis=-1))))


def _solve(F: Any, x: Any, y: Any) -> Any:
    """a^-1 y by the Cholesky factor of a = x x^T / 4 + I."""
    factor = F.linalg.potrf(_positive(F, x))
    return F.linalg.trsm(factor, F.linalg.trsm(factor, y), transpose=True)


def _eigenvalues(F: Any, x: Any) -> Any:
    """The eigenvalues of a symmetric matrix. The signs of eigenvectors are arbitrary, so they are not compared."""
    return F.linalg.syevd(_positive(F, x))[1]


def _rank(F: Any, x: Any, axis: int) -> Any:
    """The ranks of the elements, in their dtype."""
    return F.argsort(x, axis=axis, dtype="int32")


def _indices(F: Any, rows: tuple[int, ...]) -> Any:
    return F.concat(*[F.full((1,), r) if F is mx.nd else F.full(shape=(1,), val=r) for r in rows], dim=0)


def _bfloat(F: Any, x: Any) -> Any:
    """x converted to bfloat16 and back."""
    return F.cast(F.relu(F.cast(x, dtype="bfloat16")), dtype="float32")


class _Mix(mx.operator.CustomOp):
    def forward(self, is_train: bool, req: list[str], in_data: Any, out_data: Any, aux: Any) -> None:
        x, y = (a.asnumpy() for a in in_data)
        self.assign(out_data[0], req[0], mx.nd.array(x * 2 - y, dtype=x.dtype))
        self.assign(out_data[1], req[1], mx.nd.array(np.flip(x, 0), dtype=x.dtype))

    def backward(self, req: list[str], out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
        mixed, flipped = (a.asnumpy() for a in out_grad)
        self.assign(in_grad[0], req[0], mx.nd.array(mixed * 2 + np.flip(flipped, 0), dtype=mixed.dtype))
        self.assign(in_grad[1], req[1], mx.nd.array(-mixed, dtype=mixed.dtype))


@mx.operator.register("random_program_mix")
class _MixProp(mx.operator.CustomOpProp):
    """A Python operator of two inputs and two outputs of one shape."""

    def list_arguments(self) -> list[str]:
        return ["x", "y"]

    def list_outputs(self) -> list[str]:
        return ["mixed", "flipped"]

    def infer_shape(self, in_shape: Any) -> Any:
        return [in_shape[0], in_shape[0]], [in_shape[0], in_shape[0]], []

    def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> _Mix:
        return _Mix()


def _custom(F: Any, x: Any, y: Any) -> Any:
    return F.Custom(x, y, op_type="random_program_mix")


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "rows": _rows,
    "row_cumulative": _row_cumulative,
    "halved": _halved,
    "branch": _branch,
    "positive": _positive,
    "solve": _solve,
    "eigenvalues": _eigenvalues,
    "rank": _rank,
    "index_copy": lambda F, x, new, rows: F.contrib.index_copy(x, _indices(F, rows), new),
    "scatter": lambda F, x, rows, shape: F.scatter_nd(x, F.reshape(_indices(F, rows), shape=(1, -1)), shape=shape),
    "bfloat": _bfloat,
    "custom": _custom,
    **LAYERS,
}
