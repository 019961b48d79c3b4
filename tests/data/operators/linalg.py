"""Golden cases of linear algebra."""

from __future__ import annotations

import numpy as np
from golden_case import Case, a, case, r

RANDOM = np.random.default_rng(11)


def definite(*shape: int, dtype: str = "float32") -> np.ndarray:
    """Symmetric matrices whose eigenvalues are positive and far apart."""
    n = shape[-1]
    turned = np.linalg.qr(RANDOM.normal(size=shape))[0]
    return (turned @ (np.arange(1.0, n + 1)[:, None] * np.swapaxes(turned, -1, -2))).astype(dtype)


def factor(*shape: int, dtype: str = "float32") -> np.ndarray:
    """Triangles with a diagonal around 1 and numbers, which nobody should read, in the other."""
    return (np.eye(shape[-1]) + RANDOM.integers(-16, 17, shape) / 64).astype(dtype)


def products() -> list[Case]:
    x, y = r(2, 3, 4), r(2, 4, 5)
    wide = {"dtype": "float64"}
    return [
        case("_linalg_gemm2", r(3, 4), r(4, 5)),
        case("_linalg_gemm2", x, y, alpha=0.5),
        case("_linalg_gemm2", r(2, 4, 3), r(2, 5, 4), transpose_a=True, transpose_b=True),
        case("_linalg_gemm2", r(3, 2, 4), r(4, 2, 5), axis=0),
        case("_linalg_gemm2", r(3, 2, 2, 4, **wide), r(3, 5, 2, 4, **wide), axis=1, transpose_b=True),
        case("_linalg_gemm", x, y, r(2, 3, 5), alpha=2.0, beta=-0.5),
        case("_linalg_gemm", r(3, 2, 4), r(4, 2, 5), r(3, 2, 5), axis=-3),
        case("_linalg_gemm", r(4, 3, **wide), r(4, 5, **wide), r(3, 5, **wide), transpose_a=True),
        case("_linalg_syrk", r(2, 3, 4), alpha=1.5),
        case("_linalg_syrk", r(3, 4, **wide), transpose=True),
    ]


def triangles() -> list[Case]:
    cases: list[Case] = []
    for op in ("_linalg_trmm", "_linalg_trsm"):
        for rightside in (False, True):
            side = r(2, 3, 4) if rightside else r(2, 4, 3)
            for transpose in (False, True):
                for lower in (False, True):
                    options = {"rightside": rightside, "transpose": transpose, "lower": lower}
                    cases.append(case(op, factor(2, 4, 4), side, alpha=1.5, **options))
        cases.append(case(op, factor(4, 4, dtype="float64"), r(4, 2, dtype="float64")))
    return cases


def factors() -> list[Case]:
    return [
        case("_linalg_potrf", definite(2, 4, 4)),
        case("_linalg_potrf", definite(5, 5, dtype="float64"), lower=False),
        case("_linalg_potri", np.linalg.cholesky(definite(2, 3, 3))),
        case("_linalg_potri", factor(4, 4, dtype="float64"), lower=False),
        case("_linalg_inverse", factor(2, 2, 5, 5)),
        case("_linalg_inverse", a([[0, 2, 1], [4, 0, 0], [0, 0, -8]])),
        case("_linalg_inverse", r(4, 4, dtype="float64")),
        case("_linalg_gelqf", r(2, 3, 5)),
        case("_linalg_gelqf", r(4, 4, dtype="float64")),
        case("_linalg_gelqf", a([[0, 3, 4], [1, 0, 0]])),
        case("_linalg_gelqf", a([[3, 0, 0], [1, 2, 0]])),
        case("_linalg_syevd", definite(2, 4, 4)),
        case("_linalg_syevd", -definite(5, 5, dtype="float64")),
        case("_linalg_syevd", a([[2, 9], [1, 2]])),
        case("_linalg_syevd", a([[1.5]])),
        case("_linalg_det", factor(2, 4, 4)),
        case("_linalg_det", a([[0, 2, 1], [4, 0, 0], [0, 0, -8]], "float64")),
        case("_linalg_det", a([[1, 2], [0, 0]])),
        case("_linalg_slogdet", r(3, 4, 4)),
        case("_linalg_slogdet", a([[0, 2, 1], [4, 0, 0], [0, 0, -8]], "float64")),
        case("_linalg_slogdet", a([[0, 0], [0, 0]])),
    ]


def diagonals() -> list[Case]:
    cases = [
        case("_linalg_sumlogdiag", definite(2, 3, 3)),
        case("_linalg_sumlogdiag", definite(3, 3, dtype="float64")),
        case("_linalg_makediag", r(2, 3), offset=0),
    ]
    for offset in (0, 1, -2):
        cases.append(case("_linalg_extractdiag", r(2, 4, 4), offset=offset))
        cases.append(case("_linalg_makediag", r(3, dtype="float64"), offset=offset))
        for lower in (False, True):
            cases.append(case("_linalg_extracttrian", r(2, 4, 4), offset=offset, lower=lower))
            cases.append(case("_linalg_maketrian", r(2, 6), offset=offset, lower=lower))
    return cases


def cases() -> list[Case]:
    return [*products(), *triangles(), *factors(), *diagonals()]
