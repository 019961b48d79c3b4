"""The forms in which a random program with gradients runs, and the comparison with the reference target's results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import mxforge as mx
import numpy as np
from mxforge.ir.caches import clear_caches
from random_gradient_programs import GradientProgram, arrays
from random_program_forms import has_threads, with_one_thread
from random_programs import Array

Results = list[Array]
"""The outputs, the gradients of the inputs that have one, and the states."""
Form = Callable[[GradientProgram], Results]
"""Runs the steps on the inputs of this program, whose shapes are those of the program that the form was made of."""


class GradientBlock(mx.gluon.HybridBlock):
    """A program as a block. Inputs with these numbers are parameters of the block; states always are."""

    def __init__(self, program: GradientProgram, steps: Any, numbers: Sequence[int] = ()) -> None:
        super().__init__()
        self.steps, self.count = steps, len(program.inputs)
        self.parameters: dict[int, Any] = {}
        for i in sorted({*numbers, *program.states}):
            x, request = program.inputs[i], program.requests[i]
            kept = {"grad_req": request, "differentiable": i not in program.states}
            self.parameters[i] = self.params.get(f"x{i}", shape=x.shape, dtype=x.dtype, init="zeros", **kept)
            setattr(self, f"x{i}", self.parameters[i])
        self.initialize()

    def hybrid_forward(self, F: Any, x: Any, *inputs: Any, **parameters: Any) -> list[Any]:
        given = iter([x, *inputs])
        values = [parameters[f"x{i}"] if i in self.parameters else next(given) for i in range(self.count)]
        return self.steps.run(F, values)

    def call(self, inputs: Sequence[Any]) -> list[Any]:
        made = self(*(x for i, x in enumerate(inputs) if i not in self.parameters))
        return list(made) if isinstance(made, list | tuple) else [made]


def check(program: GradientProgram) -> None:
    """Assert that every form returns the expected results, and the same bits when it runs again after other inputs."""
    assert not program.faults, "; ".join(program.faults)
    with mx.util.np_shape(is_unusual(program)):
        other = program.with_inputs([x * x.dtype.type(1.5) if x.dtype.kind == "f" else x for x in program.inputs])
        for name, run in forms(program):
            first = run(program)
            compare(program, name, first)
            run(other)
            same_bits(program, name, first, run(program))
        if has_threads():
            name, run = forms(program)[program.seed % 4]
            compare(program, f"{name}, one thread", with_one_thread(lambda: run(program)))
        _check_resized(program)


def is_unusual(program: GradientProgram) -> bool:
    """Whether the program needs NumPy's shapes."""
    return any(not x.shape or 0 in x.shape for x in (*program.inputs, *program.expected))


def _check_resized(program: GradientProgram) -> None:
    """The first extents are specialised, others run dynamic programs; each gives the same bits at every call. Some
    programs run eagerly too, where each operator has programs for any extents."""
    programs = [program, *program.resized] if program.resized else []
    ways: dict[str, Form] = {"hybridized": in_block(_block(program))}
    if program.seed % 3 == 0:
        clear_caches()
        ways["eager"] = lambda p: recorded(p, lambda inputs: p.program.run(mx.nd, inputs))
    for way, run in ways.items():
        found = [run(p) for p in programs]
        for p, first in zip(programs, found, strict=True):
            name = f"{way}, shapes {[x.shape for x in p.inputs]}"
            compare(p, name, first)
            same_bits(p, name, first, run(p))


def forms(program: GradientProgram) -> list[tuple[str, Form]]:
    """The forms by name."""
    data = _data(program)
    made: list[tuple[str, Form]] = [
        ("eager", lambda p: recorded(p, lambda inputs: p.program.run(mx.nd, inputs))),
        ("hybridized", in_block(_block(program))),
        ("bound", bound(program)),
        ("cached", cached(program)),
    ]
    numbers = _parameters(program)
    if numbers:
        made.append(("hybridized with parameters", in_block(_block(program, numbers))))
    if data is not None:
        made.append(("module", module(program, data)))
    return made


def _block(program: GradientProgram, numbers: Sequence[int] = ()) -> GradientBlock:
    block = GradientBlock(program, program.program, numbers)
    static = bool(program.seed % 2)
    block.hybridize(static_alloc=static, static_shape=static)
    return block


def _parameters(program: GradientProgram) -> list[int]:
    """The inputs of floats but the first: they can be parameters. One input at least must be data."""
    usual = [i for i, x in enumerate(program.inputs) if x.size and x.shape and x.dtype.kind == "f"]
    data = next(i for i in range(len(program.inputs)) if i not in program.states)
    return [i for i in usual if i != data and i not in program.states]


def in_block(block: GradientBlock) -> Form:
    return lambda p: recorded(p, block.call, block.parameters)


def recorded(
    program: GradientProgram, call: Callable[[Sequence[Any]], list[Any]], parameters: Mapping[int, Any] | None = None
) -> Results:
    """The results by the tape; `call` computes the outputs. The inputs of these numbers are parameters of a block."""
    inputs, gradients = arrays(program.inputs), arrays(program.starts)
    for i, x in enumerate(inputs):
        parameter = (parameters or {}).get(i)
        if parameter is not None:
            parameter.set_data(x)
            inputs[i] = parameter.data()
        if program.requests[i] != "null" and parameter is not None:
            parameter.grad()[:] = gradients[i]
            gradients[i] = parameter.grad()
        elif program.requests[i] != "null":
            mx.autograd.mark_variables([x], [gradients[i]], program.requests[i])
    with mx.autograd.record():
        outputs = call(inputs)
    heads = [outputs[i] for i in program.heads]
    last = len(program.rounds) - 1
    for k, given in enumerate(program.rounds):
        made = None if given is None else [_like(g, y) for g, y in zip(given, heads, strict=True)]
        mx.autograd.backward(heads, made, retain_graph=k < last)
    return _results(program, outputs, gradients, inputs)


def _results(program: GradientProgram, outputs: Sequence[Any], gradients: Any, inputs: Any) -> Results:
    """The results; `gradients` and `inputs` are by the inputs' numbers."""
    return [
        y.asnumpy() for y in (*outputs, *(gradients[i] for i in program.wanted), *(inputs[i] for i in program.states))
    ]


def bound(program: GradientProgram) -> Form:
    """An executor, of which every run overwrites the arrays."""
    group, names = _symbol(program)
    held, gradients = dict(zip(names, arrays(program.inputs), strict=True)), _by_name(names, program.starts)
    used = group.list_arguments()
    requests = dict(zip(names, program.requests, strict=True))
    executor = group.bind(
        mx.current_context(),
        {n: held[n] for n in used},
        {n: gradients[n] for n in used if requests[n] != "null"},
        {n: requests[n] for n in used},
        {n: held[n] for n in group.list_auxiliary_states()},
    )

    def run(p: GradientProgram) -> Results:
        for target, source in ((held, p.inputs), (gradients, p.starts)):
            for n, x in zip(names, arrays(source), strict=True):
                target[n][:] = x
        outputs = executor.forward(is_train=True)
        for k in range(len(p.rounds)):
            executor.backward(_all_heads(p, outputs, k))
        return _results(p, outputs, list(gradients.values()), list(held.values()))

    return run


def _symbol(program: GradientProgram) -> tuple[Any, list[str]]:
    names = [f"x{i}" for i in range(len(program.inputs))]
    variables = [mx.sym.var(n, shape=x.shape, dtype=x.dtype) for n, x in zip(names, program.inputs, strict=True)]
    return mx.sym.Group(program.program.run(mx.sym, variables)), names


def _by_name(names: Sequence[str], values: Sequence[Array]) -> dict[str, Any]:
    return dict(zip(names, arrays(values), strict=True))


def _all_heads(program: GradientProgram, outputs: Sequence[Any], count: int) -> list[Any]:
    """A head gradient for each output: zeros for those that are no heads."""
    given = program.rounds[count]
    made = [mx.nd.zeros(y.shape, dtype=y.dtype) for y in outputs]
    for k, i in enumerate(program.heads):
        made[i] = mx.nd.ones_like(made[i]) if given is None else _like(given[k], made[i])
    return made


def _like(x: Array, y: Any) -> Any:
    """x as an array with the dtype of y."""
    return mx.nd.array(x, dtype=x.dtype).astype(y.dtype, copy=False)


def module(program: GradientProgram, number: int) -> Form:
    """A Module whose data is this input; the others are parameters. Its outputs have no axis of the batch."""
    group, names = _symbol(program)
    for output in group:
        output._set_attr(__layout__="C")
    requests = dict(zip(names, program.requests, strict=True))
    data, x = names[number], program.inputs[number]
    net = mx.mod.Module(group, [data], None, context=mx.current_context())
    net.bind(
        [mx.io.DataDesc(data, x.shape, x.dtype)],
        inputs_need_grad=requests[data] != "null",
        grad_req={n: requests[n] for n in group.list_arguments()},
    )
    assert net._exec_group is not None
    executor = net._exec_group.execs[0]
    states = group.list_auxiliary_states()

    def run(p: GradientProgram) -> Results:
        given, starts = _by_name(names, p.inputs), _by_name(names, p.starts)
        parameters = {n: given[n] for n in names if n != data and n not in states}
        net.init_params(None, parameters, {n: given[n] for n in states}, allow_extra=True, force_init=True)
        for n, gradient in executor.grad_dict.items():
            if gradient is not None:
                gradient[:] = starts[n]
        net.forward(mx.io.DataBatch([given[data]]), is_train=True)
        outputs = net.get_outputs()
        for k in range(len(p.rounds)):
            net.backward(_all_heads(p, outputs, k))
        gradients = [executor.grad_dict.get(n, starts[n]) for n in names]
        return _results(p, outputs, gradients, [executor.aux_dict.get(n, given[n]) for n in names])

    return run


def _data(program: GradientProgram) -> int | None:
    """An input of the symbol with rows, as a module's data must have."""
    used = _symbol(program)[0].list_arguments()
    return next((i for i, x in enumerate(program.inputs) if x.size and x.shape and f"x{i}" in used), None)


def cached(program: GradientProgram) -> Form:
    """A new executor for each run, whose programs are loaded from the disk cache, where `bound` stored them."""

    def run(p: GradientProgram) -> Results:
        clear_caches()
        return bound(program)(p)

    return run


def compare(program: GradientProgram, form: str, found: Sequence[Array]) -> None:
    """AssertionError unless the results agree with the expected ones within their tolerances."""
    each = zip(program.result_names, found, program.expected, program.tolerances, strict=True)
    for where, y, wanted, tolerance in each:
        assert (y.shape, y.dtype) == (wanted.shape, wanted.dtype), f"{form}: {where}: {y.dtype}{y.shape}"
        worst = float(np.abs(y.astype(np.float64) - wanted.astype(np.float64)).max(initial=0))
        assert worst <= tolerance, f"{form}: {where}: differs by {worst:.3g}, tolerance {tolerance:.3g}"


def same_bits(program: GradientProgram, form: str, first: Sequence[Array], second: Sequence[Array]) -> None:
    for where, a, b in zip(program.result_names, first, second, strict=True):
        assert a.tobytes() == b.tobytes(), f"{form}: {where} differs when it runs again"
