"""The operators that bfloat16 changes, by their names in MXNet, which include operators that mxforge lacks.

MXNet computes few operators in bfloat16. All others are computed in float32.
"""

from __future__ import annotations

from . import symbol_fp16 as half

BF16_FUNCS = ["Convolution", "FullyConnected"]
"""Computed in bfloat16."""

BF16_FP32_FUNCS = """abs _add BatchNorm BatchNormWithReLU clip Concat concat LRN Pooling relu shuffle _shuffle
    sqrt square tanh""".split()
"""Computed in the dtype of their inputs."""

BF16_USE_FP32_PARAMS = {
    name: ["", "gamma", "beta", "moving_mean", "moving_var"] for name in ("BatchNormWithReLU", "BatchNorm")
}
"""By operator, a text for each input: not empty for inputs that stay in float32."""

CONDITIONAL_FP32_FUNCS = [*half.CONDITIONAL_FP32_FUNCS]
"""Computed in float32 if a parameter has one of the values."""

_IN_FLOAT32 = ["broadcast_mul"]
_UNLISTED = frozenset(
    """_contrib_interleaved_matmul_encdec_qk _contrib_interleaved_matmul_encdec_valatt CuDNNBatchNorm
    _contrib_interleaved_matmul_selfatt_qk _contrib_interleaved_matmul_selfatt_valatt _TensorRT amp_cast
    amp_multicast""".split()
)
_BOXES = ["_contrib_MultiBoxDetection", "_contrib_MultiBoxPrior", "_contrib_MultiBoxTarget"]
_OTHERS = frozenset((*BF16_FUNCS, *BF16_FP32_FUNCS, *_BOXES, *_UNLISTED))

WIDEST_TYPE_CASTS = [
    *(name for name in half.WIDEST_TYPE_CASTS if name not in {*_OTHERS, *_IN_FLOAT32}),
    *_BOXES,
]
"""Computed in the widest dtype of their inputs."""

FP32_FUNCS = [
    *(name for name in (*half.FP32_FUNCS, *half.FP16_FUNCS, *half.FP16_FP32_FUNCS) if name not in _OTHERS),
    *_IN_FLOAT32,
]
"""Computed in float32."""

LOSS_OUTPUT_FUNCTIONS = [*half.LOSS_OUTPUT_FUNCTIONS]
"""Outputs of networks with gradients of their own, which the loss scale multiplies."""
