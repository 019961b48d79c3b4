"""`mxforge.metric`: metrics of outputs against labels, accumulated over batches."""

from __future__ import annotations

from .. import ndarray, registry
from ..base import numeric_types, string_types
from .base import (
    CompositeEvalMetric,
    CustomMetric,
    EvalMetric,
    _create,
    alias,
    check_label_shapes,
    create,
    np,
    register,
)
from .binary import F1, MCC, _BinaryClassificationMetrics
from .classification import (
    PCC,
    Accuracy,
    CrossEntropy,
    NegativeLogLikelihood,
    Perplexity,
    TopKAccuracy,
)
from .regression import MAE, MSE, RMSE, Caffe, Loss, PearsonCorrelation, Torch
