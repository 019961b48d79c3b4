"""MXNet's NumPy mode: switches, scopes and decorators; blocks raise in it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge import gluon, nd, util


@pytest.fixture(autouse=True)
def classic_mode_after() -> Iterator[None]:
    yield
    util.reset_np()


def modes() -> tuple[bool, bool]:
    return util.is_np_shape(), util.is_np_array()


def test_scopes_set_and_restore_modes() -> None:
    with util.np_shape() as entered:
        assert modes() == (True, False) and entered is None
        with util.np_array():
            assert modes() == (True, True)
        assert modes() == (True, False)
    assert modes() == (False, False)
    with util._NumpyArrayScope(True) as scope:
        assert isinstance(scope, util._NumpyArrayScope) and modes() == (False, True)
    with util._NumpyShapeScope(None):
        assert modes() == (False, False)


def test_switches() -> None:
    assert not util.set_np_shape(True) and util.set_np_shape(False)
    util.set_np()
    assert modes() == (True, True)
    with pytest.raises(ValueError, match="Deactivating NumPy shape semantics while"):
        util.set_np_shape(False)
    util.reset_np()
    assert modes() == (False, False)
    with pytest.raises(ValueError, match="Shape semantics"):
        util.set_np(shape=False, array=True)


def test_each_thread_has_its_own_mode() -> None:
    found: list[tuple[bool, bool]] = []
    util.set_np()
    thread = threading.Thread(target=lambda: found.append(modes()))
    thread.start()
    thread.join()
    assert found == [(False, False)]


def test_functions_are_decorated() -> None:
    @util.use_np
    def both(value: int) -> Any:
        return value, modes()

    assert both(3) == (3, (True, True)) and both.__name__ == "both"
    assert util.use_np_shape(modes)() == (True, False) and util.use_np_array(modes)() == (False, True)
    with pytest.raises(
        TypeError, match="can only decorate classes and callable objects, while received a <class 'int'>"
    ):
        util.use_np(3)


def test_the_methods_of_a_class_are_decorated() -> None:
    @util.use_np
    class Asked:
        made = "kept"

        def __init__(self) -> None:
            self.first = modes()

        @property
        def shown(self) -> Any:
            return modes()

        @staticmethod
        def static() -> Any:
            return modes()

        @classmethod
        def of_class(cls) -> Any:
            return cls.made, modes()

    on = (True, True)
    asked = Asked()
    assert (asked.first, asked.shown, asked.static(), Asked.static(), asked.of_class()) == (
        on,
        on,
        on,
        on,
        ("kept", on),
    )
    assert modes() == (False, False)


def test_blocks_raise_in_numpy_mode() -> None:
    net = gluon.nn.Dense(2)
    net.initialize()
    net(nd.ones((1, 3)))
    with util.np_array(), pytest.raises(TypeError, match=r"output must be mx.np arrays .* outside of use_np"):
        net(nd.ones((1, 3)))
    assert net(nd.ones((1, 3))).shape == (1, 2)


@pytest.mark.parametrize("shape", [(), (0, 2)])
def test_creation_of_scalars_and_empty_arrays(shape: tuple[int, ...]) -> None:
    """As in MXNet, `empty`, and `full` with axes, also create such arrays without NumPy's shape semantics."""
    unknown: list[Any] = [
        nd.ones,
        nd.zeros,
        lambda s: nd.random.uniform(shape=s),
        lambda s: nd._internal._ones(shape=s),
    ]
    always: list[Any] = [nd.empty]
    (always if shape else unknown).append(lambda s: nd.full(s, 3))
    for make in unknown:
        with pytest.raises(mx.MXNetError, match="known"):
            make(shape)
    for make in always:
        assert make(shape).shape == shape
    with util.np_shape():
        assert {make(shape).shape for make in (*unknown, *always)} == {shape}
        with pytest.raises(mx.MXNetError, match="every extent must be known"):
            nd.ones((-1, 2))


def test_files_of_arrays_without_elements_need_their_semantics(tmp_path: Path) -> None:
    """In a file of the other semantics 0 means otherwise, and MXNet refuses it. Other arrays are read in both."""
    name = str(tmp_path / "arrays")
    for saved in (False, True):
        for loaded in (False, True):
            for shape in ((2, 3), (0, 3)):
                with util.np_shape(saved):
                    nd.save(name, [nd.zeros((1,)), nd.array(np.ones(shape))])
                with util.np_shape(loaded):
                    if saved == loaded or 0 not in shape:
                        assert [a.shape for a in nd.load(name)] == [(1,), shape]
                        continue
                    with pytest.raises(mx.MXNetError, match="saved in np shape semantics, must be loaded in the same"):
                        nd.load(name)


def test_shapes_in_graphs_of_the_legacy_semantics_are_converted() -> None:
    shapes: dict[str, Any] = {"weight": (4, 0), "bias": (0,), "other": (2, 3), "unknown": ()}
    variables: dict[str, Any] = {name: mx.sym.var(name, shape=shape) for name, shape in shapes.items()}
    net = mx.sym.FullyConnected(mx.sym.var("data"), variables["weight"], variables["bias"], num_hidden=4)
    text = mx.sym.Group([net, variables["other"] + 1, variables["unknown"] + 1]).tojson()
    with util.np_shape(True):
        read = mx.sym.load_json(text)
        attributes = {name: found["__shape__"] for name, found in read.attr_dict().items() if name in shapes}
        # recorded from MXNet 1.9.1
        assert attributes == {"weight": "[4,-1]", "bias": "[-1]", "other": "[2,3]", "unknown": "None"}
        assert read[0].infer_shape(data=(2, 3)) == ([(2, 3), (4, 3), (4,)], [(2, 4)], [])
        assert mx.sym.load_json(variables["bias"].tojson()).attr("__shape__") == "(0,)"  # written in these semantics
