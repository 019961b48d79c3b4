"""Golden cases of the optimizers' updates, whose states are recorded as well."""

from __future__ import annotations

from golden_case import Case, Uniform, a, case, r

SHAPE = (3, 4)


def p(*shape: int, dtype: str = "float32") -> Uniform:
    """Positive numbers: second moments."""
    return r(*shape, low=0.25, high=2, dtype=dtype)


def _plain(
    name: str, states: list[Uniform], required: dict[str, float], variants: list[dict[str, float]]
) -> list[Case]:
    """Calls on float32 arrays with each variant of the parameters, and one on float16."""
    halves = [Uniform(s.shape, s.low, s.high, "float16") for s in states]
    found = [case(name, r(*SHAPE), r(*SHAPE), *states, **{**required, **v}) for v in variants]
    half = (r(*SHAPE, dtype="float16"), r(*SHAPE, dtype="float16"))
    return [
        *found,
        case(name, *half, *halves, **required),
        case(
            name,
            r(2, dtype="float64"),
            r(2, dtype="float64"),
            *[Uniform((2,), s.low, s.high, "float64") for s in states],
            **{**required, **variants[-1]},
        ),
    ]


def _mixed(
    name: str, states: list[Uniform], required: dict[str, float], variants: list[dict[str, float]]
) -> list[Case]:
    """Calls on float16 weights beside float32 ones."""
    half = (r(*SHAPE, dtype="float16"), r(*SHAPE, dtype="float16"))
    return [case(name, *half, *states, **{**required, **v}) for v in variants]


COMMON = {"wd": 0.05, "rescale_grad": 0.5, "clip_gradient": 0.3}
LR = {"lr": 0.1}
STEP = {"t": 3, "wd": 0.05}


def _single() -> list[Case]:
    s, q = r(*SHAPE), p(*SHAPE)
    momentum = {**COMMON, "momentum": 0.9}
    moments = {**COMMON, "beta1": 0.8, "beta2": 0.95, "epsilon": 1e-3}
    rms = [{}, {**COMMON, "gamma1": 0.8, "epsilon": 1e-3}, {"clip_weights": 0.4, "clip_gradient": 0.2}]
    lamb = [{}, {**moments, "bias_correction": "False"}, moments]
    bounds = [{}, {"lower_bound": 0.9, "upper_bound": 3}, {"upper_bound": 0.5}]
    found = [
        *_plain("sgd_update", [], LR, [{}, COMMON, {**COMMON, "lazy_update": "False"}]),
        *_plain("sgd_mom_update", [s], LR, [{}, momentum]),
        *_mixed("mp_sgd_update", [s], LR, [{}, COMMON]),
        *_mixed("mp_sgd_mom_update", [s, s], LR, [{}, momentum]),
        *_plain("nag_mom_update", [s], LR, [{}, momentum]),
        *_mixed("mp_nag_mom_update", [s, s], LR, [{}, momentum]),
        *_plain("adam_update", [s, q], LR, [{}, moments, {"wd": 0.2, "clip_gradient": 0.2}]),
        *_plain("ftrl_update", [s, q], LR, [{}, {**COMMON, "lamda1": 0.3, "beta": 0.5}]),
        *_plain("rmsprop_update", [q], LR, rms),
        *_plain("rmspropalex_update", [p(*SHAPE), r(*SHAPE, low=-0.4, high=0.4), s], LR, [*rms, {"gamma2": 0.5}]),
        *_plain("signsgd_update", [], LR, [{}, COMMON]),
        *_plain("signum_update", [s], LR, [{}, {**momentum, "wd_lh": 0.02}]),
        *_plain("lamb_update_phase1", [s, q], STEP, lamb),
        *_mixed("mp_lamb_update_phase1", [s, q, s], STEP, lamb),
        *[case("lamb_update_phase2", s, s, p(1), p(1), **LR, **v) for v in bounds],
        case("lamb_update_phase2", s, s, a([0]), p(1), **LR),
        case("lamb_update_phase2", s, s, p(1), a([0]), **LR),
        *[case("mp_lamb_update_phase2", r(*SHAPE, dtype="float16"), s, p(1), p(1), s, **LR, **v) for v in bounds],
    ]
    ftml = {"wd": 0.05, "rescale_grad": 0.5, "clip_grad": 0.3, "beta1": 0.5, "beta2": 0.9, "epsilon": 1e-3}
    found += [case("ftml_update", s, s, p(*SHAPE), q, s, lr=0.1, t=t, **v) for t, v in ((1, {}), (4, ftml))]
    adamw = [{}, {"wd": 0.05, "clip_gradient": 0.3, "beta1": 0.8, "beta2": 0.95, "epsilon": 1e-3}]
    for v in adamw:
        found.append(case("_adamw_update", s, s, s, q, a([0.5]), lr=0.1, eta=0.7, **v))
        half = (r(*SHAPE, dtype="float16"), r(*SHAPE, dtype="float16"))
        found.append(case("_mp_adamw_update", *half, s, q, s, a([0.5]), lr=0.1, eta=0.7, **v))
    return found


def _tensors(count: int, kinds: str) -> list[Uniform]:
    """For each of `count` weights of different shapes its arrays: w, g in float32, W, G in float16, s a state, v a
    positive one."""
    made: list[Uniform] = []
    for i in range(count):
        shape = ((3, 4), (5,), (2, 1, 3))[i]
        for kind in kinds:
            dtype = "float16" if kind.isupper() else "float32"
            made.append(p(*shape) if kind == "v" else r(*shape, dtype=dtype))
    return made


def _several() -> list[Case]:
    found: list[Case] = []
    lrs, wds = {"lrs": "(0.1, 0.2)", "wds": "(0.05, 0)"}, {"rescale_grad": 0.5, "clip_gradient": 0.3}
    many = {"num_weights": 2}
    given = (a([0.1, 0.2]), a([0.05, 0]))
    for name, kinds, momentum in (
        ("multi_sgd_update", "wg", {}),
        ("multi_sgd_mom_update", "wgs", {"momentum": 0.9}),
        ("multi_mp_sgd_update", "WGs", {}),
        ("multi_mp_sgd_mom_update", "WGss", {"momentum": 0.9}),
    ):
        out = (0, len(kinds))
        found.append(case(name, *_tensors(1, kinds), out=(0,), lrs="(0.1,)", wds="(0.05,)"))
        found.append(case(name, *_tensors(2, kinds), out=out, **lrs, **many, **momentum, **wds))
        found.append(case(f"preloaded_{name}", *_tensors(2, kinds), *given, out=out, **many, **momentum, **wds))
    adamw = {**lrs, "etas": "(0.7, 1)", **many}
    lamb = {"learning_rates": "(0.1, 0.2)", "wds": "(0.05, 0)", "step_count": "(1, 3)", "num_tensors": 2}
    bounds = {"lower_bound": 0.9, "upper_bound": 1.1, "rescale_grad": 0.5, "clip_gradient": 0.3}
    found += [
        case("_multi_adamw_update", *_tensors(2, "wgsv"), a([0.5]), out=(0, 4), **adamw),
        case("_multi_adamw_update", *_tensors(2, "wgsv"), a([0.5]), out=(0, 4), **adamw, clip_gradient=0.2, beta1=0.8),
        case("_multi_mp_adamw_update", *_tensors(2, "WGsvs"), a([0.5]), out=(0, 5), **adamw),
        case("_multi_lamb_update", *_tensors(2, "wgsv"), out=(0, 4), **lamb),
        case("_multi_lamb_update", *_tensors(2, "wgsv"), out=(0, 4), **lamb, **bounds),
        case("_multi_lamb_update", *_tensors(2, "wgsv"), out=(0, 4), **lamb, bias_correction="False"),
        case("_multi_mp_lamb_update", *_tensors(2, "WGsvs"), out=(0, 5), **lamb),
    ]
    return found


def _helpers() -> list[Case]:
    nan, inf = float("nan"), float("inf")
    norms = (a([0.1, 0.2, 0.3]), a([4, 0, 9]), a([1, 4, 0]), a([0.05, 0, 0.1]))
    return [
        case("multi_sum_sq", *_tensors(3, "w"), num_arrays=3),
        case("multi_sum_sq", *_tensors(2, "W"), num_arrays=2),
        case("multi_lars", *norms, eta=0.1, eps=1e-3),
        case("multi_lars", *norms, eta=0.1, eps=1e-3, rescale_grad=0.5),
        case("all_finite", r(3, 4)),
        case("all_finite", a([1, nan])),
        case("all_finite", a([1, inf], "float16")),
        case("multi_all_finite", *_tensors(3, "w"), num_arrays=3),
        case("multi_all_finite", r(2), a([1, -inf]), num_arrays=2),
    ]


def cases() -> list[Case]:
    return [*_single(), *_several(), *_helpers()]
