"""The names of operators' inputs, outputs and gradients that monitors and hooks receive, which are MXNet's."""

from __future__ import annotations

from collections.abc import Sequence

from .operator import Operator

# Operators with one input `data` whose name MXNet keeps.
_NAMED = frozenset(
    """
    log_softmax Dropout SwapAxis squeeze tile repeat reverse depth_to_space space_to_depth Pad diag _image_to_tensor
    _image_normalize im2col col2im GridGenerator moments _contrib_MultiBoxPrior L2Normalization LRN SliceChannel
    _split_v2 Pooling Pooling_v1 all_finite _ravel_multi_index _unravel_index MakeLoss _contrib_quadratic
    _contrib_index_array _contrib_fft _contrib_ifft
    """.split()
)

NAMED_OUTPUTS = frozenset(
    """Activation BatchNorm BatchNorm_v1 BilinearSampler Concat Convolution Convolution_v1 Correlation Crop Custom
    Deconvolution Dropout FullyConnected GridGenerator GroupNorm IdentityAttachKLSparseReg InstanceNorm L2Normalization
    LRN LayerNorm LeakyReLU MakeLoss Pad Pooling Pooling_v1 RNN ROIPooling SVMOutput SequenceLast SequenceMask
    SequenceReverse SliceChannel SoftmaxActivation SoftmaxOutput SpatialTransformer SwapAxis UpSampling
    _contrib_BatchNormWithReLU _contrib_DeformableConvolution _contrib_DeformablePSROIPooling
    _contrib_ModulatedDeformableConvolution _contrib_MultiBoxDetection _contrib_MultiBoxPrior _contrib_MultiBoxTarget
    _contrib_MultiProposal _contrib_PSROIPooling _contrib_Proposal _contrib_ROIAlign _contrib_RROIAlign
    _contrib_SyncBatchNorm _contrib_fft _contrib_ifft _contrib_interleaved_matmul_encdec_qk
    _contrib_interleaved_matmul_encdec_valatt _contrib_interleaved_matmul_selfatt_qk
    _contrib_interleaved_matmul_selfatt_valatt col2im elemwise_add im2col make_loss softmax softmin""".split()
)
"""Operators whose outputs have names in MXNet (FListOutputNames). Hooks and casts number the others."""

# Operators whose gradients have the names of their inputs.
_GRADIENTS_BY_INPUT = frozenset(
    """
    BatchNorm_v1 BilinearSampler Convolution_v1 Correlation Crop GridGenerator IdentityAttachKLSparseReg InstanceNorm
    L2Normalization MakeLoss Pad Pooling_v1 ROIPooling SVMOutput SequenceLast SequenceMask SequenceReverse SliceChannel
    SpatialTransformer SwapAxis _contrib_DeformableConvolution _contrib_PSROIPooling _contrib_SyncBatchNorm
    """.split()
)

# Operators whose gradients are computed by several operators of MXNet.
_GRADIENTS = {
    "batch_dot": ("_backward_lhs_output", "_backward_rhs_output"),
    "gather_nd": ("_backward_output", "_backward_indices_output"),
    "pick": ("_backward_output", "_index_backward_output"),
    "where": ("_cond_backward_output", "_backward_output0", "_backward_output1"),
}


def monitored_names(op: Operator, passed: int) -> tuple[str, ...]:
    """The names of the `passed` inputs. They are numbered for operators without FListInputNames in MXNet: weight
    updates, and most operators with one input."""
    first = type(op).inputs[0] if type(op).inputs else ""
    plain = type(op).inputs == ("data",) and op.mx_name() not in _NAMED
    if plain or first == "weight":
        return tuple(f"input{i}" for i in range(passed))
    return op.input_names(passed)


def monitored_gradients(op: Operator, positions: Sequence[int], passed: int) -> tuple[str, ...]:
    """What follows a node's name in the names of the gradients by the inputs at `positions`, all but states, of
    `passed` inputs. They are numbered for most operators."""
    name = op.mx_name()
    if name in _GRADIENTS:
        return _GRADIENTS[name]
    if name in _GRADIENTS_BY_INPUT:
        names = op.input_names(passed)
        return tuple(f"_backward_{names[i]}" for i in positions)
    if len(positions) == 1:
        return ("_backward_output",)
    return tuple(f"_backward_output{i}" for i in range(len(positions)))
