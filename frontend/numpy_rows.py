"""The functions of `mx.np` and `mx.npx` that are operators: their names and arguments.

A row has the name of a function, the operator, and the names of its arguments: `name=name in the operator` where they
differ, `out` for the array that receives the result. Without arguments they are those of the operator, as in `mx.nd`.
Functions that choose an operator or convert arguments are in `numpy_functions.py`.
"""

from __future__ import annotations

from .generated_functions import Row

_UNARY = """
    arccos arccosh arcsin arcsinh arctan arctanh cbrt ceil cos cosh degrees exp expm1 fix floor log log10 log1p log2
    logical_not negative radians reciprocal rint sign sin sinh sqrt square tan tanh trunc isnan isinf isfinite isposinf
    isneginf absolute abs=absolute fabs=absolute bitwise_not invert=bitwise_not deg2rad=radians rad2deg=degrees
    acos=arccos acosh=arccosh asin=arcsin asinh=arcsinh atan=arctan atanh=arctanh bitwise_invert=bitwise_not
"""
BINARY = """
    add subtract multiply divide=true_divide true_divide mod remainder=mod power hypot arctan2 copysign ldexp lcm
    bitwise_and bitwise_or bitwise_xor equal not_equal greater greater_equal less less_equal maximum minimum
    pow=power atan2=arctan2 floor_divide fmod fmax fmin gcd logaddexp logical_and logical_or logical_xor
    bitwise_left_shift bitwise_right_shift left_shift=bitwise_left_shift right_shift=bitwise_right_shift
"""
"""Functions of two arrays or numbers; `name=name of the operator` where they differ."""

SWAPPED = {"greater": "less", "greater_equal": "less_equal", "less": "greater", "less_equal": "greater_equal"}
"""The comparisons with exchanged operands."""
_REFLECTED = frozenset(
    """
    subtract true_divide mod power arctan2 copysign ldexp floor_divide fmod bitwise_left_shift bitwise_right_shift
    """.split()
)


def of_number(name: str, right: bool) -> str:
    """The operator of an array and a number, which is `right` or left of it, for the operator of two arrays `name`."""
    if not right:
        name = SWAPPED.get(name, f"r{name}" if name in _REFLECTED else name)
    return f"_npi_{name}_scalar"


_LISTED = """
    all _np_all a=data axis keepdims out
    any _np_any a=data axis keepdims out
    sometrue _np_any a=data axis keepdims out
    sum _np_sum a axis dtype keepdims initial out
    prod _np_prod a axis dtype out keepdims initial
    product _np_prod a axis dtype out keepdims initial
    max _np_max a axis keepdims out initial
    amax _np_max a axis keepdims out initial
    min _np_min a axis keepdims out initial
    amin _np_min a axis keepdims out initial
    mean _npi_mean a axis dtype out keepdims
    std _npi_std a axis dtype out ddof keepdims
    var _npi_var a axis dtype out ddof keepdims
    argmax _npi_argmax a=data axis out
    argmin _npi_argmin a=data axis out
    cumsum _np_cumsum a axis dtype out
    around _npi_around x decimals out
    round _npi_around x decimals out
    round_ _npi_around x decimals out
    nan_to_num _npi_nan_to_num x=data copy nan posinf neginf out
    copy _np_copy a out
    dot _np_dot a b out
    matmul _npi_matmul a b out
    reshape _np_reshape a newshape order out
    transpose _np_transpose a axes
    squeeze _np_squeeze a axis out
    roll _np_roll a=data shift axis
    rot90 _npi_rot90 m=data k axes
    expand_dims expand_dims a=data axis
    swapaxes SwapAxis a=data axis1=dim1 axis2=dim2
    repeat repeat a=data repeats axis
    diag _np_diag array=data k
    diagflat _np_diagflat array=data k
    diagonal _np_diagonal a=data offset axis1 axis2
    trace _np_trace a=data offset axis1 axis2 out
    tril _npi_tril m=data k
    triu _npi_triu m=data k
    cumprod _npi_cumprod a axis dtype out
    kron _npi_kron a b
    cross _npi_cross a b axisa axisb axisc
    permute_dims _np_transpose a axes
"""
_EXTENSIONS = """
    activation batch_dot batch_flatten batch_norm cast convolution deconvolution dropout embedding erf erfinv
    fully_connected gamma gammaln gather_nd layer_norm leaky_relu log_softmax multibox_detection multibox_prior
    multibox_target one_hot pick pooling relu reshape_like rnn roi_pooling sequence_mask shape_array sigmoid slice
    smooth_l1 softmax topk arange_like masked_softmax masked_log_softmax
    digamma index_add index_update
"""
_OF_ND = """
    add_n batch_norm_with_relu=_contrib_BatchNormWithReLU bipartite_matching=_contrib_bipartite_matching
    box_decode=_contrib_box_decode box_encode=_contrib_box_encode box_iou=_contrib_box_iou box_nms=_contrib_box_nms
    broadcast_greater broadcast_like ctc_loss deformable_convolution=_contrib_DeformableConvolution
    modulated_deformable_convolution=_contrib_ModulatedDeformableConvolution
    instance_norm=InstanceNorm interleaved_matmul_encdec_qk=_contrib_interleaved_matmul_encdec_qk
    interleaved_matmul_encdec_valatt=_contrib_interleaved_matmul_encdec_valatt
    interleaved_matmul_selfatt_qk=_contrib_interleaved_matmul_selfatt_qk
    interleaved_matmul_selfatt_valatt=_contrib_interleaved_matmul_selfatt_valatt
    norm pad=Pad round_ste=_contrib_round_ste sign_ste=_contrib_sign_ste sequence_last=SequenceLast
    sequence_reverse=SequenceReverse slice_channel=SliceChannel slice_like softsign stop_gradient=BlockGrad
    sync_batch_norm=_contrib_SyncBatchNorm
"""
"""Functions of `npx` in MXNet 2 that are operators of `mx.nd`; `name=name of the operator` where they differ."""
IMAGE = """
    adjust_lighting crop flip_left_right flip_top_bottom normalize random_brightness random_color_jitter random_contrast
    random_flip_left_right random_flip_top_bottom random_hue random_lighting random_saturation resize to_tensor
"""
"""The functions of `npx.image`."""


def _rows() -> dict[str, Row]:
    rows = [line.split() for line in _LISTED.strip().splitlines()]
    listed = [Row(name, operator, tuple(arguments)) for name, operator, *arguments in rows]
    pairs = [name.partition("=") for name in _UNARY.split()]
    return {row.name: row for row in (*listed, *[Row(n, f"_npi_{own or n}", ("x", "out")) for n, _, own in pairs])}


ROWS = _rows()
"""The functions of `mx.np` that are operators with one form, by name."""

UFUNCS = frozenset([name.partition("=")[0] for name in _UNARY.split()] + ["around", "round", "round_", "nan_to_num"])
"""The functions among them that take the options of NumPy's ufuncs, and numbers."""

EXTENSIONS = {name: f"_npx_{name}" for name in _EXTENSIONS.split()}
EXTENSIONS |= {name: own or name for name, _, own in (text.partition("=") for text in _OF_ND.split())}
"""The operators of the functions of `mx.npx`, by name."""
