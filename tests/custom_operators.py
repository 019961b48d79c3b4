"""Registers operators in Python for tests, and runs them in every form: eager, hybridized, static, executor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import mxforge as mx
import pytest

nd: Any = mx.nd
sym: Any = mx.sym
autograd = mx.autograd
seen: list[Any] = []


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    seen.clear()
    yield
    seen.clear()


class Prop(mx.operator.CustomOpProp):
    """A property whose methods return what `about` has."""

    about: dict[str, Any]
    operator: type[Any]

    def __init__(self, **parameters: str) -> None:
        super().__init__(need_top_grad=self.about.get("top", True))
        self.parameters = parameters
        seen.append("property")

    def list_arguments(self) -> list[str]:
        return list(self.about.get("arguments", ["data"]))

    def list_outputs(self) -> list[str]:
        return list(self.about.get("outputs", ["output"]))

    def list_auxiliary_states(self) -> list[str]:
        return list(self.about.get("states", []))

    def infer_shape(self, in_shape: Any) -> Any:
        if "shapes" in self.about:
            return self.about["shapes"](in_shape)
        return in_shape, [in_shape[0]] * len(self.list_outputs()), [(1,)] * len(self.list_auxiliary_states())

    def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> Any:
        seen.append("operator")
        made = self.operator()
        made.parameters, made.created = self.parameters, (ctx, in_shapes, in_dtypes)
        return made


def register(name: str, **about: Any) -> Callable[[type[Any]], type[Any]]:
    """Register the operator class `name` with a Prop, or with its methods that are in `about`."""

    def decorate(cls: type[Any]) -> type[Any]:
        methods = {key: value for key, value in about.items() if hasattr(Prop, key)}
        mx.operator.register(name)(type("Prop", (Prop,), {"about": about, "operator": cls, **methods}))
        return cls

    return decorate


FORMS = ("eager", "hybridized", "static", "executor")


def run(
    form: str, function: Any, *arrays: Any, states: Any = (), times: int = 1, head: Any = None, add: bool = False
) -> list[Any]:
    """Run forward and backward; returns the outputs. `arrays` are variables, `states` are not."""
    for x in arrays:
        if x.grad is None:
            x.attach_grad("add" if add else "write")
    outputs: list[Any] = []
    if form == "executor":
        names = [f"x{i}" for i in range(len(arrays))]
        aux = [f"s{i}" for i in range(len(states))]
        made = function(sym, *map(sym.var, [*names, *aux]))
        made = made if isinstance(made, mx.sym.Symbol) else sym.Group(list(made))
        grads = {n: a.grad for n, a in zip(names, arrays, strict=True)}
        e = made.bind(
            mx.cpu(),
            dict(zip(names, arrays, strict=True)),
            grads,
            "add" if add else "write",
            dict(zip(aux, states, strict=True)),
        )
        for _ in range(times):
            outputs = [o.copy() for o in e.forward(is_train=True)]
            e.backward(None if head is None else [head])
        return outputs

    class Net(mx.gluon.HybridBlock):
        def hybrid_forward(self, F: Any, *x: Any) -> Any:
            return function(F, *x)

    net = Net()
    if form != "eager":
        net.hybridize(static_alloc=form == "static", static_shape=form == "static")
    for _ in range(times):
        with autograd.record():
            found = net(*arrays, *states)
        outputs = list(found) if isinstance(found, list | tuple) else [found]
        autograd.backward(outputs, None if head is None else [head])
    return outputs
