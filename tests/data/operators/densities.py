"""Golden cases of probability densities: each row of samples beside the parameters of its distribution."""

from __future__ import annotations

from typing import Any

from golden_case import Case, a, case, r

WHOLE = a([[0, 1, 2, 5], [3, 0, 7, 1]])


def p(*shape: int, low: float = 0.25, high: float = 2, dtype: str = "float32") -> Any:
    return r(*shape, low=low, high=high, dtype=dtype)


def cases() -> list[Case]:
    found: list[Case] = []
    for log in ("False", "True"):
        found += [
            case("_random_pdf_uniform", r(2, 4), r(2, low=-3, high=-1), p(2), is_log=log),
            case("_random_pdf_normal", r(2, 4), r(2), p(2), is_log=log),
            case("_random_pdf_gamma", p(2, 4), p(2), p(2), is_log=log),
            case("_random_pdf_exponential", p(2, 4), p(2), is_log=log),
            case("_random_pdf_poisson", WHOLE, p(2), is_log=log),
            case("_random_pdf_negative_binomial", WHOLE, p(2, low=1, high=4), p(2, high=0.75), is_log=log),
            case("_random_pdf_generalized_negative_binomial", WHOLE, p(2), p(2), is_log=log),
            case("_random_pdf_dirichlet", a([[[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]]]), p(1, 3), is_log=log),
        ]
    found += [
        case("_random_pdf_uniform", a([[-3, 0.5, 4]]), a([0]), a([1])),
        case("_random_pdf_normal", r(2, 3), r(2, 3), p(2, 3)),
        case("_random_pdf_normal", r(2, 3, 4, 2), r(2, 3), p(2, 3)),
        case("_random_pdf_normal", r(2, 4, dtype="float64"), r(2, dtype="float64"), p(2, dtype="float64")),
        case("_random_pdf_gamma", a([[-1, 0, 1]]), a([2]), a([3])),
        case("_random_pdf_exponential", a([[-1, 0, 1]]), a([2])),
        case("_random_pdf_dirichlet", a([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]]), p(2, 3)),
    ]
    return found
