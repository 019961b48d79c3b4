"""mx.profiler: the trace, the tables, and that nothing is recorded when it does not run."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mxforge as mx
import pytest
from mxforge.runtime.host import executable


@pytest.fixture
def trace(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "trace.json"
    mx.profiler.set_config(profile_all=True, aggregate_stats=True, filename=str(path))
    mx.profiler.dumps(reset=True)
    yield path
    mx.profiler.set_state("stop")
    mx.profiler.resume()
    mx.profiler.set_config(filename=str(path))
    mx.profiler.dump()


def events(path: Path, phase: str) -> list[dict[str, Any]]:
    return [e for e in json.loads(path.read_text())["traceEvents"] if e["ph"] == phase]


def network() -> mx.executor.Executor:
    x = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=8, name="first")
    x = mx.sym.FullyConnected(mx.sym.Activation(x, act_type="relu", name="rectify"), num_hidden=4, name="second")
    return x.simple_bind(mx.cpu(), data=(2, 6))


def test_launches_are_named_by_the_operators_in_them(trace: Path) -> None:
    net, a = network(), mx.nd.ones((3, 3))
    mx.nd.dot(a, a)  # compiled before: the profiler must see the fast path too
    mx.profiler.set_state("run")
    net.forward()
    mx.nd.dot(a, a)
    a.exp()
    mx.profiler.set_state("stop")
    a.sqrt()
    mx.profiler.dump(finished=False)
    names = [e["name"] for e in events(trace, "X")]
    assert names == ["first + rectify", "second", "second", "dot", "exp"]
    first, second, whole, dot, _ = events(trace, "X")
    assert (first["cat"], whole["cat"], dot["args"]["program"]) == ("operator", "program", "dot")
    assert first["ts"] + first["dur"] <= second["ts"] and whole["dur"] >= first["dur"] + second["dur"] > 0
    mx.profiler.dump()
    mx.profiler.dump()
    assert events(trace, "X") == []


def test_calls_with_numbers_are_named_as_in_mxnet(trace: Path) -> None:
    x, row = mx.nd.ones((3, 4)), mx.nd.ones((4,))
    calls = [lambda: x + 1, lambda: 2 - x, lambda: x - row, lambda: mx.nd.greater(2, x), lambda: x**2, lambda: -x]
    expected = "_plus_scalar _rminus_scalar broadcast_sub _lesser_scalar _power_scalar _mul_scalar".split()
    mx.profiler.set_state("run")
    for call in [*calls, *calls]:  # the first call, and the fast path
        call()
    x += 1
    mx.nd.negative(x)
    mx.profiler.set_state("stop")
    _ = x + 1, -x
    mx.profiler.dump(finished=False)
    assert [e["name"] for e in events(trace, "X")] == [*expected, *expected, "_plus_scalar", "negative"]


def test_equal_graphs_keep_their_own_names(trace: Path) -> None:
    """They share a program."""
    x = mx.nd.ones((3, 4))
    symbols = [mx.sym.relu(mx.sym.exp(mx.sym.var("data"), name=f"{n}_exp"), name=f"{n}_relu") for n in ("a", "b")]
    executors = [symbol.bind(mx.cpu(), {"data": x}) for symbol in symbols]
    mx.profiler.set_state("run")
    for _ in range(2):
        for executor in executors:
            executor.forward()
        mx.nd.relu(x)
        mx.nd.Activation(x, act_type="relu")
    mx.profiler.set_state("stop")
    mx.profiler.dump(finished=False)
    names = ["a_exp + a_relu", "b_exp + b_relu", "relu", "Activation"]
    assert [e["name"] for e in events(trace, "X")] == names * 2


def test_pausing_and_stopping_remove_the_callbacks(trace: Path) -> None:
    mx.profiler.set_state("run")
    assert executable._listener is not None
    mx.profiler.pause()
    assert executable._listener is None
    mx.profiler.resume()
    assert executable._listener is not None
    mx.profiler.set_state("stop")
    assert executable._listener is None


def test_tables(trace: Path) -> None:
    a = mx.nd.ones((3, 3))
    mx.profiler.set_state("run")
    for _ in range(3):
        a.exp()
    a.sqrt()
    mx.profiler.set_state("stop")
    found = json.loads(mx.profiler.dumps(format="json", sort_by="count"))
    assert found["Unit"]["Time"] == "ms" and list(found["Time"]["operator"]) == ["exp", "sqrt"]
    exp = found["Time"]["operator"]["exp"]
    assert exp["Count"] == 3 and exp["Min"] <= exp["Avg"] <= exp["Max"] <= exp["Total"] == pytest.approx(3 * exp["Avg"])
    table = mx.profiler.dumps(reset=True, sort_by="count", ascending=True)
    rows = [line.split() for line in table.splitlines() if line.startswith(("exp", "sqrt"))]
    assert [row[:2] for row in rows] == [["sqrt", "1"], ["exp", "3"]]
    assert json.loads(mx.profiler.dumps(format="json"))["Time"] == {}


def test_events_of_users(trace: Path) -> None:
    domain = mx.profiler.Domain("mine")
    task, event = domain.new_task("work"), mx.profiler.Event("alone")
    with pytest.raises(mx.MXNetError, match="'work' was not started"):
        task.stop()
    counter = domain.new_counter("count", 5)  # not running: not recorded
    mx.profiler.set_state("run")
    for timed in (task, domain.new_frame("frame"), event):
        timed.start()
        timed.stop()
    counter += 3
    counter -= 1
    domain.new_marker("here").mark("thread")
    mx.profiler.dump(finished=False)
    assert [(e["name"], e["cat"]) for e in events(trace, "X")] == [
        ("work", "mine"),
        ("frame", "mine,frame"),
        ("alone", "event"),
    ]
    assert [e["args"]["count"] for e in events(trace, "C")] == [8, 7]
    assert [(e["name"], e["s"]) for e in events(trace, "i")] == [("here", "t")]
    assert (str(domain), str(task), str(counter)) == ("mine", "work", "count")


def test_invalid_arguments(trace: Path) -> None:
    with pytest.raises(mx.MXNetError, match="Cannot find argument 'nonsense', Possible Arguments: profile_all"):
        mx.profiler.set_config(nonsense=True)
    with pytest.raises(mx.MXNetError, match="profile_all must be True or False, not 3"):
        mx.profiler.set_config(profile_all=3)
    with pytest.raises(KeyError):
        mx.profiler.set_state("walk")
    with pytest.raises(mx.MXNetError, match="no server"):
        mx.profiler.pause("server")
    wrongs: tuple[dict[str, Any], ...] = ({"format": "xml"}, {"sort_by": "name"}, {"reset": 2})
    for wrong in wrongs:
        with pytest.raises(AssertionError, match="Invalid value"):
            mx.profiler.dumps(**wrong)
    with pytest.raises(mx.MXNetError, match="scope"):
        mx.profiler.Domain("d").new_marker("m").mark("here")


def test_old_names(trace: Path) -> None:
    with pytest.warns(UserWarning, match="use profiler.set_config"):
        mx.profiler.profiler_set_config("all", str(trace))
    with pytest.warns(UserWarning, match="use profiler.set_state"):
        mx.profiler.profiler_set_state("run")
    mx.nd.ones((2,)).exp()
    with pytest.warns(UserWarning, match="use profiler.dump"):
        mx.profiler.dump_profile()
    assert "exp" in [e["name"] for e in events(trace, "X")]


def test_traces_while_it_runs(trace: Path) -> None:
    mx.profiler.set_config(profile_all=True, continuous_dump=True, dump_period=0.02, filename=str(trace))
    mx.profiler.set_state("run")
    mx.nd.ones((2,)).exp()
    for _ in range(100):
        if trace.exists():
            break
        time.sleep(0.02)
    assert trace.exists()
    mx.profiler.set_state("stop")
    assert "exp" in [e["name"] for e in events(trace, "X")]


class Increment(mx.operator.CustomOp):
    """Adds 1."""

    def forward(self, is_train: bool, req: list[str], in_data: Any, out_data: Any, aux: Any) -> None:
        self.assign(out_data[0], req[0], in_data[0] + 1)

    def backward(self, req: list[str], out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
        self.assign(in_grad[0], req[0], out_grad[0] * 1)


@mx.operator.register("ProfiledAdd")
class IncrementProp(mx.operator.CustomOpProp):
    """One input and one output."""

    def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> Increment:
        return Increment()


@pytest.mark.parametrize("form", ["eager", "hybridized", "executor"])
def test_operators_in_python_have_a_category_of_their_own(form: str, trace: Path) -> None:
    x: Any = mx.nd.array([0, 1, 2, 3])
    x.attach_grad()
    net: Any = mx.gluon.nn.HybridLambda(lambda F, x: F.Custom(x, op_type="ProfiledAdd"))
    net.hybridize(form == "hybridized")
    function: Any = mx.sym
    bound: Any = function.Custom(mx.sym.var("x"), op_type="ProfiledAdd").bind(mx.cpu(), {"x": x}, {"x": x.grad})
    mx.profiler.set_state("run")
    (x + 1).wait_to_read()
    if form == "executor":
        bound.forward(is_train=True)
        bound.backward(mx.nd.ones(4))
    else:
        with mx.autograd.record():
            y = net(x)
        y.backward()
    mx.profiler.set_state("stop")
    found = json.loads(mx.profiler.dumps(reset=True, format="json"))["Time"]
    mx.profiler.dump(finished=False)
    assert set(found["Custom Operator"]) == {
        "ProfiledAdd::pure_python",
        "ProfiledAdd::_plus_scalar",
        "_backward_ProfiledAdd::pure_python",
        "_backward_ProfiledAdd::_mul_scalar",
    }
    assert all(times["Count"] == 1 and times["Total"] > 0 for times in found["Custom Operator"].values())
    assert found["operator"]["_plus_scalar"]["Count"] == 1
    (python,) = [e for e in events(trace, "X") if e["name"] == "ProfiledAdd::pure_python"]
    (inside,) = [e for e in events(trace, "X") if e["name"] == "ProfiledAdd::_plus_scalar"]
    assert python["ts"] <= inside["ts"] <= inside["ts"] + inside["dur"] <= python["ts"] + python["dur"]
    assert x.grad.asnumpy().tolist() == [1] * 4
