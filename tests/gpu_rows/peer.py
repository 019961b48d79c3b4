"""The rows of the hardware table on PyTorch: `python -m gpu_rows.peer PARTS SECONDS cuda|cpu`.

PARTS is as in `ours.py`; each row names the variants:

    eager         calls of modules in inference mode; images and convolutions are channels-last
    graph         the same in a CUDA graph, with a copy of the input
    compile       torch.compile with CUDA graphs (mode "reduce-overhead"); inference with frozen weights
    max-autotune  torch.compile(mode="max-autotune")

Products of float32 are exact (no TF32) except in rows of "tf32". On "cpu" nothing is in a CUDA graph.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from .timing import adam_shapes, attempt, end_row, initial_values, microseconds, random, report, save
from .torch_networks import network_of

Call = Callable[[], Any]
_LOSSES = 3
_MODES = {"compile": "reduce-overhead", "max-autotune": "max-autotune"}


class Peer:
    """PyTorch on a device, for one row."""

    def __init__(self, spec: dict[str, Any], folder: str, seconds: float, device: str) -> None:
        self.torch: Any = importlib.import_module("torch")
        self.spec, self.folder, self.seconds, self.device = spec, folder, seconds, device
        self.dtype = spec.get("dtype", "float32")
        self.torch.backends.cuda.matmul.allow_tf32 = self.torch.backends.cudnn.allow_tf32 = self.dtype == "tf32"
        self.torch.zeros(1, device=device)

    def wait(self) -> None:
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    def tensor(self, values: np.ndarray[Any, Any], dtype: str | None = None) -> Any:
        name = dtype or self.dtype
        kind = getattr(self.torch, "float32" if name == "tf32" else name)
        return self.torch.from_numpy(values).to(self.device).to(kind)

    def run(self) -> None:
        """Measure each variant of the row."""
        for variant in self.spec["peers"]:
            if self.device == "cuda" or variant != "graph":
                attempt(variant, lambda variant=variant: getattr(self, self.spec["kind"])(variant))
                if self.device == "cuda":
                    self.torch.cuda.empty_cache()

    def timed(self, variant: str, call: Call, convert: Callable[[Any], Any]) -> dict[str, Any]:
        begin = time.perf_counter()
        result = call()
        self.wait()
        first = time.perf_counter() - begin
        save(self.folder, variant, convert(result))
        return {**microseconds(call, self.wait, self.seconds), "first": round(first, 2)}

    def numpy(self, tensor: Any) -> Any:
        return tensor.detach().float().cpu().numpy()

    def captured(self, call: Call) -> tuple[Call, Any]:
        """(a replay of the call as a CUDA graph, its result)"""
        torch = self.torch
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                call()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = call()
        return graph.replay, result

    def compiled(self, function: Any, variant: str) -> Any:
        return self.torch.compile(function, mode=_MODES[variant]) if variant in _MODES else function

    # -- kinds of rows

    def sum_of_two(self, variant: str) -> dict[str, Any]:
        a, b = (self.tensor(random(self.spec["shape"], seed)) for seed in (1, 2))
        return self.timed(variant, lambda: a + b, self.numpy)

    def operator(self, variant: str) -> dict[str, Any]:
        torch, shape = self.torch, self.spec["shape"]
        functional = torch.nn.functional
        x, y = (self.tensor(random(shape, seed)) for seed in (0, 1))
        gamma, beta = (self.tensor(np.full(shape[1:], value, np.float32)) for value in (1, 0))
        calls: dict[str, Call] = {
            "copy": lambda: y.copy_(x),
            "softmax": lambda: functional.softmax(x, -1),
            "layer_norm": lambda: functional.layer_norm(x, shape[1:], gamma, beta),
            "sum": x.sum,
            "column_sum": lambda: x.sum(0),
            "product": lambda: torch.matmul(x, y),
        }
        with torch.inference_mode():
            convert = self.numpy if self.spec["operator"] == "sum" else lambda result: self.numpy(result[:4096])
            return self.timed(variant, calls[self.spec["operator"]], convert)

    def initialized(self) -> tuple[Any, Any]:
        """(network with the values that mxforge's has, input)"""
        torch, spec = self.torch, self.spec
        net = network_of(torch, spec["network"], spec["shape"])
        tensors, described = [], []
        for module in net.modules():
            scales = "Norm" in type(module).__name__
            named = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
            for name, tensor in named:
                if tensor.is_floating_point():
                    tensors.append(tensor)
                    described.append((tuple(tensor.shape), scales and name in ("weight", "running_var")))
        with torch.no_grad():
            for tensor, value in zip(tensors, initial_values(described), strict=True):
                tensor.copy_(torch.from_numpy(value))
        net, x = net.to(self.device), self.tensor(random(spec["shape"]), "float32")
        if x.dim() == 4:
            net, x = (a.to(memory_format=torch.channels_last) for a in (net, x))
        return net, x

    def inference(self) -> tuple[Any, Any]:
        net, x = self.initialized()
        if self.dtype in ("float16", "bfloat16"):
            net, x = (a.to(getattr(self.torch, self.dtype)) for a in (net, x))
        return net.eval(), x

    def freeze(self, variant: str) -> None:
        """Let torch.compile take weights as constants, as a hybridized block of mxforge does."""
        if variant in _MODES:
            config: Any = importlib.import_module("torch._inductor.config")
            config.freezing = True

    def network(self, variant: str) -> dict[str, Any]:
        torch = self.torch
        self.freeze(variant)
        with torch.inference_mode() if variant not in _MODES else torch.no_grad():
            net, x = self.inference()
            if variant != "graph":
                net = self.compiled(net, variant)
                return self.timed(variant, lambda: net(x), self.numpy)
            static = x.clone()
            replay, result = self.captured(lambda: net(static))

            def call() -> Any:
                static.copy_(x)
                replay()
                return result

            return self.timed(variant, call, self.numpy)

    def first(self, variant: str) -> dict[str, Any]:
        """From the initialized network to its result on the host."""
        self.freeze(variant)
        with self.torch.no_grad():
            net, x = self.inference()
            self.wait()
            begin = time.perf_counter()
            result = self.numpy(self.compiled(net, variant)(x))
            took = time.perf_counter() - begin
        save(self.folder, variant, result)
        return {"us": round(1e6 * took)}

    def training(self, variant: str) -> dict[str, Any]:
        torch, spec = self.torch, self.spec
        net, x = self.initialized()
        batch, classes = spec["shape"][0], spec["classes"]
        functional, half = torch.nn.functional, self.dtype in ("float16", "bfloat16")
        y = torch.arange(batch, device=self.device) % max(1, classes)
        precision = getattr(torch, self.dtype if half else "bfloat16")

        def compute() -> Any:
            with torch.autocast(self.device, precision, enabled=half):
                output = net(x)
            return functional.cross_entropy(output.float(), y) if classes else output.float().square().mean() / 2

        compute = self.compiled(compute, variant)
        optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9, fused=True)

        def step() -> Any:
            optimizer.zero_grad(set_to_none=True)
            error = compute()
            error.backward()
            optimizer.step()
            return error

        begin = time.perf_counter()
        losses = [float(step().detach()) for _ in range(_LOSSES)]
        took = time.perf_counter() - begin
        save(self.folder, variant, np.array(losses))
        call = self.captured(step)[0] if variant == "graph" else step
        return {**microseconds(call, self.wait, self.seconds), "first": round(took, 2), "losses": losses}

    def adam(self, variant: str) -> dict[str, Any]:
        torch = self.torch
        shapes = adam_shapes(self.spec["layers"], self.spec.get("divisor", 1))
        weights = [torch.nn.Parameter(torch.ones(shape, device=self.device)) for shape in shapes]
        for weight in weights:
            weight.grad = torch.ones_like(weight)
        optimizer = torch.optim.Adam(weights, lr=1e-3, fused=True, capturable=self.device == "cuda")
        call = optimizer.step
        if variant != "graph":
            return self.timed(variant, call, lambda _: self.numpy(weights[3]))
        return microseconds(self.captured(call)[0], self.wait, self.seconds)


def main(text: str, seconds: str, device: str, *_: str) -> None:
    for part in json.loads(text):
        try:
            Peer(part["spec"], part["folder"], float(seconds), device).run()
        except ImportError:
            report("torch", error="no torch")
        end_row()


if __name__ == "__main__":
    main(*sys.argv[1:])
