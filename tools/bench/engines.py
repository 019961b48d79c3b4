"""The engines: each loads a model or a micro workload in one framework and runs it, in the process of `worker.py`.

An engine has a `version` and `load(spec, arrays)`, which returns a program: `run(n)` makes n calls on the arrays and
returns when the results are computed; `outputs()` returns the results of the last call as NumPy arrays. A spec is a
dictionary with `threads`, and {"suite": NAME} or the keys that the engine's `load_model` documents. The file that
`training` names loads networks and training suites; it makes a `program` or a `training_program`.
`augmenters_mxnet.py` loads the suites of augmenters for engines with MXNet's API. This file must run on Python 3.7,
which old frameworks require.
"""

# ruff: noqa: B905, UP

from __future__ import annotations

import importlib
import os

import numpy


def workload(engine, suite, arrays):
    """The function that an engine runs for a suite."""
    return engine.operators()[suite] if suite in OPERATORS else getattr(engine, suite)(arrays)


def context_of(mx, text):
    """The context in MXNet's API: of a text such as cpu, gpu or gpu(1)."""
    kind, _, number = text.rstrip(")").partition("(")
    return mx.Context(kind, int(number or 0))


class Program:
    """A function with fixed arguments. `wait` returns when a result is computed, `convert` converts it to NumPy."""

    def __init__(self, function, arguments, wait, convert):
        self.function = function
        self.arguments = arguments
        self.wait = wait
        self.convert = convert
        self.result = None

    def run(self, calls):
        function, arguments, result = self.function, self.arguments, None
        for _ in range(calls):
            result = function(*arguments)
        self.wait(result)
        self.result = result

    def outputs(self):
        result = self.result
        return [self.convert(r) for r in (result if isinstance(result, (list, tuple)) else [result])]


class TrainingProgram:
    """Steps of training.

    `step` makes one and returns its loss or None; `wait` returns when the `weights` are computed, which `convert`
    converts to NumPy. The first call of `outputs` continues to the step COMPARED: its results are the losses of these
    steps, and the changes of the first, the middle and the last weight with several axes.
    """

    COMPARED = 5

    def __init__(self, step, weights, wait, convert):
        matrices = [w for w in weights if w.ndim > 1]
        self.weights = matrices[0], matrices[len(matrices) // 2], matrices[-1]
        self.step, self.wait, self.convert = step, wait, convert
        self.before = [numpy.array(convert(w)) for w in self.weights]
        self.losses = []

    def run(self, calls):
        step, loss = self.step, None
        for _ in range(calls):
            loss = step()
        self.wait(self.weights)
        if len(self.losses) < self.COMPARED:
            self.losses.append(loss)

    def outputs(self):
        while len(self.losses) < self.COMPARED:
            self.run(1)
        changes = [self.convert(w) - before for w, before in zip(self.weights, self.before)]
        return changes if self.losses[0] is None else [numpy.array(self.losses), *changes]


def nothing(_):
    """The `wait` of synchronous frameworks."""


class Mxnet:
    """MXNet's API: MXNet itself and mxforge run the same program."""

    training = "training_mxnet"

    def __init__(self, module, context="cpu", **options):
        """`options` are additional options of `hybridize`."""
        self.mx = importlib.import_module(module)
        self.context = context_of(self.mx, context)
        self.options = dict(static_alloc=True, static_shape=True, **options)
        self.version = getattr(self.mx, "mxforge_version", self.mx.__version__)
        self.dense = self.mx.gluon.nn.Dense  # triggers lazy imports

    def array(self, values, dtype):
        return self.mx.nd.array(values, ctx=self.context, dtype=dtype)

    def load(self, spec, arrays):
        arrays = [self.array(a, dtype=a.dtype) for a in arrays]
        if "suite" in spec:
            function = workload(self, spec["suite"], arrays)
            arrays = arrays[: ARGUMENTS[spec["suite"]]]
        else:
            function = self.load_model(spec)
        return self.program(function, arrays)

    def training_program(self, step, weights):
        return TrainingProgram(step, weights, self.wait, self.convert)

    def program(self, function, arguments=()):
        return Program(function, arguments, self.wait, self.convert)

    def convert(self, array):
        return array.asnumpy()

    def wait(self, result):
        for array in result if isinstance(result, (list, tuple)) else [result]:
            array.wait_to_read()

    def load_model(self, spec):
        """`symbol`, `params` (a path or None), `inputs` (names), `hybridize` (further options)."""
        block = self.mx.gluon.SymbolBlock.imports(spec["symbol"], spec["inputs"], spec["params"], ctx=self.context)
        block.hybridize(**dict(self.options, **spec.get("hybridize", {})))
        return block

    def hybrid(self, forward):
        block_class = type("Workload", (self.mx.gluon.HybridBlock,), {"hybrid_forward": forward})
        block = block_class()
        block.hybridize(**self.options)
        return block

    def pointwise(self, arrays):
        def forward(self, F, x, y):
            z = F.sigmoid(x) * y + F.tanh(x - y)
            t = 2 * z - 1
            return F.relu(t) + F.exp(-F.abs(t))

        return self.hybrid(forward)

    def softmax(self, arrays):
        return self.mx.nd.softmax

    def layernorm(self, arrays):
        return self.mx.nd.LayerNorm

    def eager(self, arrays):
        return lambda x, y: x + y

    def operators(self):
        nd = self.mx.nd
        return {
            "exp": nd.exp,
            "add": lambda x, y: x + y,
            "add-row": nd.broadcast_add,
            "sum-rows": lambda x: nd.sum(x, axis=1),
            "sum-columns": lambda x: nd.sum(x, axis=0),
            "transpose": nd.transpose,
            "concat": lambda x, y: nd.concat(x, y, dim=1),
            "slice": lambda x: nd.slice(x, begin=(96, 96), end=(4000, 4000)),
            "slice-step": lambda x: nd.slice(x, begin=(None, None), end=(None, None), step=(1, 2)),
            **dict.fromkeys(PRODUCTS, nd.dot),
            **dict.fromkeys(("sort", "sort-rows"), nd.sort),
            **dict.fromkeys(("argsort", "argsort-rows"), nd.argsort),
            "top": lambda x: nd.topk(x, k=MORE, ret_typ="value"),
            "top-rows": lambda x: nd.topk(x, k=FEW, ret_typ="value"),
            "running-sums-rows": lambda x: nd.cumsum(x, axis=1),
            "running-sums-columns": lambda x: nd.cumsum(x, axis=0),
        }

    def mlp(self, arrays):
        net = self.mx.gluon.nn.HybridSequential()
        net.add(self.dense(arrays[1].shape[0], activation="relu", in_units=arrays[1].shape[1]))
        net.add(self.dense(arrays[3].shape[0], in_units=arrays[3].shape[1]))
        net.initialize(ctx=self.context)
        for layer, weight, bias in ((net[0], arrays[1], arrays[2]), (net[1], arrays[3], arrays[4])):
            layer.weight.set_data(weight)
            layer.bias.set_data(bias)
        net.hybridize(**self.options)
        return net


class Mxforge(Mxnet):
    """mxforge, which also loads compiled folders."""

    def load_model(self, spec):
        return self.mx.load_compiled(spec["compiled"], self.context) if "compiled" in spec else super().load_model(spec)


class Torch:
    """PyTorch: eager, except for chains of pointwise operators, which torch.compile fuses.

    In training, `compiled` steps compute the loss by a function of torch.compile, and `channels_last` is the layout of
    images and of convolutions. On a GPU, `compiled` functions use CUDA graphs, and with `graph` all others do.
    """

    training = "training_torch"

    def __init__(self, threads, context="cpu", compiled=False, channels_last=False, graph=False):
        self.compiled, self.channels_last, self.graph = compiled, channels_last, graph
        self.torch = importlib.import_module("torch")
        self.device = context.replace("gpu", "cuda").replace("(", ":").rstrip(")")
        self.on_gpu = self.device.startswith("cuda")
        if self.on_gpu:
            self.torch.cuda.set_device(self.torch.device(self.device).index or 0)
            exact = os.environ.get("MXFORGE_MATMUL") != "tf32"
            self.torch.backends.cuda.matmul.allow_tf32 = self.torch.backends.cudnn.allow_tf32 = not exact
        self.torch.set_num_threads(threads)
        self.version = self.torch.__version__

    def load(self, spec, arrays):
        arrays = [self.array(a) for a in arrays]
        if "suite" in spec:
            function = workload(self, spec["suite"], arrays)
            arrays = arrays[: ARGUMENTS[spec["suite"]]]
        else:
            function = self.load_model(spec["torch"])
        return self.program(function, arrays)

    def array(self, values):
        return self.torch.from_numpy(values).to(self.device)

    def wait(self, _):
        if self.on_gpu:
            self.torch.cuda.synchronize()

    def compile(self, function):
        """A function compiled by torch.compile; on a GPU its calls are CUDA graphs."""
        return self.torch.compile(function, mode="reduce-overhead" if self.on_gpu else None)

    def captured(self, function, arguments=()):
        """A call as a CUDA graph, which reads copies of the arguments."""
        torch = self.torch
        static = [a.clone() for a in arguments]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                function(*static)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = function(*static)

        def replay(*arguments):
            for own, argument in zip(static, arguments):
                own.copy_(argument)
            graph.replay()
            return result

        return replay

    def program(self, function, arguments=()):
        torch = self.torch
        if self.graph:
            with torch.inference_mode():
                function = self.captured(function, arguments)
        program = Program(function, arguments, self.wait, self.convert)
        run = program.run

        def run_without_gradients(calls):
            with torch.inference_mode():
                run(calls)

        program.run = run_without_gradients
        return program

    def training_program(self, step, weights):
        return TrainingProgram(step, weights, self.wait, self.convert)

    def convert(self, tensor):
        return tensor.detach().cpu().numpy()

    def load_model(self, path):
        if path.endswith(".pt2"):
            program = self.torch.export.load(path)
            if self.on_gpu:
                program = importlib.import_module("torch.export.passes").move_to_device_pass(program, self.device)
            return program.module()
        return self.torch.jit.load(path, map_location=self.device).eval()

    def pointwise(self, arrays):
        torch = self.torch

        def chain(x, y):
            z = torch.sigmoid(x) * y + torch.tanh(x - y)
            t = 2 * z - 1
            return torch.relu(t) + torch.exp(-torch.abs(t))

        return self.compile(chain)

    def softmax(self, arrays):
        return lambda x: self.torch.softmax(x, -1)

    def layernorm(self, arrays):
        function, shape = self.torch.nn.functional.layer_norm, arrays[1].shape
        return lambda x, gamma, beta: function(x, shape, gamma, beta, 1e-5)

    def eager(self, arrays):
        return lambda x, y: x + y

    def operators(self):
        torch = self.torch
        return {
            "exp": torch.exp,
            "add": lambda x, y: x + y,
            "add-row": lambda x, y: x + y,
            "sum-rows": lambda x: x.sum(1),
            "sum-columns": lambda x: x.sum(0),
            "transpose": lambda x: x.t().contiguous(),
            "concat": lambda x, y: torch.cat((x, y), 1),
            "slice": lambda x: x[96:4000, 96:4000].contiguous(),
            "slice-step": lambda x: x[:, ::2].contiguous(),
            **dict.fromkeys(PRODUCTS, torch.matmul),
            **dict.fromkeys(("sort", "sort-rows"), lambda x: torch.sort(x)[0]),
            **dict.fromkeys(("argsort", "argsort-rows"), torch.argsort),
            "top": lambda x: torch.topk(x, MORE)[0],
            "top-rows": lambda x: torch.topk(x, FEW)[0],
            "running-sums-rows": lambda x: x.cumsum(1),
            "running-sums-columns": lambda x: x.cumsum(0),
        }

    def mlp(self, arrays):
        nn = self.torch.nn
        net = nn.Sequential(
            nn.Linear(arrays[1].shape[1], arrays[1].shape[0]),
            nn.ReLU(),
            nn.Linear(arrays[3].shape[1], arrays[3].shape[0]),
        )
        with self.torch.no_grad():
            for parameter, value in zip(net.parameters(), arrays[1:]):
                parameter.copy_(value)
        return net.to(self.device).eval()


class OnnxRuntime:
    """ONNX Runtime on its CPU provider with its default optimisations. Inputs are matched by name, else by position."""

    def __init__(self, threads):
        self.runtime = importlib.import_module("onnxruntime")
        self.threads = threads
        self.version = self.runtime.__version__

    def load(self, spec, arrays):
        """`onnx`, `inputs` (names of the arrays)."""
        if "suite" in spec:
            raise ValueError("onnxruntime runs only models")
        options = self.runtime.SessionOptions()
        options.intra_op_num_threads = self.threads
        options.inter_op_num_threads = 1
        session = self.runtime.InferenceSession(spec["onnx"], options, providers=["CPUExecutionProvider"])
        names = [i.name for i in session.get_inputs()]
        named = dict(zip(spec["inputs"], arrays))
        inputs = {n: named[n] for n in names} if set(names) <= set(named) else dict(zip(names, arrays))
        return Program(lambda: session.run(None, inputs), [], nothing, lambda x: x)


class Numpy:
    """NumPy, for the micro workloads."""

    def __init__(self):
        self.np = importlib.import_module("numpy")
        self.version = self.np.__version__

    def load(self, spec, arrays):
        if "suite" not in spec:
            raise ValueError("numpy runs only micro workloads")
        suite = spec["suite"]
        function = self.operators()[suite] if suite in OPERATORS else getattr(self, suite)
        return Program(function, arrays, nothing, lambda x: x)

    def pointwise(self, x, y):
        np = self.np
        t = 2 * (y / (1 + np.exp(-x)) + np.tanh(x - y)) - 1
        return np.maximum(t, 0) + np.exp(-np.abs(t))

    def softmax(self, x):
        e = self.np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    def layernorm(self, x, gamma, beta):
        centred = x - x.mean(-1, keepdims=True)
        return centred / self.np.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5) * gamma + beta

    def eager(self, x, y):
        return x + y

    def operators(self):
        np = self.np
        return {
            "exp": np.exp,
            "add": lambda x, y: x + y,
            "add-row": lambda x, y: x + y,
            "sum-rows": lambda x: x.sum(1),
            "sum-columns": lambda x: x.sum(0),
            "transpose": lambda x: np.ascontiguousarray(x.T),
            "concat": lambda x, y: np.concatenate((x, y), 1),
            "slice": lambda x: x[96:4000, 96:4000].copy(),
            "slice-step": lambda x: x[:, ::2].copy(),
            **dict.fromkeys(PRODUCTS, np.dot),
            **dict.fromkeys(("sort", "sort-rows"), np.sort),
            **dict.fromkeys(("argsort", "argsort-rows"), np.argsort),
            "top": lambda x: -np.sort(np.partition(-x, MORE)[:MORE]),
            "top-rows": lambda x: -np.sort(np.partition(-x, FEW)[:, :FEW]),
            "running-sums-rows": lambda x: x.cumsum(1),
            "running-sums-columns": lambda x: x.cumsum(0),
        }

    def mlp(self, x, w1, b1, w2, b2):
        return self.np.maximum(x @ w1.T + b1, 0) @ w2.T + b2


PRODUCTS = "product-256", "product", "product-2048"
ORDERS = "sort", "sort-rows", "argsort", "argsort-rows", "top", "top-rows", "running-sums-rows", "running-sums-columns"
FEW, MORE = 10, 100  # elements of `top-rows` and of `top`

# The number of a workload's arrays that are arguments of the call; the others are weights.
OPERATORS = {
    "exp": 1,
    "add": 2,
    "add-row": 2,
    "sum-rows": 1,
    "sum-columns": 1,
    "transpose": 1,
    "concat": 2,
    "slice": 1,
    "slice-step": 1,
    **dict.fromkeys(PRODUCTS, 2),
    **dict.fromkeys(ORDERS, 1),
}
ARGUMENTS = dict({"pointwise": 2, "softmax": 1, "layernorm": 3, "eager": 2, "mlp": 1}, **OPERATORS)

ENGINES = {
    "mxforge": lambda threads, context="cpu": Mxforge("mxforge", context),
    "mxnet": lambda threads, context="cpu": Mxnet("mxnet", context),
    "mxnet-mkldnn": lambda threads, context="cpu": Mxnet("mxnet", context, backend="MKLDNN"),
    "onnxruntime": lambda threads, context="cpu": OnnxRuntime(threads),
    "torch": Torch,
    "torch-nhwc": lambda threads, context="cpu": Torch(threads, context, channels_last=True),
    "torch-compile": lambda threads, context="cpu": Torch(threads, context, compiled=True),
    "torch-compile-nhwc": lambda threads, context="cpu": Torch(threads, context, compiled=True, channels_last=True),
    "torch-graph": lambda threads, context="cpu": Torch(threads, context, graph=True),
    "torch-graph-nhwc": lambda threads, context="cpu": Torch(threads, context, channels_last=True, graph=True),
    "numpy": lambda threads, context="cpu": Numpy(),
}
"""Functions of the number of threads and the text of a context such as gpu(0)."""
