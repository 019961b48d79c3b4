"""The cases of `--suite all-operators`: the arrays of each, which of them have gradients, and the work of a call.

`operator_programs.py` has the functions by the same names. A name is that of the operator in `mx.nd`, and more words if
there are several cases of one operator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from ...ir.lazy_dataclass import dataclass

_Generator = np.random.Generator
_Make = Callable[[_Generator], np.ndarray]
"""Makes one array."""


@dataclass(frozen=True)
class Case:
    """A call of an operator.

    `gradients` are the positions of the operands that have gradients; none: only the forward pass is measured.
    `indices` are those of integers, which PyTorch reads as int64. `operations` are the multiply-adds of the forward
    pass, twice, if they can be the limit. Results are compared unless they are random, one of several correct ones, or
    zero but for rounding (`free`).
    """

    operands: Sequence[_Make]
    gradients: Sequence[int] = ()
    indices: Sequence[int] = ()
    operations: float = 0.0
    free: bool = False

    def arrays(self) -> list[np.ndarray]:
        """The operands, the same in every run."""
        generator = np.random.default_rng(0)
        return [make(generator) for make in self.operands]


def _uniform(*shape: int) -> _Make:
    return lambda g: g.random(shape, np.float32)


def _places(extent: int, *shape: int, first: int = 0) -> _Make:
    """Integers from `first` to below `extent`."""
    return lambda g: g.integers(first, extent, shape).astype(np.float32)


def _constant(value: float, *shape: int) -> _Make:
    return lambda g: np.full(shape, value, np.float32)


def _bytes(*shape: int) -> _Make:
    return lambda g: g.integers(0, 255, shape).astype(np.uint8)


def _sparse(rows: int, columns: int) -> _Make:
    """One of a hundred elements is not zero."""
    return lambda g: np.where(g.random((rows, columns)) < 0.01, g.random((rows, columns)), 0).astype(np.float32)


def _positive_definite(rows: int) -> _Make:
    def make(g: _Generator) -> np.ndarray:
        x = g.random((rows, rows), np.float32)
        return x @ x.T + rows * np.eye(rows, dtype=np.float32)

    return make


def _corners(g: _Generator, count: int, extent: float) -> np.ndarray:
    """Boxes as their two corners."""
    return np.sort(g.random((count, 2, 2)) * extent, axis=1).reshape(count, 4)


def _regions(g: _Generator) -> np.ndarray:
    return np.concatenate([g.integers(0, 8, (128, 1)), _corners(g, 128, 200)], 1).astype(np.float32)


def _scored_boxes(g: _Generator) -> np.ndarray:
    boxes = [g.integers(0, 5, (8000, 1)), g.random((8000, 1)), _corners(g, 8000, 1)]
    return np.concatenate(boxes, 1).reshape(4, 2000, 6).astype(np.float32)


def _boxes(g: _Generator) -> np.ndarray:
    return _corners(g, 1000, 1).astype(np.float32)


def _affine(g: _Generator) -> np.ndarray:
    return np.array([[1, 0, 0.1, 0, 1, 0.1]], np.float32)


def _grid(g: _Generator) -> np.ndarray:
    return 2 * g.random((1, 2, 56, 56), np.float32) - 1


_X, _TALL, _IMAGES, _IMAGE = (
    _uniform(1024, 1024),
    _uniform(4096, 1024),
    _uniform(8, 64, 56, 56),
    _uniform(1, 64, 56, 56),
)
_ROW, _SCALE, _LONG = _uniform(1024), _uniform(64), _uniform(1000000)
_STEPS, _LENGTHS = _uniform(64, 32, 256), _places(61, 32, first=1)


def _convolution(
    batch: int, channels: int, points: Sequence[int], kernel: int, filters: int, *, stride: int = 1, groups: int = 1
) -> Case:
    """A convolution whose result has the extents of its operand by the stride."""
    weight = (filters, channels // groups, *[kernel] * len(points))
    operations = 2 * batch * prod(weight) * prod(points) / stride ** len(points)
    return Case((_uniform(batch, channels, *points), _uniform(*weight)), (0, 1), operations=operations)


def _recurrent(gates: int, directions: int = 1, *, states: int = 1) -> Case:
    """A layer of 256 units on 32 steps of 16 sequences."""
    units, steps, batch = 256, 32, 16
    count = directions * gates * units * (2 * units + 2)
    weights: _Make = lambda g: g.random(count, np.float32) / 100  # noqa: E731
    zeros = [_constant(0, directions, batch, units)] * states
    operands = (_uniform(steps, batch, units), weights, *zeros)
    return Case(operands, (0, 1), operations=4 * directions * gates * units * units * steps * batch)


_POINTWISE = "exp log1p tanh erf gammaln sqrt rsqrt sin arctan cbrt relu sigmoid softsign round abs sign clip".split()
_WITH_ROWS = "broadcast_add broadcast_power broadcast_maximum broadcast_mod broadcast_hypot".split()
_REDUCTIONS = "sum mean max prod norm argmax argmin nansum".split()
_DIFFERENTIATED = "sum max norm".split()

CASES: dict[str, Case] = {
    **{name: Case((_X,), (0,)) for name in _POINTWISE},
    **{name: Case((_X, _uniform(1, 1024))) for name in _WITH_ROWS},
    **{
        f"{name}, axis {axis}": Case((_TALL,), (0,) if name in _DIFFERENTIATED else ())
        for name in _REDUCTIONS
        for axis in (0, 1)
    },
    "sum": Case((_TALL,), (0,)),
    "mean, axes 0, 2, 3": Case((_IMAGES,), (0,)),
    **{name: Case((_TALL,), (0,)) for name in ("softmax", "log_softmax", "softmax, axis 0", "L2Normalization")},
    "softmax_cross_entropy": Case((_uniform(256, 1000), _places(1000, 256)), indices=(1,)),
    "LayerNorm": Case((_TALL, _ROW, _ROW), (0, 1)),
    "InstanceNorm": Case((_IMAGES, _SCALE, _SCALE), (0,), free=True),
    "GroupNorm": Case((_IMAGES, _uniform(8), _uniform(8)), (0,), free=True),
    "LRN": Case((_IMAGE,), (0,)),
    "BatchNorm, training": Case((_IMAGES, _SCALE, _SCALE, _constant(0, 64), _constant(1, 64)), (0,)),
    # movements
    **{name: Case((_X,)) for name in ("transpose", "tile", "repeat", "reverse", "Cast", "arange_like")},
    "transpose, inner axes": Case((_uniform(64, 32, 4, 64),)),
    "transpose, channels last": Case((_IMAGES,)),
    "concat": Case((_IMAGES,), (0,)),
    "stack": Case((_X,)),
    "split": Case((_IMAGES,)),
    "Pad": Case((_IMAGES,), (0,)),
    "slice_axis": Case((_IMAGES,)),
    "where": Case((_X,)),
    "one_hot": Case((_places(1000, 2048),), indices=(0,)),
    "take": Case((_TALL, _places(4096, 2048)), (0,), (1,)),
    "Embedding": Case((_TALL, _places(4096, 2048)), (0,), (1,)),
    "pick": Case((_TALL, _places(1024, 4096)), (0,), (1,)),
    "gather_nd": Case((_X, _places(1024, 2, 50000)), indices=(1,)),
    "scatter_nd": Case((_uniform(50000), _places(1024, 2, 50000)), indices=(1,)),
    "rows": Case((_TALL,)),
    "rows by indices": Case((_TALL, _places(4096, 2048)), indices=(1,)),
    "every second column": Case((_TALL,)),
    "to NumPy and back": Case((_TALL,)),
    "copy": Case((_TALL,)),
    "add in place": Case((_TALL,)),
    # orders
    **{name: Case((_TALL,), free=True) for name in ("argsort, rows", "topk, rows")},
    "topk": Case((_LONG,), free=True),
    "sort": Case((_LONG,)),
    "sort, rows": Case((_TALL,)),
    "shuffle": Case((_LONG,), free=True),
    "cumsum, axis 1": Case((_TALL,), (0,)),
    "cumsum, axis 0": Case((_TALL,)),
    # products
    "dot": Case((_X, _X), (0,), operations=2 * 1024**3),
    "dot, transposed": Case((_X, _X), operations=2 * 1024**3),
    "batch_dot": Case((_uniform(32, 128, 512), _uniform(32, 128, 512)), (0,), operations=2 * 32 * 128 * 128 * 512),
    "FullyConnected": Case((_uniform(32, 4096), _uniform(1000, 4096)), (0, 1), operations=2 * 32 * 1000 * 4096),
    "dot, vector": Case((_uniform(1000, 4096), _uniform(4096))),
    "interleaved_matmul_selfatt_qk": Case((_uniform(128, 8, 1536),), (0,), operations=2 * 64 * 128 * 128 * 64),
    "div_sqrt_dim": Case((_uniform(32, 128, 512),)),
    # windows
    "Convolution 3x3": _convolution(8, 64, (56, 56), 3, 64),
    "Convolution 1x1": _convolution(8, 256, (28, 28), 1, 128),
    "Convolution 5x5": _convolution(8, 32, (28, 28), 5, 64),
    "Convolution 3x3, stride 2": _convolution(8, 64, (56, 56), 3, 128, stride=2),
    "Convolution 3x3, dilated": _convolution(4, 64, (56, 56), 3, 64),
    "Convolution 3x3, 32 groups": _convolution(8, 128, (28, 28), 3, 128, groups=32),
    "Convolution 3x3, depthwise": _convolution(8, 96, (56, 56), 3, 96, groups=96),
    "Convolution 3x3, 17 channels": _convolution(8, 17, (40, 40), 3, 19),
    "Convolution 7x7, stem": _convolution(8, 3, (224, 224), 7, 64, stride=2),
    "Convolution, one axis": _convolution(16, 128, (512,), 5, 128),
    "Convolution, three axes": _convolution(2, 16, (16, 28, 28), 3, 32),
    "Deconvolution": Case(
        (_uniform(8, 64, 28, 28), _uniform(64, 32, 4, 4)), (0, 1), operations=2 * 8 * 64 * 28 * 28 * 32 * 16
    ),
    **{
        f"Pooling, {kind} {window}": Case((_IMAGES,), (0,))
        for kind in ("max", "avg")
        for window in ("2x2", "3x3", "global")
    },
    **{name: Case((_IMAGES,), (0,)) for name in ("UpSampling", "BilinearResize2D", "AdaptiveAvgPooling2D")},
    "ROIAlign": Case((_IMAGES, _regions), (0,)),
    "BilinearSampler": Case((_IMAGE, _grid), (0,)),
    "SpatialTransformer": Case((_IMAGE, _affine), (0,)),
    "DeformableConvolution": Case(
        (_IMAGE, _uniform(1, 18, 56, 56), _uniform(64, 64, 3, 3)), (0,), operations=2 * 56 * 56 * 64 * 64 * 9
    ),
    "Correlation": Case((_uniform(1, 32, 40, 40),), operations=2 * 81 * 32 * 40 * 40),
    # boxes, images
    "box_nms": Case((_scored_boxes,)),
    "box_iou": Case((_boxes,)),
    "MultiBoxPrior": Case((_IMAGES,)),
    "image.normalize": Case((_uniform(32, 3, 224, 224),)),
    "image.to_tensor": Case((_bytes(32, 224, 224, 3),)),
    "image.resize": Case((_bytes(32, 224, 224, 3),)),
    # sequences
    "SequenceMask": Case((_STEPS, _LENGTHS), (0,)),
    "SequenceReverse": Case((_STEPS, _LENGTHS)),
    "SequenceLast": Case((_STEPS, _LENGTHS)),
    "CTCLoss": Case((_uniform(50, 16, 64), _places(64, 16, 12, first=1)), (0,), (1,)),
    "RNN, lstm": _recurrent(4, states=2),
    "RNN, lstm in two directions": _recurrent(4, 2, states=2),
    "RNN, gru": _recurrent(3),
    "RNN, tanh": _recurrent(1),
    # random numbers
    "Dropout": Case((_TALL,), (0,), free=True),
    **{name: Case((), free=True) for name in ("uniform", "normal", "gamma", "poisson")},
    "multinomial": Case((_uniform(64, 1000),), free=True),
    # matrices
    **{name: Case((_positive_definite(256),)) for name in ("linalg.potrf", "linalg.inverse", "linalg.det")},
    "linalg.syevd": Case((_positive_definite(256),), free=True),
    "linalg.trsm": Case((_positive_definite(256), _uniform(256, 256))),
    "linalg.gelqf": Case((_uniform(256, 256),), free=True),
    "linalg.syrk": Case((_X,), operations=1024**3),
    "sparse.dot": Case((_sparse(2000, 5000), _uniform(5000, 128))),
    "sparse.dot, transposed": Case((_sparse(2000, 5000), _uniform(2000, 128))),
    "tostype": Case((_sparse(2000, 5000),)),
    # optimizers
    "sgd_mom_update": Case((_TALL, _TALL, _constant(0, 4096, 1024))),
    "adam_update": Case((_TALL, _TALL, _constant(0, 4096, 1024), _constant(0, 4096, 1024))),
}
