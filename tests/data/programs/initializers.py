"""Programs on mx.init; see make_programs.py."""

import logging
import tempfile
import warnings

import numpy as np
from program import failure, gather, numbers, ramp

PROGRAMS, program = gather()


def made(mx):
    init = mx.init
    return [
        init.Zero(), init.One(), init.Constant(2.5), init.Uniform(), init.Uniform(0.5), init.Normal(), init.Normal(2),
        init.Orthogonal(), init.Orthogonal(2, "normal"), init.Xavier(), init.Xavier("gaussian", "in", 2),
        init.Xavier(factor_type="out", magnitude=1), init.MSRAPrelu(), init.MSRAPrelu("out", 0.1), init.Bilinear(),
        init.LSTMBias(), init.LSTMBias(2.0), init.FusedRNN(init.One(), 4, 2, "lstm", True, 3.0),
        init.FusedRNN(None, 4, 1, "gru"),
        init.Constant(np.arange(3)), init.Initializer(depth=3),
    ]  # fmt: skip


@program
def written_as_text(mx):
    found = []
    for one in made(mx):
        text = one.dumps()
        found.append(text)
        if "initializer" not in text and "null" not in text and "[0, 1" not in text and "fused" not in text:
            again = mx.init.create(text)
            found.append([type(again).__name__, again.dumps() == text])
    a, b = mx.init.Xavier(), mx.init.Xavier(magnitude=3)
    return [*found, a == b, a == mx.init.Xavier("gaussian"), a == "xavier"]


@program
def filled_exactly(mx):
    found = []
    for one in made(mx)[:3]:
        array = mx.nd.ones((2, 3)) * 9
        one(mx.init.InitDesc("w_weight"), array)
        found.append(numbers(array))
    names = ["a_bias", "a_gamma", "a_beta", "a_min", "a_max"]
    for name in names:
        array = mx.nd.ones((3,)) * 9
        mx.init.Uniform()(mx.init.InitDesc(name), array)
        found.append([name, numbers(array)])
    image = mx.nd.zeros((2, 1, 4, 4))
    mx.init.Bilinear()(mx.init.InitDesc("up_weight"), image)
    bias = mx.nd.zeros((8,))
    mx.init.LSTMBias(3)(mx.init.InitDesc("x", {"__init__": mx.init.LSTMBias(3).dumps()}), bias)
    row = mx.nd.zeros((3,))
    mx.init.Constant(mx.nd.array([1, 2, 3]))(mx.init.InitDesc("k_weight"), row)
    packed = mx.nd.zeros(((5 + 3 + 2) * 3 * 4 * 2,))
    mx.init.FusedRNN(mx.init.One(), 3, 1, "lstm", True, 7)(mx.init.InitDesc("f_weight"), packed)
    pieces = mx.nd.zeros(((5 + 3 + 2) * 3 * 3,))
    desc = mx.init.InitDesc("f_parameters", {"__init__": mx.init.FusedRNN(None, 3, 1, "gru").dumps()})
    mx.init.One()(desc, pieces)
    return [*found, numbers(image), numbers(bias), numbers(row), numbers(packed), numbers(pieces)]


@program
def filled_at_random(mx):
    """Whether the range and the spread of what is drawn are right."""
    mx.random.seed(3)
    wanted = [
        (mx.init.Uniform(0.5), 0.5 / 3**0.5, 0.5), (mx.init.Normal(2), 2, 99),
        (mx.init.Xavier(), (3 / 30) ** 0.5 / 3**0.5, (3 / 30) ** 0.5),
        (mx.init.Xavier("gaussian", "in", 2), (2 / 40) ** 0.5, 99),
        (mx.init.Xavier("uniform", "out", 2), (2 / 20) ** 0.5 / 3**0.5, (2 / 20) ** 0.5),
        (mx.init.MSRAPrelu("avg", 0.5), (2 / 1.25 / 30) ** 0.5, 99),
    ]  # fmt: skip
    found = []
    for one, spread, limit in wanted:
        array = mx.nd.zeros((20, 40))
        one(mx.init.InitDesc("w_weight"), array)
        values = array.asnumpy()
        found.append([bool(abs(values.std() / spread - 1) < 0.1), bool(np.abs(values).max() <= limit)])
    array = mx.nd.zeros((4, 3, 2))
    mx.init.Orthogonal(2)(mx.init.InitDesc("w_weight"), array)
    matrix = array.asnumpy().reshape(4, 6)
    return [*found, bool(np.allclose(matrix @ matrix.T, 4 * np.eye(4), atol=1e-4))]


@program
def chosen_by_name(mx):
    loaded = {"arg:w": ramp(mx, 2, 2), "aux:m": ramp(mx, 3), "plain": ramp(mx, 2)}
    with tempfile.TemporaryDirectory() as folder:
        mx.nd.save(folder + "/p", loaded)
        from_file = mx.init.Load(folder + "/p", default_init=mx.init.One())
    found = []
    for name, shape in (("w", (2, 2)), ("m", (3,)), ("plain", (2,)), ("other_weight", (2,))):
        array = mx.nd.zeros(shape)
        from_file(mx.init.InitDesc(name), array)
        found.append(numbers(array))
    mixed = mx.init.Mixed(["bias", ".*"], [mx.init.One(), mx.init.Zero()])
    for name in ("bias", "fc_bias", "fc_weight"):
        array = mx.nd.ones((2,)) * 5
        mixed(mx.init.InitDesc(name), array)
        found.append(numbers(array))
    failures = [
        failure(lambda: mx.init.Load(loaded)("nothing", mx.nd.zeros((1,)))),
        failure(lambda: mx.init.Load(loaded)("w", mx.nd.zeros((1,)))),
        failure(lambda: mx.init.Mixed(["a"], [mx.init.One()])("b", mx.nd.zeros((1,)))),
        failure(lambda: mx.init.Mixed(["a"], [])),
        failure(lambda: mx.init.One()(mx.init.InitDesc("strange"), mx.nd.zeros((1,)))),
        failure(lambda: mx.init.Xavier()(mx.init.InitDesc("v_weight"), mx.nd.zeros((3,)))),
        failure(lambda: mx.init.Xavier("odd")(mx.init.InitDesc("v_weight"), mx.nd.zeros((3, 3)))),
        failure(lambda: mx.init.Xavier(factor_type="odd")(mx.init.InitDesc("v_weight"), mx.nd.zeros((3, 3)))),
        failure(lambda: mx.init.Initializer()(mx.init.InitDesc("v_weight"), mx.nd.zeros((3, 3)))),
        failure(lambda: mx.init.create("nonsense")),
        failure(lambda: mx.init.create(3)),
    ]
    return [*found, failures]


@program
def old_names(mx):
    found = []
    names = ["stn_loc_bias", "stn_loc_weight", "x_moving_mean", "x_moving_var", "x_moving_inv_var", "x_moving_avg"]
    for name in [*names, "x_bias", "x_gamma", "x_min", "x_max"]:
        array = mx.nd.ones((6,)) * 9
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            mx.init.Uniform()(name, array)
        found.append([name, numbers(array), [w.category.__name__ for w in seen]])
    image = mx.nd.zeros((1, 1, 3, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mx.init.Uniform()("upsampling0", image)
        failures = [
            failure(lambda: mx.init.Uniform()(3, image)),
            failure(lambda: mx.init.Uniform()("a_weight", np.zeros(3))),
            failure(lambda: mx.init.Uniform()("strange", image)),
        ]
    return [*found, numbers(image), failures]


@program
def own_initializers(mx):
    @mx.init.register
    class Sevens(mx.init.Initializer):
        def __init__(self, times=1):
            super().__init__(times=times)
            self.times = times

        def _init_weight(self, desc, arr):
            arr[:] = 7 * self.times

    @mx.init.alias("eights", "acht")
    class Eights(mx.init.Initializer):
        def _init_default(self, desc, arr):
            arr[:] = 8

    sevens, eights = mx.nd.zeros((2,)), mx.nd.zeros((2,))
    mx.init.create("sevens", times=2)(mx.init.InitDesc("a_weight"), sevens)
    mx.init.create("acht")(mx.init.InitDesc("whatever"), eights)
    by_attribute = mx.nd.zeros((2,))
    mx.init.Zero()(mx.init.InitDesc("b_bias", {"__init__": '["sevens", {"times": 3}]'}), by_attribute)
    lines = []

    class Kept(logging.Handler):
        def emit(self, record):
            lines.append(record.getMessage())

    handler, root = Kept(logging.INFO), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        chatty = mx.init.One().set_verbosity(True)
        chatty(mx.init.InitDesc("c_weight"), mx.nd.zeros((4,)))
        mx.init.One().set_verbosity(True, lambda x: str(x.shape))(mx.init.InitDesc("c_bias"), mx.nd.zeros((4,)))
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    desc = mx.init.InitDesc("n", {"a": "b"})
    found = [numbers(x) for x in (sevens, eights, by_attribute)]
    return [*found, lines, desc, desc.attrs, desc.global_init is None, mx.init.create("sevens").dumps()]
