"""The closed set of core's primitives, by name."""

from __future__ import annotations

from .contraction import Conv, Dot
from .control import Call, Cond, Fused, HostCallback, While
from .creation import Constant, Iota, RandomBits
from .factorization import LQ, LU, Cholesky, SymmetricEigen, TriangularSolve
from .indexing import Gather, Scatter
from .ordering import Sort
from .pointwise import Cast, Pointwise
from .primitive import Primitive
from .reduction import ArgReduce, Cumulative, Reduce
from .scan import Scan
from .shape import Broadcast, Concat, Pad, Relayout, Reshape, Reverse, Slice, Transpose
from .window import ReduceWindow, SelectAndScatter

_POINTWISE = (Pointwise, Cast)
_SHAPE = (Broadcast, Reshape, Transpose, Slice, Reverse, Concat, Pad, Relayout)
_INDEXING = (Gather, Scatter)
_REDUCTION = (Reduce, ArgReduce, Cumulative, ReduceWindow, SelectAndScatter)
_CONTRACTION = (Dot, Conv)
_FACTORIZATION = (Cholesky, TriangularSolve, LU, LQ, SymmetricEigen)
_CREATION = (Constant, Iota, RandomBits)
_CONTROL = (Sort, Fused, Call, Cond, While, Scan, HostCallback)

PRIMITIVES: dict[str, type[Primitive]] = {
    p.name: p
    for group in (_POINTWISE, _SHAPE, _INDEXING, _REDUCTION, _CONTRACTION, _FACTORIZATION, _CREATION, _CONTROL)
    for p in group
}
