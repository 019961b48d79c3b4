"""Golden cases of sequences: temporal classification, embeddings with sparse gradients."""

from __future__ import annotations

from golden_case import Case, a, case, r


def classifications() -> list[Case]:
    data = r(6, 3, 5)
    first = a([[1, 2, 0], [3, 3, 4], [0, 0, 0]])
    last = a([[0, 2, -1], [3, 3, 1], [-1, -1, -1]])
    steps, letters = a([6, 5, 3]), a([2, 3, 1])
    lengths = {"use_data_lengths": True, "use_label_lengths": True}
    return [
        case("CTCLoss", data, first),
        case("CTCLoss", data, last, blank_label="last"),
        case("CTCLoss", data, first, steps, use_data_lengths=True),
        case("CTCLoss", data, a([[1, 2, 3], [3, 3, 4], [2, 1, 1]]), letters, use_label_lengths=True),
        case("CTCLoss", data, a([[1, 2, 3], [3, 3, 4], [2, 1, 1]]), steps, letters, **lengths),
        case("CTCLoss", r(3, 2, 4), a([[1, 1, 1], [1, 2, 3]])),  # the first does not fit
        case("CTCLoss", r(20, 2, 30, low=-4, high=4), r(2, 7, low=1, high=29, dtype="int32")),
        case("CTCLoss", r(1, 1, 3), a([[2]], "int32")),
    ]


def processes() -> list[Case]:
    marks = a([[0, 1, 2, 1], [2, 2, 0, 1]], "int32")
    rates = r(2, 3, low=0.5, high=2), r(3, low=0.1, high=0.5), r(3, low=0.5, high=2)
    times = r(2, 4, low=0.25, high=2), marks, a([3, 4]), a([9, 8])
    return [
        case("_contrib_hawkesll", *rates, a([[0, 0, 0], [0.5, 0, 1]]), *times),
        case(
            "_contrib_hawkesll",
            r(1, 1, low=1, high=2),
            a([0.25]),
            a([1.5]),
            a([[0]]),
            a([[1, 2]]),
            a([[0, 0]], "int32"),
            a([0]),
            a([4]),
        ),
    ]


def cases() -> list[Case]:
    table = r(4, 3)
    return [
        *classifications(),
        *processes(),
        case("_contrib_SparseEmbedding", a([[0, 3], [1, 1]]), table, input_dim=4, output_dim=3),
        case("_contrib_backward_gradientmultiplier", r(2, 3), scalar=-0.5),
    ]
