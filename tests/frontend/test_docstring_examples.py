"""The examples in docstrings of classes and functions that are not operators are correct; the most used have one."""

from __future__ import annotations

import doctest
import importlib
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import mxforge as mx
import numpy as np
import pytest

MODULES = """
    autograd context gluon gluon.data gluon.data.vision.transforms gluon.loss gluon.nn gluon.rnn gluon.utils image
    initializer io kvstore lr_scheduler metric model module ndarray optimizer random recordio symbol
""".split()
MOST_USED = """
    Context autograd.record autograd.grad autograd.Function nd.save random.seed
    gluon.Block gluon.HybridBlock gluon.SymbolBlock gluon.Parameter gluon.ParameterDict gluon.Trainer
    gluon.nn.Activation gluon.nn.BatchNorm gluon.nn.Conv2D gluon.nn.Conv2DTranspose gluon.nn.Dense gluon.nn.Dropout
    gluon.nn.Embedding gluon.nn.Flatten gluon.nn.HybridLambda gluon.nn.HybridSequential gluon.nn.LayerNorm
    gluon.nn.LeakyReLU gluon.rnn.LSTM gluon.rnn.GRU gluon.rnn.LSTMCell
    gluon.loss.L1Loss gluon.loss.L2Loss gluon.loss.HuberLoss gluon.loss.SigmoidBCELoss gluon.loss.SoftmaxCELoss
    gluon.data.ArrayDataset gluon.data.DataLoader gluon.data.vision.transforms.ToTensor
    gluon.utils.split_and_load gluon.utils.clip_global_norm
    init.Constant init.Mixed init.Normal init.Xavier io.DataBatch io.NDArrayIter io.ResizeIter image.imresize
    kv.create lr_scheduler.CosineScheduler lr_scheduler.FactorScheduler
    metric.Accuracy metric.CompositeEvalMetric metric.F1 metric.MAE metric.TopKAccuracy metric.create
    mod.Module model.load_checkpoint optimizer.Adam optimizer.SGD recordio.MXRecordIO recordio.pack
    sym.Group sym.Symbol sym.var
""".split()


def documented() -> Iterator[tuple[str, str]]:
    """(Name, docstring) of the classes and functions of the modules, and of methods, with an example."""
    for module in MODULES:
        for name, member in vars(importlib.import_module(f"mxforge.{module}")).items():
            methods = vars(member).items() if isinstance(member, type) else ()
            for path, found in ((name, member), *((f"{name}.{method}", value) for method, value in methods)):
                if isinstance(found, type | FunctionType) and ">>> " in (found.__doc__ or ""):
                    yield f"{found.__module__}.{path}", found.__doc__ or ""


def examples() -> list[Any]:
    """One test for each docstring; operators, which tests/ir/mx/test_docstrings.py tests, are in tables of mx.nd."""
    found = {name: text for name, text in documented() if "Example:\n" in text}
    return [pytest.param(text, id=name) for name, text in found.items()]


@pytest.mark.parametrize("text", examples())
def test_examples_are_right(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    output: list[str] = []
    example = doctest.DocTestParser().get_doctest(text, {"mx": mx, "nd": mx.nd, "np": np}, "example", None, 0)
    doctest.DocTestRunner().run(example, out=output.append)
    assert output == []


@pytest.mark.parametrize("name", MOST_USED)
def test_the_most_used_have_an_example(name: str) -> None:
    found: Any = mx
    for part in name.split("."):
        found = getattr(found, part)
    assert ">>> " in found.__doc__
