"""Inference from unknown extents, extents 0 and scalars agrees with MXNet 1.9.1, in both shape semantics."""

from __future__ import annotations

from grouped import grouped
from inferred_shapes import REFUSED, Use, how_different, otherwise, uses

LESS = set(
    """
    amp_multicast broadcast_like concat Concat Correlation Crop Deconvolution diag _histogram _linalg_gemm Pad
    ravel_multi_index RNN scatter_nd SequenceLast SequenceMask SequenceReverse _slice_assign unravel_index UpSampling
    _contrib_box_decode _contrib_box_encode _contrib_DeformableConvolution _contrib_DeformablePSROIPooling
    _contrib_interleaved_matmul_encdec_valatt _contrib_interleaved_matmul_selfatt_valatt
    _contrib_ModulatedDeformableConvolution _contrib_MultiBoxDetection _contrib_MultiBoxTarget _random_pdf_dirichlet
    _random_pdf_exponential _random_pdf_poisson
    """.split()
)


@grouped("use", uses(), by=lambda use: use.op)
def test_inference_from_partly_unknown_shapes(use: Use) -> None:
    differences = otherwise().get(str(use), {})
    for asked in use.questions:
        expected = differences.get(str(asked.number), asked.theirs)
        assert use.ours(asked) == expected, (asked.given, asked.with_output)


@grouped("use", [use for use in uses() if str(use) in otherwise()], by=lambda use: use.op)
def test_only_known_differences_from_mxnet_occur(use: Use) -> None:
    """mxforge refuses some shapes without elements that MXNet accepts. Both shape semantics agree."""
    for number, ours in otherwise()[str(use)].items():
        asked = use.questions[int(number)]
        assert how_different(asked, ours) != "refused here" or asked.has_size_0
        assert ours == REFUSED or "legacy" not in ours


def test_the_operators_that_infer_less_than_mxnet() -> None:
    found = [
        (use.op, use.questions[int(n)], ours) for use in uses() for n, ours in otherwise().get(str(use), {}).items()
    ]
    assert {op for op, asked, ours in found if how_different(asked, ours) == "less" and not asked.has_size_0} == LESS
