"""The features of this installation, under the names of MXNet's build features."""

from __future__ import annotations

from collections import OrderedDict
from functools import cache
from typing import ClassVar, Self

_CPU_FLAGS = {
    "CPU_SSE": "sse",
    "CPU_SSE2": "sse2",
    "CPU_SSE3": "pni",
    "CPU_SSE4_1": "sse4_1",
    "CPU_SSE4_2": "sse4_2",
    "CPU_SSE4A": "sse4a",
    "CPU_AVX": "avx",
    "CPU_AVX2": "avx2",
    "F16C": "f16c",
}
"""Features of the machine, for which kernels are compiled. The values are names in /proc/cpuinfo."""

_OURS = frozenset({"INT64_TENSOR_SIZE"})
"""Features that mxforge has on every machine. It does not use BLAS, OpenMP, oneDNN or OpenCV: these are disabled."""

_NAMES = """CUDA CUDNN NCCL CUDA_RTC TENSORRT CPU_SSE CPU_SSE2 CPU_SSE3 CPU_SSE4_1 CPU_SSE4_2 CPU_SSE4A CPU_AVX CPU_AVX2
OPENMP SSE F16C JEMALLOC BLAS_OPEN BLAS_ATLAS BLAS_MKL BLAS_APPLE LAPACK MKLDNN OPENCV CAFFE PROFILER DIST_KVSTORE CXX14
INT64_TENSOR_SIZE SIGNAL_HANDLER DEBUG TVM_OP""".split()


class Feature:
    """A feature: `name`, and `enabled`."""

    __slots__ = ("enabled", "name")

    def __init__(self, name: str, enabled: bool) -> None:
        self.name = name
        self.enabled = enabled

    def __repr__(self) -> str:
        return f"{'✔' if self.enabled else '✖'} {self.name}"


@cache
def _cpu_flags() -> frozenset[str]:
    from .devices import HOST

    return HOST.flags


def feature_list() -> list[Feature]:
    """All features of MXNet 1.9.1, in its order."""
    flags = _cpu_flags()
    return [Feature(n, n in _OURS or _CPU_FLAGS.get(n) in flags) for n in _NAMES]


class Features(OrderedDict[str, Feature]):
    """The features by name: one table for the process."""

    instance: ClassVar[Self | None] = None

    def __new__(cls) -> Self:
        if cls.instance is None:
            table = super().__new__(cls)
            OrderedDict.__init__(table, [(f.name, f) for f in feature_list()])
            cls.instance = table
        return cls.instance

    def __init__(self) -> None:
        """Does nothing: `__new__` fills the table once."""

    def __repr__(self) -> str:
        return str(list(self.values()))

    def is_enabled(self, feature_name: str) -> bool:
        """True if a feature is enabled; the name is not case-sensitive. RuntimeError for an unknown feature."""
        name = feature_name.upper()
        if name not in self:
            raise RuntimeError(f"Feature '{name}' is unknown, known features are: {list(self)}")
        return self[name].enabled
