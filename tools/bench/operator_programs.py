"""The programs of `--suite all-operators`: the functions of each framework, and what runs them.

Each table has a function of the framework's module and the operands for each name in `operator_cases.py` that the
framework can run. This file must run on Python 3.7, which old frameworks require.
"""

from __future__ import annotations

from typing import Any

import numpy


def call(name, **options):
    """The function in `mx.nd` of this dotted name with fixed options."""
    first, _, rest = name.partition(".")

    def function(nd, *operands):
        target = getattr(nd, first)
        return (getattr(target, rest) if rest else target)(*operands, **options)

    return function


def weighted(name, **options):
    """The same for an operator with a weight and without a bias."""
    return lambda nd, x, weight: getattr(nd, name)(x, weight, None, no_bias=True, **options)


def convolution(filters, *kernel, **options):
    return weighted("Convolution", num_filter=filters, kernel=kernel, **options)


def pooling(kind, window):
    return call("Pooling", pool_type=kind, **POOLS[window])


def recurrent(mode, **options):
    return call("RNN", state_size=256, num_layers=1, mode=mode, **options)


POINTWISE = "exp log1p tanh erf gammaln sqrt rsqrt sin arctan cbrt relu sigmoid softsign round abs sign".split()
WITH_ROWS = "broadcast_add broadcast_power broadcast_maximum broadcast_mod broadcast_hypot".split()
REDUCTIONS = "sum mean max prod norm argmax argmin nansum".split()
POOLS = {
    "2x2": {"kernel": (2, 2), "stride": (2, 2)},
    "3x3": {"kernel": (3, 3), "stride": (1, 1), "pad": (1, 1)},
    "global": {"kernel": (1, 1), "global_pool": True},
}
KINDS = "max", "avg"
AFFINE = {"target_shape": (56, 56), "transform_type": "affine", "sampler_type": "bilinear"}
LENGTHS = {"use_sequence_length": True}
LONG = (1000000,)


def add_in_place(nd, x):
    x += 0
    return x


MXNET = {
    **{name: call(name) for name in POINTWISE + WITH_ROWS},
    "clip": call("clip", a_min=0.2, a_max=0.8),
    **{f"{name}, axis {axis}": call(name, axis=axis) for name in REDUCTIONS for axis in (0, 1)},
    "sum": call("sum"),
    "mean, axes 0, 2, 3": call("mean", axis=(0, 2, 3)),
    "softmax": call("softmax"),
    "log_softmax": call("log_softmax"),
    "softmax, axis 0": call("softmax", axis=0),
    "softmax_cross_entropy": call("softmax_cross_entropy"),
    "LayerNorm": call("LayerNorm"),
    "InstanceNorm": call("InstanceNorm"),
    "GroupNorm": call("GroupNorm", num_groups=8),
    "L2Normalization": call("L2Normalization"),
    "LRN": call("LRN", nsize=5),
    "BatchNorm, training": call("BatchNorm", fix_gamma=False),
    "transpose": call("transpose"),
    "transpose, inner axes": call("transpose", axes=(0, 2, 1, 3)),
    "transpose, channels last": call("transpose", axes=(0, 2, 3, 1)),
    "concat": lambda nd, x: nd.concat(x, x, dim=1),
    "stack": lambda nd, x: nd.stack(x, x, axis=1),
    "split": lambda nd, x: nd.split(x, 4, axis=1)[0],
    "tile": call("tile", reps=(2, 2)),
    "repeat": call("repeat", repeats=2, axis=1),
    "reverse": call("reverse", axis=1),
    "Pad": call("Pad", mode="reflect", pad_width=(0, 0, 0, 0, 1, 1, 1, 1)),
    "slice_axis": call("slice_axis", axis=1, begin=3, end=40),
    "where": lambda nd, x: nd.where(x > 0.5, x, x),
    "Cast": call("Cast", dtype="float16"),
    "arange_like": call("contrib.arange_like"),
    "one_hot": call("one_hot", depth=1000),
    "take": call("take"),
    "Embedding": lambda nd, weight, places: nd.Embedding(places, weight, 4096, 1024),
    "pick": call("pick"),
    "gather_nd": call("gather_nd"),
    "scatter_nd": call("scatter_nd", shape=(1024, 1024)),
    "rows": lambda nd, x: x[1:3],
    "rows by indices": lambda nd, x, places: x[places],
    "every second column": lambda nd, x: x[:, ::2],
    "to NumPy and back": lambda nd, x: nd.array(x.asnumpy()),
    "copy": lambda nd, x: x.copy(),
    "add in place": add_in_place,
    **dict.fromkeys(("sort", "sort, rows"), call("sort")),
    "argsort, rows": call("argsort"),
    "topk": call("topk", k=100),
    "topk, rows": call("topk", k=10),
    "shuffle": call("shuffle"),
    "cumsum, axis 1": call("cumsum", axis=1),
    "cumsum, axis 0": call("cumsum", axis=0),
    "dot": call("dot"),
    "dot, transposed": call("dot", transpose_a=True),
    "dot, vector": call("dot"),
    "batch_dot": call("batch_dot", transpose_b=True),
    "FullyConnected": weighted("FullyConnected", num_hidden=1000),
    "interleaved_matmul_selfatt_qk": call("contrib.interleaved_matmul_selfatt_qk", heads=8),
    "div_sqrt_dim": call("contrib.div_sqrt_dim"),
    "Convolution 3x3": convolution(64, 3, 3, pad=(1, 1)),
    "Convolution 1x1": convolution(128, 1, 1),
    "Convolution 5x5": convolution(64, 5, 5, pad=(2, 2)),
    "Convolution 3x3, stride 2": convolution(128, 3, 3, pad=(1, 1), stride=(2, 2)),
    "Convolution 3x3, dilated": convolution(64, 3, 3, pad=(2, 2), dilate=(2, 2)),
    "Convolution 3x3, 32 groups": convolution(128, 3, 3, pad=(1, 1), num_group=32),
    "Convolution 3x3, depthwise": convolution(96, 3, 3, pad=(1, 1), num_group=96),
    "Convolution 3x3, 17 channels": convolution(19, 3, 3, pad=(1, 1)),
    "Convolution 7x7, stem": convolution(64, 7, 7, pad=(3, 3), stride=(2, 2)),
    "Convolution, one axis": convolution(128, 5, pad=(2,)),
    "Convolution, three axes": convolution(32, 3, 3, 3, pad=(1, 1, 1)),
    "Deconvolution": weighted("Deconvolution", num_filter=32, kernel=(4, 4), stride=(2, 2), pad=(1, 1)),
    **{f"Pooling, {kind} {window}": pooling(kind, window) for kind in KINDS for window in POOLS},
    "UpSampling": call("UpSampling", scale=2, sample_type="nearest", num_args=1),
    "BilinearResize2D": call("contrib.BilinearResize2D", height=112, width=112),
    "AdaptiveAvgPooling2D": call("contrib.AdaptiveAvgPooling2D", output_size=7),
    "ROIAlign": call("contrib.ROIAlign", pooled_size=(7, 7), spatial_scale=0.25),
    "BilinearSampler": call("BilinearSampler"),
    "SpatialTransformer": call("SpatialTransformer", **AFFINE),
    "DeformableConvolution": lambda nd, x, offsets, weight: nd.contrib.DeformableConvolution(
        x, offsets, weight, kernel=(3, 3), pad=(1, 1), num_filter=64, no_bias=True
    ),
    "Correlation": lambda nd, x: nd.Correlation(
        x, x, kernel_size=1, max_displacement=4, stride1=1, stride2=1, pad_size=4
    ),
    "box_nms": call("contrib.box_nms", topk=200),
    "box_iou": lambda nd, x: nd.contrib.box_iou(x, x),
    "MultiBoxPrior": call("contrib.MultiBoxPrior", sizes=(0.1, 0.2), ratios=(1, 2)),
    "image.normalize": call("image.normalize", mean=(0.5, 0.5, 0.5), std=(0.2, 0.2, 0.2)),
    "image.to_tensor": call("image.to_tensor"),
    "image.resize": call("image.resize", size=112),
    "SequenceMask": call("SequenceMask", value=0, **LENGTHS),
    "SequenceReverse": call("SequenceReverse", **LENGTHS),
    "SequenceLast": call("SequenceLast", **LENGTHS),
    "CTCLoss": call("CTCLoss"),
    "RNN, lstm": recurrent("lstm"),
    "RNN, lstm in two directions": recurrent("lstm", bidirectional=True),
    "RNN, gru": recurrent("gru"),
    "RNN, tanh": recurrent("rnn_tanh"),
    "Dropout": call("Dropout", p=0.5, mode="always"),
    "uniform": call("random.uniform", shape=LONG),
    "normal": call("random.normal", shape=LONG),
    "gamma": call("random.gamma", alpha=2.0, beta=1.0, shape=(100000,)),
    "poisson": call("random.poisson", lam=4.0, shape=(100000,)),
    "multinomial": call("random.multinomial", shape=20),
    **{"linalg." + n: call("linalg." + n) for n in "potrf syevd inverse det trsm gelqf syrk".split()},
    "sparse.dot": call("sparse.dot"),
    "sparse.dot, transposed": call("sparse.dot", transpose_a=True),
    "tostype": lambda nd, x: x.tostype("csr"),
    "sgd_mom_update": lambda nd, w, g, m: nd.sgd_mom_update(w, g, m, lr=0.0, out=w),
    "adam_update": lambda nd, w, g, m, v: nd.adam_update(w, g, m, v, lr=0.0, out=w),
}


def functional(name, **options):
    return lambda torch, *operands: getattr(torch.nn.functional, name)(*operands, **options)


def method(name, *arguments):
    return lambda module, x: getattr(x, name)(*arguments)


def of_module(name, *arguments):
    return lambda module, *operands: getattr(module, name)(*operands, *arguments)


def torch_ctc(torch, x, labels):
    steps, batch, _ = x.shape
    lengths = torch.full((batch,), steps), torch.full((batch,), labels.shape[1])
    return torch.nn.functional.ctc_loss(x.log_softmax(2), labels, *lengths, reduction="none")


def torch_pooling(kind, window):
    if window == "global":
        return functional(f"adaptive_{kind}_pool2d", output_size=1)
    options = POOLS[window]
    arguments = {"kernel_size": options["kernel"], "stride": options["stride"], "padding": options.get("pad", 0)}
    return functional(f"{kind}_pool2d", **arguments)


SAME = "exp log1p tanh erf sqrt rsqrt sin round abs sign".split()
TORCH = {
    **{name: of_module(name) for name in [*SAME, "relu", "sigmoid"]},
    "gammaln": of_module("lgamma"),
    "arctan": of_module("atan"),
    "softsign": functional("softsign"),
    "clip": of_module("clamp", 0.2, 0.8),
    "broadcast_add": of_module("add"),
    "broadcast_power": of_module("pow"),
    "broadcast_maximum": of_module("maximum"),
    "broadcast_hypot": of_module("hypot"),
    **{f"{n}, axis {a}": of_module(n, a) for n in ("sum", "mean", "prod") for a in (0, 1)},
    **{f"max, axis {axis}": of_module("amax", axis) for axis in (0, 1)},
    "norm, axis 0": lambda torch, x: torch.linalg.vector_norm(x, dim=0),
    "norm, axis 1": lambda torch, x: torch.linalg.vector_norm(x, dim=1),
    **{f"{n}, axis {a}": of_module(n, a) for n in ("argmax", "argmin", "nansum") for a in (0, 1)},
    "sum": of_module("sum"),
    "mean, axes 0, 2, 3": of_module("mean", (0, 2, 3)),
    "softmax": of_module("softmax", 1),
    "log_softmax": of_module("log_softmax", 1),
    "softmax, axis 0": of_module("softmax", 0),
    "softmax_cross_entropy": functional("cross_entropy", reduction="sum"),
    "LayerNorm": lambda torch, x, gamma, beta: torch.nn.functional.layer_norm(x, gamma.shape, gamma, beta),
    "L2Normalization": functional("normalize", dim=1),
    "BatchNorm, training": lambda torch, x, gamma, beta, mean, variance: torch.nn.functional.batch_norm(
        x, None, None, gamma, beta, training=True, eps=1e-3
    ),
    "transpose": lambda torch, x: x.t().contiguous(),
    "transpose, inner axes": lambda torch, x: x.permute(0, 2, 1, 3).contiguous(),
    "transpose, channels last": lambda torch, x: x.permute(0, 2, 3, 1).contiguous(),
    "concat": lambda torch, x: torch.cat((x, x), 1),
    "stack": lambda torch, x: torch.stack((x, x), 1),
    "tile": method("repeat", 2, 2),
    "repeat": method("repeat_interleave", 2, 1),
    "reverse": method("flip", 1),
    "Pad": functional("pad", pad=(1, 1, 1, 1), mode="reflect"),
    "slice_axis": lambda torch, x: x[:, 3:40].contiguous(),
    "where": lambda torch, x: torch.where(x > 0.5, x, x),
    "Cast": method("half"),
    "one_hot": lambda torch, places: torch.nn.functional.one_hot(places, 1000).float(),
    "take": lambda torch, x, places: x[places],
    "Embedding": lambda torch, weight, places: torch.nn.functional.embedding(places, weight),
    "pick": lambda torch, x, places: x.gather(1, places[:, None])[:, 0],
    "gather_nd": lambda torch, x, places: x[places[0], places[1]],
    "rows by indices": lambda torch, x, places: x[places],
    "every second column": lambda torch, x: x[:, ::2].contiguous(),
    "to NumPy and back": lambda torch, x: torch.from_numpy(numpy.array(x.numpy())),
    "copy": method("clone"),
    "add in place": method("add_", 0),
    **dict.fromkeys(("sort", "sort, rows"), lambda torch, x: torch.sort(x)[0]),
    "argsort, rows": of_module("argsort"),
    "topk": lambda torch, x: torch.topk(x, 100)[1],
    "topk, rows": lambda torch, x: torch.topk(x, 10)[1],
    "shuffle": lambda torch, x: x[torch.randperm(len(x))],
    "cumsum, axis 1": of_module("cumsum", 1),
    "cumsum, axis 0": of_module("cumsum", 0),
    "dot": of_module("matmul"),
    "dot, transposed": lambda torch, x, y: x.t() @ y,
    "dot, vector": of_module("matmul"),
    "batch_dot": lambda torch, x, y: x @ y.transpose(1, 2),
    "FullyConnected": functional("linear"),
    "Convolution 3x3": functional("conv2d", padding=1),
    "Convolution 1x1": functional("conv2d"),
    "Convolution 5x5": functional("conv2d", padding=2),
    "Convolution 3x3, stride 2": functional("conv2d", padding=1, stride=2),
    "Convolution 3x3, dilated": functional("conv2d", padding=2, dilation=2),
    "Convolution 3x3, 32 groups": functional("conv2d", padding=1, groups=32),
    "Convolution 3x3, depthwise": functional("conv2d", padding=1, groups=96),
    "Convolution 3x3, 17 channels": functional("conv2d", padding=1),
    "Convolution 7x7, stem": functional("conv2d", padding=3, stride=2),
    "Convolution, one axis": functional("conv1d", padding=2),
    "Convolution, three axes": functional("conv3d", padding=1),
    "Deconvolution": functional("conv_transpose2d", stride=2, padding=1),
    **{f"Pooling, {kind} {window}": torch_pooling(kind, window) for kind in KINDS for window in POOLS},
    "UpSampling": functional("interpolate", scale_factor=2),
    "BilinearResize2D": functional("interpolate", size=(112, 112), mode="bilinear", align_corners=True),
    "AdaptiveAvgPooling2D": functional("adaptive_avg_pool2d", output_size=7),
    "BilinearSampler": lambda torch, x, grid: torch.nn.functional.grid_sample(
        x, grid.permute(0, 2, 3, 1), align_corners=True
    ),
    "CTCLoss": torch_ctc,
    "Dropout": functional("dropout", p=0.5),
    "uniform": lambda torch: torch.rand(LONG),
    "normal": lambda torch: torch.randn(LONG),
    "linalg.potrf": lambda torch, x: torch.linalg.cholesky(x),
    "linalg.syevd": lambda torch, x: torch.linalg.eigh(x)[0],
    "linalg.inverse": lambda torch, x: torch.linalg.inv(x),
    "linalg.det": lambda torch, x: torch.linalg.det(x),
    "linalg.trsm": lambda torch, a, x: torch.linalg.solve_triangular(a.tril(), x, upper=False),
    "linalg.gelqf": lambda torch, x: torch.linalg.qr(x)[0],
    "sparse.dot": of_module("matmul"),
    "tostype": method("to_sparse_csr"),
}
NUMPY = {
    **{name: of_module(name) for name in "exp log1p tanh sqrt sin arctan cbrt round abs sign".split()},
    "clip": of_module("clip", 0.2, 0.8),
    **{f"{name}, axis {axis}": of_module(name, axis) for name in ("sum", "max", "argmax") for axis in (0, 1)},
    "sum": of_module("sum"),
    "transpose": lambda np, x: np.ascontiguousarray(x.T),
    "concat": lambda np, x: np.concatenate((x, x), 1),
    "every second column": lambda np, x: x[:, ::2].copy(),
    "copy": method("copy"),
    **dict.fromkeys(("sort", "sort, rows"), of_module("sort")),
    "argsort, rows": of_module("argsort"),
    "topk": lambda np, x: np.argpartition(x, -100)[-100:],
    "topk, rows": lambda np, x: np.argpartition(x, -10, 1)[:, -10:],
    "shuffle": lambda np, x: x[np.random.permutation(len(x))],
    "cumsum, axis 1": of_module("cumsum", 1),
    "cumsum, axis 0": of_module("cumsum", 0),
    "dot": of_module("dot"),
    "dot, transposed": lambda np, x, y: x.T @ y,
    "dot, vector": of_module("dot"),
    "linalg.potrf": lambda np, x: np.linalg.cholesky(x),
    "linalg.syevd": lambda np, x: np.linalg.eigh(x)[0],
    "linalg.inverse": lambda np, x: np.linalg.inv(x),
    "linalg.det": lambda np, x: np.linalg.det(x),
    "linalg.gelqf": lambda np, x: np.linalg.qr(x)[0],
}
COMPRESSED = "sparse.dot", "sparse.dot, transposed"
"""The cases whose first operand is a csr array."""


class Call:
    """A call, or with `gradients`, which are positions, a call and its gradients for heads of ones."""

    compressed: Any
    convert: Any
    forward: Any
    programs: Any
    step: Any

    def __init__(self, engine, spec, operands):
        if spec["operator"] in COMPRESSED:
            operands[0] = self.compressed(operands[0])
        self.engine, self.operands = engine, operands
        self.function = self.programs[spec["operator"]]
        self.gradients = [operands[i] for i in spec["gradients"]]
        self.results = []

    def run(self, calls):
        step = self.step if self.gradients else self.forward
        for _ in range(calls):
            self.results = step()

    def outputs(self):
        return [self.convert(x) for x in self.results]


class MxnetCall(Call):
    programs, differentiable = MXNET, True

    def __init__(self, engine, spec, arrays):
        super().__init__(engine, spec, [engine.array(a, a.dtype) for a in arrays])
        for x in self.gradients:
            x.attach_grad()

    def compressed(self, x):
        return x.tostype("csr")

    def convert(self, x):
        return x.asnumpy()

    def forward(self):
        result = self.function(self.engine.mx.nd, *self.operands)
        results = list(result) if isinstance(result, (list, tuple)) else [result]
        self.engine.wait(results)
        return results

    def step(self):
        with self.engine.mx.autograd.record():
            result = self.function(self.engine.mx.nd, *self.operands)
        result.backward()
        gradients = [x.grad for x in self.gradients]
        self.engine.wait(gradients)
        return [result, *gradients]


class TorchCall(Call):
    programs, differentiable = TORCH, True

    def __init__(self, engine, spec, arrays):
        arrays = [a.astype("int64") if i in spec["indices"] else a for i, a in enumerate(arrays)]
        super().__init__(engine, spec, [engine.array(a) for a in arrays])
        for x in self.gradients:
            x.requires_grad_()

    def compressed(self, x):
        return x.to_sparse_csr()

    def convert(self, x):
        with self.engine.torch.inference_mode():
            return (x.to_dense() if x.is_sparse_csr else x.detach()).numpy()

    def forward(self):
        with self.engine.torch.inference_mode():
            return [self.function(self.engine.torch, *self.operands)]

    def step(self):
        result = self.function(self.engine.torch, *self.operands)
        for x in self.gradients:
            x.grad = None
        result.backward(self.engine.torch.ones_like(result))
        return [result, *[x.grad for x in self.gradients]]


class NumpyCall(Call):
    programs, differentiable = NUMPY, False

    def convert(self, x):
        return numpy.asarray(x)

    def forward(self):
        return [self.function(numpy, *self.operands)]


CALLS = {"mxforge": MxnetCall, "mxnet": MxnetCall, "torch": TorchCall, "numpy": NumpyCall}


def load(engine, spec, arrays):
    """`operator` is the name of the case, `framework` that of the engine; `gradients` are the positions of operands,
    `indices` those of integers."""
    return CALLS[spec["framework"]](engine, spec, arrays)
