"""Programs of linear algebra, detectors and alignments: eager, as symbols, and hybridized."""

import numpy as np
from program import failure, gather, numbers, ramp

PROGRAMS, program = gather()


def three_ways(mx, function, *arrays):
    """The results of `function(F, *arrays)` eager, by an executor, and by a hybridized block."""

    class Block(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, *inputs):
            return function(F, *inputs)

    block = Block()
    eager = block(*arrays)
    block.hybridize()
    compiled = block(*arrays)
    names = [f"x{i}" for i in range(len(arrays))]
    symbol = mx.sym.Group(list_of(function(mx.sym, *map(mx.sym.var, names))))
    executor = symbol.bind(mx.cpu(), dict(zip(names, arrays)))  # noqa: B905 (Python 3.9)
    return [[numbers(y) for y in list_of(results)] for results in (eager, compiled, executor.forward())]


def list_of(results):
    return list(results) if isinstance(results, (list, tuple)) else [results]


def definite(mx, n):
    x = ramp(mx, 2, n, n)
    return mx.nd.linalg.syrk(x) + mx.nd.array(np.eye(n) * np.arange(1, n + 1))


@program
def factors(mx):
    def function(F, x):
        factor = F.linalg.potrf(x)
        vectors, values = F.linalg.syevd(x)
        sign, size = F.linalg.slogdet(x)
        return factor, F.linalg.potri(factor), vectors, values, sign, size, F.linalg.sumlogdiag(factor)

    return three_ways(mx, function, definite(mx, 4))


@program
def systems(mx):
    def function(F, x, y):
        q, lower = F.linalg.gelqf(y)
        solved = F.linalg.trsm(F.linalg.potrf(x), y, alpha=0.5)
        return (
            q,
            lower,
            solved,
            F.linalg_gemm2(F.linalg.inverse(x), y),
            F.linalg.det(x),
            F.linalg.trmm(x, y, transpose=True),
        )

    return three_ways(mx, function, definite(mx, 3), mx.nd.sin(ramp(mx, 2, 3, 5) * 9))


@program
def triangles(mx):
    def function(F, x):
        packed = F.linalg.extracttrian(x, offset=-1)
        return packed, F.linalg.maketrian(packed, offset=-1), F.linalg.makediag(F.linalg.extractdiag(x, offset=1))

    return three_ways(mx, function, ramp(mx, 2, 4, 4))


@program
def classification(mx):
    def function(F, data, label):
        return F.CTCLoss(data, label), F.contrib.ctc_loss(data, label, blank_label="last"), F.ctc_loss(data, label)

    return three_ways(mx, function, ramp(mx, 7, 2, 5), mx.nd.array([[1, 2, 2], [3, 0, 0]]))


@program
def detector(mx):
    def function(F, data, label, scores):
        anchors = F.contrib.MultiBoxPrior(data, sizes=(0.4, 0.7), ratios=(1, 2))
        targets = F.contrib.MultiBoxTarget(anchors, label, scores, negative_mining_ratio=2)
        decoded = F.contrib.box_decode(F.reshape(targets[0], (1, -1, 4)), anchors, format="corner")
        overlaps = F.contrib.box_iou(F.reshape(decoded, (-1, 4)), F.reshape(anchors, (-1, 4)))
        return [*targets, decoded, *F.contrib.bipartite_matching(overlaps, threshold=0.3)]

    label = mx.nd.array([[[1, 0.1, 0.1, 0.5, 0.6], [0, 0.4, 0.3, 0.9, 0.9], [-1, -1, -1, -1, -1]]])
    return three_ways(mx, function, ramp(mx, 1, 3, 3, 3), label, ramp(mx, 1, 3, 27))


@program
def proposals(mx):
    def function(F, scores, moves, info):
        options = dict(scales=(1, 2), ratios=(1,), feature_stride=8, rpn_min_size=2, rpn_post_nms_top_n=5)
        rows = F.contrib.MultiProposal(scores, moves, info, output_score=True, **options)
        return [*rows, F.contrib.ROIAlign(scores, rows[0], pooled_size=(2, 2), spatial_scale=0.125, sample_ratio=2)]

    return three_ways(mx, function, ramp(mx, 2, 4, 3, 4), ramp(mx, 2, 8, 3, 4), mx.nd.array([[24, 32, 1], [20, 30, 1]]))


@program
def deformed(mx):
    def function(F, data, offset, weight):
        y = F.contrib.DeformableConvolution(data, offset, weight, kernel=(3, 3), pad=(1, 1), num_filter=4, no_bias=True)
        return y, F.Correlation(y, y, max_displacement=1, pad_size=1)

    return three_ways(mx, function, ramp(mx, 1, 2, 5, 4), ramp(mx, 1, 18, 5, 4), ramp(mx, 4, 2, 3, 3))


@program
def refusals(mx):
    x = mx.nd.ones((2, 2))
    return [
        failure(lambda: mx.nd.linalg.potrf(-x).asnumpy()),
        failure(lambda: mx.nd.linalg.inverse(x).asnumpy()),
        failure(lambda: mx.nd.linalg.gelqf(mx.nd.ones((3, 2)))),
        failure(lambda: mx.nd.linalg.syevd(mx.nd.ones((2, 3)))),
        failure(lambda: mx.nd.linalg.maketrian(mx.nd.ones((4,)))),
        failure(mx.nd.contrib.backward_quadratic),
        failure(lambda: mx.nd.contrib.bipartite_matching(x)),
        failure(lambda: mx.nd.CTCLoss(x, x)),
        failure(lambda: mx.sym.linalg.nothing),
    ]
