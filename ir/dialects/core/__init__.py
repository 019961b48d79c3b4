"""The core dialect: the closed set of primitives from which targets generate code."""

from .builder import CoreBuilder, normalize_axes
from .contraction import Conv, Dot, products_of
from .control import Call, Cond, Fused, While
from .conv_weight_gradient import ConvWeightGradient
from .creation import Constant, Iota, RandomBits, Size
from .factorization import LQ, LU, Cholesky, SymmetricEigen, TriangularSolve
from .gradient import gradient_graph, pull_back, without_dead_nodes
from .host_callback import HostCallback, HostGradient
from .indexing import Gather, Scatter
from .interpret import evaluate_graph, interpret
from .numerics import round_bfloat16
from .ordering import ArgSort, Sort
from .pointwise import Cast, Pointwise
from .primitive import Primitive, storage
from .reduction import ArgReduce, Cumulative, Reduce
from .registry import PRIMITIVES
from .scan import Scan
from .shape import Broadcast, Concat, Pad, Relayout, Reshape, Reverse, Slice, Transpose
from .sparse import CsrDot
from .window import ReduceWindow, SelectAndScatter

__all__ = [
    "ArgReduce",
    "ArgSort",
    "Broadcast",
    "Call",
    "Cast",
    "Cholesky",
    "Concat",
    "Cond",
    "Constant",
    "Conv",
    "ConvWeightGradient",
    "CoreBuilder",
    "CsrDot",
    "Cumulative",
    "Dot",
    "Fused",
    "Gather",
    "HostCallback",
    "HostGradient",
    "Iota",
    "LQ",
    "LU",
    "PRIMITIVES",
    "Pad",
    "Pointwise",
    "Primitive",
    "RandomBits",
    "Reduce",
    "ReduceWindow",
    "Relayout",
    "Reshape",
    "Reverse",
    "Scan",
    "Scatter",
    "SelectAndScatter",
    "Size",
    "Slice",
    "Sort",
    "SymmetricEigen",
    "Transpose",
    "TriangularSolve",
    "While",
    "evaluate_graph",
    "gradient_graph",
    "interpret",
    "normalize_axes",
    "products_of",
    "pull_back",
    "round_bfloat16",
    "storage",
    "without_dead_nodes",
]
