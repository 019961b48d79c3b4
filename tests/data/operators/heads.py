"""Golden cases of rare heads and of functions of single arrays."""

from __future__ import annotations

from golden_case import Case, a, case, r


def cases() -> list[Case]:
    return [
        case("SVMOutput", r(3, 4), a([0, 3, 1])),
        case("SVMOutput", r(2, 3, 4), a([[0, 3, 1], [2, 2, 0]]), margin=0.5, use_linear="True"),
        case("IdentityAttachKLSparseReg", r(3, 4, low=0.1), a([0, 0, 0, 0])),
        case("IdentityAttachKLSparseReg", r(3, 4, low=0.1), a([0, 0, 0, 0]), train=True, penalty=0.1),
    ]
