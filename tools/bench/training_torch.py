"""Networks and their training steps in PyTorch, those of the networks of `training_mxnet.py`.

Modules are made in the order of Gluon's parameters, so the arrays of a suite are assigned in order. This file must run
on Python 3.7, which old frameworks require.
"""

# ruff: noqa: B905, RUF005, UP

from __future__ import annotations


def load(engine, spec, arrays):
    """The program of a network or a training suite."""
    arrays = [engine.array(a) for a in arrays]
    if "network" in spec:
        net, x = _in_layout(engine, _initialized(engine, spec["network"], arrays[1:])[0].eval(), arrays[0])
        return engine.program(engine.compile(net) if engine.compiled else net, [x])
    return engine.training_program(*(_update if "update" in spec else _network)(engine, spec, arrays))


def _network(engine, spec, arrays):
    """(step, weights)"""
    torch = engine.torch
    x, y = arrays[:2]
    net, tensors = _initialized(engine, spec["training"], arrays[2:])
    net, x = _in_layout(engine, net, x)
    loss = _losses(torch)[spec["loss"]]
    if spec["loss"] == "classes":
        y = y.long()

    def compute(x, y):
        return loss(net(x), y)

    if engine.compiled:
        compute = engine.compile(compute)
    optimizer = _optimizer(torch, spec["optimizer"], net.parameters())

    def step():
        optimizer.zero_grad(set_to_none=True)
        error = compute(x, y)
        error.backward()
        optimizer.step()
        return error if engine.graph else error.item()

    if not engine.graph:
        return step, tensors
    return _replayed(engine, net, optimizer, step), tensors


def _replayed(engine, net, optimizer, step):
    """A step as a CUDA graph. The steps before the capture are undone: all engines begin with the same weights."""
    torch = engine.torch
    before = [t.clone() for t in net.state_dict().values()]
    replay = engine.captured(step)
    with torch.no_grad():
        for tensor, value in zip(net.state_dict().values(), before):
            tensor.copy_(value)
        _forget(torch, optimizer)
    return lambda: replay().item()


def _forget(torch, optimizer):
    """Reset the states of an optimizer in place: a graph reads them."""
    for state in optimizer.state.values():
        for value in state.values():
            if torch.is_tensor(value):
                value.zero_()


def _in_layout(engine, net, x):
    """The network and its input in the layout of the engine."""
    if engine.channels_last and x.dim() == 4:
        return [a.to(memory_format=engine.torch.channels_last) for a in (net, x)]
    return net, x


def _initialized(engine, name, arrays):
    """(network, its tensors) with these parameters."""
    torch = engine.torch
    net = Networks(torch).NETWORKS[name]().to(engine.device)
    tensors = _in_order(torch, net)
    with torch.no_grad():
        for tensor, array in zip(tensors, arrays):
            tensor.copy_(array)
    return net, tensors


def _update(engine, spec, arrays):
    half = len(arrays) // 2
    weights = [engine.torch.nn.Parameter(w) for w in arrays[:half]]
    for weight, gradient in zip(weights, arrays[half:]):
        weight.grad = gradient
    optimizer = _optimizer(engine.torch, spec["update"], weights)
    if engine.graph:
        return _captured_update(engine, optimizer, weights), weights
    return engine.torch.compile(optimizer.step) if engine.compiled else optimizer.step, weights


def _captured_update(engine, optimizer, weights):
    """The update as a CUDA graph, from the same weights as without one."""
    torch = engine.torch
    before = [w.detach().clone() for w in weights]
    replay = engine.captured(optimizer.step)
    with torch.no_grad():
        for weight, value in zip(weights, before):
            weight.copy_(value)
        _forget(torch, optimizer)
    return replay


def _optimizer(torch, described, weights):
    """An optimizer in its fused form, the fastest one."""
    name, parameters = described
    rest = {n: value for n, value in parameters.items() if n != "learning_rate"}
    optimizer_class = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[name]
    weights = list(weights)
    if name == "adam" and weights[0].is_cuda:
        rest["capturable"] = True
    return optimizer_class(weights, lr=parameters["learning_rate"], fused=True, **rest)


def _losses(torch):
    def squares(x, y):
        return torch.nn.functional.mse_loss(x, y) / 2

    return {
        "classes": torch.nn.functional.cross_entropy,
        "squares": squares,
        "squares of sequences": squares,
    }


def _in_order(torch, net):
    """The parameters and moving statistics of a network, in order of its modules."""
    tensors = []
    for module in net.modules():
        tensors += module.parameters(recurse=False)
        tensors += [b for b in module.buffers(recurse=False) if b.is_floating_point()]
    return tensors


class Networks:
    """The networks by the names of their suites."""

    def __init__(self, torch):
        self.torch = torch
        self.nn = torch.nn
        self.NETWORKS = {
            "train-mlp": self.mlp,
            "train-mlp-eager": self.mlp,
            "train-lenet": self.lenet,
            "train-resnet18": self.resnet18,
            "train-resnet50": self.resnet50,
            "train-mobilenet": self.mobilenet,
            "train-lstm": self.lstm,
            "train-bert": lambda: self.bert(4),
            "lstm": self.lstm,
            "gru": self.gru,
            "bert": lambda: self.bert(12),
        }

    def module(self, parts, forward):
        """A module with `parts` by name, and a function of it and its operands."""
        module = type("Module", (self.nn.Module,), {"forward": forward})()
        for name, part in parts:
            setattr(module, name, part)
        return module

    def mlp(self):
        nn = self.nn
        return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))

    def lenet(self):
        nn = self.nn
        first = [nn.Conv2d(1, 20, 5), nn.Tanh(), nn.MaxPool2d(2, 2)]
        second = [nn.Conv2d(20, 50, 5), nn.Tanh(), nn.MaxPool2d(2, 2)]
        return nn.Sequential(*first + second + [nn.Flatten(), nn.Linear(800, 500), nn.Tanh(), nn.Linear(500, 10)])

    def resnet18(self):
        return self.resnet((2, 2, 2, 2), (64, 64, 128, 256, 512), self.basic, 10)

    def resnet50(self):
        return self.resnet((3, 4, 6, 3), (64, 256, 512, 1024, 2048), self.bottleneck, 1000)

    def convolution(self, inputs, outputs, kernel, stride=1, bias=False, groups=1):
        """A convolution with the padding that keeps the extents, and batch norm."""
        padding = kernel // 2
        convolution = self.nn.Conv2d(inputs, outputs, kernel, stride, padding, groups=groups, bias=bias)
        return [convolution, self.nn.BatchNorm2d(outputs)]

    def resnet(self, counts, channels, body, classes):
        nn = self.nn
        layers = self.convolution(3, channels[0], 7, 2) + [nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
        for i, count in enumerate(counts):
            inputs, outputs = channels[i], channels[i + 1]
            layers.append(self.residual(body, inputs, outputs, 1 if i == 0 else 2, inputs != outputs))
            layers += [self.residual(body, outputs, outputs, 1, False) for _ in range(count - 1)]
        return nn.Sequential(*layers + [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels[-1], classes)])

    def basic(self, inputs, outputs, stride):
        first = self.convolution(inputs, outputs, 3, stride) + [self.nn.ReLU(inplace=True)]
        return first + self.convolution(outputs, outputs, 3)

    def bottleneck(self, inputs, outputs, stride):
        inner, relu = outputs // 4, self.nn.ReLU(inplace=True)
        first = self.convolution(inputs, inner, 1, stride, bias=True) + [relu]
        return first + self.convolution(inner, inner, 3) + [relu] + self.convolution(inner, outputs, 1, bias=True)

    def residual(self, body, inputs, outputs, stride, project):
        nn, relu = self.nn, self.torch.relu_
        parts = [("body", nn.Sequential(*body(inputs, outputs, stride)))]
        if not project:
            return self.module(parts, lambda self, x: relu(x + self.body(x)))
        parts.append(("project", nn.Sequential(*self.convolution(inputs, outputs, 1, stride))))
        return self.module(parts, lambda self, x: relu(self.project(x) + self.body(x)))

    def mobilenet(self):
        nn = self.nn
        layers = self.convolution(3, 32, 3, 2) + [nn.ReLU6(inplace=True)]
        inputs = 32
        rows = (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)
        for factor, outputs, count, stride in rows:
            for i in range(count):
                layers.append(self.inverted(inputs, outputs, factor, stride if i == 0 else 1))
                inputs = outputs
        layers += self.convolution(320, 1280, 1) + [nn.ReLU6(inplace=True), nn.AdaptiveAvgPool2d(1)]
        return nn.Sequential(*layers + [nn.Conv2d(1280, 1000, 1, bias=False), nn.Flatten()])

    def inverted(self, inputs, outputs, factor, stride):
        """A linear bottleneck of MobileNetV2."""
        nn, inner = self.nn, inputs * factor
        wide = self.convolution(inputs, inner, 1) + [nn.ReLU6(inplace=True)]
        depthwise = self.convolution(inner, inner, 3, stride, groups=inner) + [nn.ReLU6(inplace=True)]
        body = nn.Sequential(*wide + depthwise + self.convolution(inner, outputs, 1))
        if stride != 1 or inputs != outputs:
            return body
        return self.module([("body", body)], lambda self, x: x + self.body(x))

    def lstm(self):
        return self.module([("layers", self.nn.LSTM(650, 650, 2))], lambda self, x: self.layers(x)[0])

    def gru(self):
        return self.module([("layers", self.nn.GRU(650, 650, 2))], lambda self, x: self.layers(x)[0])

    def bert(self, layers):
        return self.nn.Sequential(*[self.encoder_layer(768, 12, 3072) for _ in range(layers)])

    def encoder_layer(self, units, heads, hidden):
        """A layer of BERT's encoder, without dropout and mask."""
        nn, functional = self.nn, self.nn.functional
        parts = [
            ("project", nn.Linear(units, 3 * units)),
            ("join", nn.Linear(units, units)),
            ("norm1", nn.LayerNorm(units)),
            ("wide", nn.Linear(units, hidden)),
            ("narrow", nn.Linear(hidden, units)),
            ("norm2", nn.LayerNorm(units)),
        ]

        def forward(self, x):
            batch, length, _ = x.shape
            q, k, v = self.project(x).view(batch, length, 3, heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
            mixed = functional.scaled_dot_product_attention(q, k, v)
            x = self.norm1(x + self.join(mixed.transpose(1, 2).reshape(batch, length, units)))
            return self.norm2(x + self.narrow(functional.gelu(self.wide(x))))

        return self.module(parts, forward)
