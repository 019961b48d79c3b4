"""Intended differences between mxforge and the records of MXNet, with reasons.

Calls have the names `str(golden)` and `str(refusal)`. A test proves that every entry is still needed.
"""

from __future__ import annotations

import re

from goldens import Golden, Gradient, Refusal

# Hand-written calls for which MXNet's result is wrong: it unravels only the first row of positions.
WRONG_IN_MXNET = {"unravel_index(2x2:int32, shape=(7, 6))"}

# MXNet returns a meaningless result; mxforge refuses the call.
REFUSED_HERE: tuple[tuple[str, str], ...] = (
    (r"(_contrib_)?BatchNorm(WithReLU)?\(", "MXNet reads past the end of vectors that are too short"),
    (r"(Convolution_v1|Crop|Deconvolution)\(.*=\(\d, \d, \d\)", "numbers beyond the spatial axes"),
    (r"(GridGenerator|SpatialTransformer)\(.*target_shape=\(\d, \d, \d\)", "numbers beyond the spatial axes"),
    (r"_contrib_AdaptiveAvgPooling2D\(.*output_size=(\(0|\(\d, \d, \d)", "a size that is none, or beyond two numbers"),
    (r"(Convolution|Pooling_v1)\(.*pad=\(-", "negative padding"),
    (r"(Pooling|Pooling_v1)\(.*kernel=\(-", "a negative kernel"),
    (r"Pooling\(.*kernel=\(2, 1\), stride=\(2, 2\), pad=\(1, 1\)", "padding as large as the kernel, as oneDNN does"),
    (r"Pooling\(.*kernel=\(3, 3\), .*pad=\(2, 3, 4\)", "padding as large as the kernel, as oneDNN does"),
    (r"LRN\(.*nsize=(0|-1|-2)", "a window of no channels"),
    (r"_contrib_arange_like\(.*repeat=-", "a negative count of repeats"),
    (r"[Rr]eshape\(", "MXNet makes an array of another size, whose memory is not its own"),
    (r"_contrib_interleaved_matmul", "channels that do not divide among the heads are read from other heads"),
    (r"(flip|reverse|transpose|Dropout)\(.*ax[ei]s=\(1, 1, 1\)", "an axis named several times"),
    (r"Correlation\(.*(x10:|1x1x1x1:|=-)", "arrays of two shapes, or sizes below 0: MXNet reads beyond them"),
    (r"_contrib_(Modulated)?DeformableConvolution\(.*=\(1, 1, 1\)", "numbers beyond the spatial axes"),
    (r"_contrib_(Deformable)?PSROIPooling\((1x1x1x1|.*(dim|size|part)=(0|-))", "too few channels, or sizes below 1"),
    (r"_contrib_(Multi)?Proposal\(.*ratios=\((0|-)", "boxes of no width"),
    (r"_contrib_hawkesll\(2x3:u?int", "likelihoods as whole numbers"),
)

# Both compute, and the results differ.
OTHER_RESULT: tuple[tuple[str, str], ...] = (
    (r"CTCLoss\((1x1x1|6x3x1):", "labels that are no classes"),
    (r"_contrib_MultiProposal\(.*scales=\(0, 1\)", "boxes without area, whose overlap is a quotient of nothing"),
    (r"unravel_index\(.*(2x\d+|shape=\(-1)", "MXNet unravels the first row of positions alone"),
    (r"(GridGenerator|SpatialTransformer)\(.*target_shape=\(2, 1\)", "MXNet divides by 0 for an axis of one position"),
    (r"Pad\(1x2x3x0:", "MXNet takes the extent 0 for an unknown one"),
    (r"_arange\(.*dtype=(bfloat16|float16)", "MXNet cuts start and step to whole numbers"),
    (
        r"amp_multicast\(2x3:(float64|u?int\d+), 2x3:float16",
        "MXNet casts to the dtype of the first array, whatever it is",
    ),
    (r"clip\(.*a_min=-1.5, a_max=-2", "bounds in the wrong order"),
    (r"(erf|tanh)\(11:u?int8\)", "the last digit of a float32 decides which whole number it is cut to"),
    (r"erfinv\(11:int", "not a number as an integer"),
    (r"norm\(11:u?int", "MXNet adds up and scales in the integers' own dtype"),
    (r"(reciprocal|_rdiv_scalar)\(3x4:int", "integers divided by 0"),
    (r"scatter_nd\(1:float32, 2x1:float32", "a coordinate outside of the shape"),
    (r"slice_like\(.*axes=None", "MXNet takes the text None for no axes instead of all"),
    (r"_split_v2\(.*sections=-", "MXNet leaves the last part unwritten"),
)

# MXNet refuses, mxforge computes.
ACCEPTED_HERE: tuple[tuple[str, str], ...] = (
    (r"\w+\((.*, )?(\d+x)*0[x:]", "arrays without elements are arrays; MXNet takes 0 for an unknown extent"),
    (
        r"\w+\((?P<one>(\d+x)*\d+:(?!float32)\w+)(, (\d+x)*\d+:\w+)*[,)]",
        "more dtypes are computed than MXNet has code for",
    ),
    (r"\w+\((.*, )?(stride|dilate|pad|adj|axes|shape|use_length|axis)=None", "None is the default"),
    (r"(flip|reverse|cumsum|Dropout|broadcast_axis)\(.*ax[ei]s=\(?-", "axes count from the end too"),
    (r"(moments|norm)\(", "the reduction over all axes, and out_dtype of any input"),
    (r"gather_nd\(", "a compiled program clips coordinates outside: docs/compatibility.md"),
    (r"ravel_multi_index\(2x2x3", "coordinates in any shape"),
    (r"batch_take\(4x3:float32, 4:", "indices in any dtype"),
    (r"_slice_assign\(", "the part stretches as in NumPy"),
    (r"_contrib_SparseEmbedding\(.*(dtype|sparse_grad)=", "the parameters of Embedding"),
    (r"_contrib_hawkesll\(", "marks in any dtype"),
    (r"_contrib_Proposal\(.*feature_stride=", "an image larger than the cells times the stride"),
    (r"Pooling\(.*pooling_convention=same", "the convention same works in any number of dimensions"),
    (r"_contrib_BilinearResize2D\(.*(scale_height=|odd_scale)", "a scale of one axis alone, or none, changes nothing"),
)


def _reason(table: tuple[tuple[str, str], ...], call: str) -> str | None:
    return next((reason for pattern, reason in table if re.match(pattern, call)), None)


def other_result(golden: Golden | Gradient) -> str | None:
    """The reason why the result differs from MXNet's, or None."""
    return _reason(OTHER_RESULT, str(golden))


def refused_here(golden: Golden | Gradient) -> str | None:
    """The reason why mxforge may refuse a call that MXNet accepts, or None."""
    return _reason(REFUSED_HERE, str(golden))


def accepted_here(refusal: Refusal) -> str | None:
    """The reason why mxforge may accept a call that MXNet refuses, or None."""
    return _reason(ACCEPTED_HERE, str(refusal))
