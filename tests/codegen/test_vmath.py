"""The vector math functions against float64: ulp on dense samples, special values, and their machine code."""

from __future__ import annotations

import ctypes
import math
import platform
from collections.abc import Callable, Iterable

import numpy as np
import pytest
from mxforge.codegen.llvm.compile import compile_object, emit_assembly
from mxforge.codegen.llvm.emitter import ModuleBuilder
from mxforge.codegen.llvm.target import AVX2, AVX512, NEON, CpuTarget
from mxforge.codegen.llvm.types import F16, F32, I64, PTR, Type
from mxforge.codegen.llvm.vmath import ARITY, FLOAT_FUNCTIONS, call_math
from mxforge.codegen.llvm.vmath_double import DOUBLE_FUNCTIONS
from mxforge.runtime.host.loader import load_object
from mxforge.runtime.host.machine import host_target

# The references overflow on purpose.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def math_module(names: Iterable[str], target: CpuTarget, lanes: int, kind: str = "float") -> str:
    """A module with `run_NAME(x0, [x1,] out, count)` for each name; `count` must be a multiple of `lanes`."""
    module = ModuleBuilder(target)
    element, type = Type.of(kind), Type.of(kind, lanes)
    for name in names:
        pointers = [f"p{k}" for k in range(ARITY[name] + 1)]
        f = module.function("run_" + name, None, [*((p, PTR, "") for p in pointers), ("count", I64, "")])
        *sources, out, count = f.args
        with f.loop(0, count, lanes) as i:
            operands = [f.load(f.gep(p, i, element), type) for p in sources]
            f.store(call_math(f, name, *operands), f.gep(out, i, element))
        f.ret()
    return module.text()


class MathLibrary:
    """Every math function compiled for this machine at one lane count."""

    def __init__(self, lanes: int, kind: str = "float", target: CpuTarget | None = None) -> None:
        self.lanes, self.dtype = lanes, np.dtype(np.float32 if kind == "float" else np.float64)
        target = target or host_target()
        self._object = load_object(compile_object(math_module(ARITY, target, lanes, kind), target))

    def __call__(self, name: str, *arrays: np.ndarray) -> np.ndarray:
        """The function on arrays of any length."""
        length = arrays[0].size
        padded = -(-length // self.lanes) * self.lanes
        given = [np.pad(np.asarray(a, self.dtype), (0, padded - length)) for a in arrays]
        out = np.empty(padded, self.dtype)
        signature = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (len(given) + 1), ctypes.c_int64)
        function = signature(self._object.address("run_" + name))
        function(*[a.ctypes.data for a in given], out.ctypes.data, padded)
        return out[:length]


@pytest.fixture(scope="module")
def library() -> MathLibrary:
    return MathLibrary(host_target().lanes())


def ulp_error(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """|got - exact| in units in the last place of float32, `exact` in float64; infinite where only one is NaN.

    Infinity instead of the largest finite value, or the reverse, is an error of 1.
    """
    rounded = exact.astype(np.float32)
    magnitude = np.maximum(np.abs(exact), 2.0**-126)
    unit = np.ldexp(1.0, np.maximum(np.frexp(magnitude)[1] - 24, -149))
    error = np.abs(got.astype(np.float64) - exact) / unit
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    error = np.where(same, np.where(np.isfinite(error), error, 0.0), error)
    border = (np.isinf(got) != np.isinf(rounded)) & (np.abs(exact) > 3.402823e38)
    error = np.where(border, 1.0, error)
    return np.where(np.isnan(got) != np.isnan(rounded), np.inf, error)


def each(function: Callable[[float], float]) -> Callable[[np.ndarray], np.ndarray]:
    """A function of `math` applied to arrays; exceptions become the results of C."""

    def one(x: float) -> float:
        try:
            return function(x)
        except OverflowError:
            return math.inf
        except ValueError:
            return math.nan

    return lambda x: np.array([one(v) for v in x])


def exact_gamma(x: np.ndarray) -> np.ndarray:
    return np.where(x == 0, 1 / x, each(math.gamma)(x))


def exact_lgamma(x: np.ndarray) -> np.ndarray:
    pole = (np.floor(x) == x) & (x <= 0)
    return np.where(pole, np.inf, each(math.lgamma)(x))


def exact_sigmoid(x: np.ndarray) -> np.ndarray:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def exact_erfinv(x: np.ndarray) -> np.ndarray:
    """erfinv in float64, by Newton's method on erfc from an asymptotic start, which is faster than bisection."""
    a = np.abs(x)
    y = np.where(a < 0.5, a, np.sqrt(np.maximum(-np.log1p(-np.minimum(a, 1 - 1e-12)), 0)) * 0.9)
    for _ in range(8):
        excess = np.where(a < 0.5, each(math.erf)(y) - a, (1 - a) - each(math.erfc)(y))
        step = excess / (2 / np.sqrt(np.pi) * np.exp(-y * y))
        y = y - step / (1 + y * step)
    return np.where(a < 1, np.copysign(y, x), np.where(a == 1, x * np.inf, np.nan))


def exact_mod(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """MXNet's mod: fmod with the divisor's sign, and 0 for a zero divisor."""
    r = np.fmod(x, y)
    return np.where(y == 0, 0.0, np.where(np.sign(r) * np.sign(y) < 0, r + y, r))


EXACT: dict[str, Callable[..., np.ndarray]] = {
    **{name: getattr(np, name) for name in ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sinh", "cosh")},
    **{name: getattr(np, name) for name in ("tanh", "sin", "cos", "tan", "cbrt", "floor", "ceil", "trunc", "rint")},
    **{"asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "asin": np.arcsin, "acos": np.arccos},
    **{"atan": np.arctan, "atan2": np.arctan2, "hypot": np.hypot, "pow": np.power, "mod": exact_mod},
    **{"erf": each(math.erf), "erfinv": exact_erfinv, "gamma": exact_gamma, "lgamma": exact_lgamma},
    "sigmoid": exact_sigmoid,
    "softplus": lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "round": lambda x: np.copysign(np.trunc(np.abs(x)) + (np.abs(x) - np.trunc(np.abs(x)) >= 0.5), x),
}

BOUNDS = dict.fromkeys(ARITY, 4.0) | dict.fromkeys(("exp", "log", "tanh", "erf", "sigmoid"), 2.0)
BOUNDS |= dict.fromkeys(("floor", "ceil", "trunc", "rint", "round", "mod"), 0.5)  # exact up to rounding x + y

_MAGNITUDES = (
    *(0.0, 1.0, 0.5, 2.0, math.inf, math.nan, 1e-45, 1.1754942e-38, 1.17549435e-38, 3.4028235e38, 88.72283, 88.72284),
    *(87.33655, 87.3366, 103.972, 103.98, 104, 89, 89.41599, 89.416, 3, 1e-30, 1e30, 16777216, 16777217, 8388607.5),
    *(0.99999994, 1.0000001, 1.5, 2.5, 0.49999997, 35.04, 35.05, 42.5, 128, 127.99999, 149, 150, 4.08e36, 4.09e36),
)
SPECIAL = np.array([*_MAGNITUDES, *(-x for x in _MAGNITUDES)], np.float32)


def samples(count: int = 1 << 15) -> np.ndarray:
    """Samples of all magnitudes, dense where the functions have large curvature."""
    rng = np.random.default_rng(7)
    bits = rng.integers(0, 1 << 32, count, dtype=np.uint64).astype(np.uint32).view(np.float32)
    near = [rng.uniform(-110, 95, count), rng.uniform(-2, 4, count), rng.uniform(-1, 1, count), rng.normal(size=count)]
    around_one = 1 + rng.normal(size=count) * 10.0 ** rng.uniform(-7, -0.5, count)
    quarter_turns = np.arange(1, count) * (np.pi / 2)
    return np.concatenate(
        [bits, *near, around_one, -around_one, quarter_turns, 1 - 2.0 ** rng.uniform(-24, 0, count)]
    ).astype(np.float32)


def pair_samples(name: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(8)
    x = samples()
    y = rng.permutation(x)
    if name != "pow":
        return x, y
    base = np.exp(rng.uniform(-87, 88, 1 << 16)).astype(np.float32)
    exponent = (rng.uniform(-104, 89, 1 << 16) / np.log(base.astype(float))).astype(np.float32)
    whole = rng.integers(-60, 60, 1 << 16).astype(np.float32)
    small = (rng.normal(size=1 << 16) * 3).astype(np.float32)
    return np.concatenate([x, base, small]), np.concatenate([y, exponent, whole])


def check(library: MathLibrary, name: str, *arrays: np.ndarray) -> None:
    """Asserts that every result is within the function's bound, and that zeros have the right sign."""
    got = library(name, *arrays)
    exact = EXACT[name](*[a.astype(np.float64) for a in arrays])
    error = ulp_error(got, exact)
    worst = int(np.argmax(error))
    at = [float(a[worst]) for a in arrays]
    assert error[worst] <= BOUNDS[name], f"{name}{at} = {got[worst]}, exactly {exact[worst]}: {error[worst]:.2f} ulp"
    zeros = (
        (got == 0) & (exact == 0) & (name != "mod")
    )  # NumPy's fmod gives zero the dividend's sign, MXNet's mod does not
    np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(exact[zeros]))


def test_the_tables_are_total() -> None:
    assert FLOAT_FUNCTIONS.keys() == ARITY.keys()
    assert DOUBLE_FUNCTIONS.keys() == ARITY.keys()
    assert EXACT.keys() == ARITY.keys()


@pytest.mark.parametrize("name", ARITY)
def test_dense_samples(library: MathLibrary, name: str) -> None:
    if ARITY[name] == 2:
        check(library, name, *pair_samples(name))
    else:
        slow = name in ("erf", "erfinv", "gamma", "lgamma")  # their references are Python loops
        check(library, name, samples()[:: 8 if slow else 1])


@pytest.mark.parametrize("name", ARITY)
def test_special_values(library: MathLibrary, name: str) -> None:
    if ARITY[name] == 2:
        x, y = np.meshgrid(SPECIAL, SPECIAL)
        check(library, name, x.ravel(), y.ravel())
    else:
        check(library, name, SPECIAL)


def test_mod_is_exact_for_huge_quotients(library: MathLibrary) -> None:
    x = np.array([1e30, 3e38, -3e38, 3e38, 1e-30, -1e-30, np.inf, 5, -5, 5, 0], np.float32)
    y = np.array([3, 1e-45, 7e-40, -1.1, 1, 1, 3, np.inf, np.inf, 0, 0], np.float32)
    got = library("mod", x, y)
    np.testing.assert_array_equal(got, exact_mod(x.astype(np.float64), y.astype(np.float64)).astype(np.float32))


@pytest.mark.parametrize("lanes", [1, 4, 8, 16])
def test_lane_counts_agree(library: MathLibrary, lanes: int) -> None:
    expect_the_same_results(library, MathLibrary(lanes))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="runs AVX2 code")
def test_instruction_sets_agree(library: MathLibrary) -> None:
    expect_the_same_results(library, MathLibrary(8, target=AVX2))
    expect_the_same_results(MathLibrary(8, "double"), MathLibrary(4, "double", target=AVX2))


def expect_the_same_results(library: MathLibrary, other: MathLibrary) -> None:
    x = np.concatenate([SPECIAL, samples(1 << 8)])
    for name in ARITY:
        operands = (x, x[::-1].copy())[: ARITY[name]]
        np.testing.assert_array_equal(library(name, *operands), other(name, *operands), err_msg=name)


@pytest.mark.parametrize("lanes", [1, 4])
def test_doubles(lanes: int) -> None:
    library = MathLibrary(lanes, "double")
    rng = np.random.default_rng(3)
    edges = [0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 0.5, -2.5, 1e-300, -1e300, 700, 1 - 1e-12, 0.49999999999999994]
    x = np.concatenate([rng.normal(size=500) * 3, rng.uniform(-1, 1, 500), edges])
    for name in ARITY:
        operands = (x, np.roll(x, 1))[: ARITY[name]]
        exact = EXACT[name](*operands)
        floor = 1e-14 if name == "lgamma" else 1e-300  # C libraries differ near lgamma's negative zeros
        np.testing.assert_allclose(library(name, *operands), exact, rtol=2e-13, atol=floor, err_msg=name)


EXTENDED = {
    **{name: getattr(np, name) for name in ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p")},
    **{name: getattr(np, name) for name in ("sinh", "cosh", "tanh")},
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "softplus": lambda x: np.maximum(x, 0) + np.log1p(np.exp(-abs(x))),
}


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="long double has no more bits than double here")
@pytest.mark.parametrize("lanes", [1, 8])
def test_doubles_in_ulp(lanes: int) -> None:
    library, rng = MathLibrary(lanes, "double"), np.random.default_rng(7)
    x = np.concatenate([rng.normal(size=4000), rng.uniform(-744, 709, 4000), np.exp(rng.uniform(-744, 709, 4000))])
    x = np.concatenate([x, -x[8000:], 1 + rng.normal(size=2000) * 1e-3, 2.0 ** np.arange(-1074, 1024, 7)])
    for name, function in EXTENDED.items():
        exact = function(x.astype(np.longdouble))
        rounded, got = exact.astype(np.float64), library(name, x)
        same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
        unit = np.spacing(np.maximum(np.abs(rounded), 2.0**-1022))
        error = np.where(same, 0, np.abs(got - exact) / unit)
        worst = int(np.argmax(error))
        assert error[worst] <= 3, f"{name}({x[worst]!r}) = {got[worst]!r}, not {rounded[worst]!r}"
        denormal = np.abs(rounded) < 2.0**-1022
        assert np.abs(got - rounded)[denormal].max(initial=0) <= 2.0**-1073, name


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("target", [AVX2, AVX512, NEON], ids=["avx2", "avx512", "aarch64"])
def test_float_functions_are_vector_code_without_calls(target: CpuTarget, lanes: int) -> None:
    assembly = emit_assembly(math_module(ARITY, target, lanes), target)
    calls = {line.split()[1] for line in assembly.splitlines() if line.split()[:1] in (["callq"], ["bl"])}
    assert {c.removesuffix("@PLT") for c in calls} == {f"vm.huge_angle.v{lanes}"}
    registers = {AVX2: "ymm" if lanes >= 8 else "xmm", AVX512: {4: "xmm", 8: "ymm", 16: "zmm"}[lanes], NEON: ".4s"}
    assert registers[target] in assembly
    assert ("zmm" in assembly) == (target is AVX512 and lanes >= 8)  # widened doubles fill a zmm from 8 lanes on


def test_wrong_requests_raise() -> None:
    module = ModuleBuilder(AVX2)
    f = module.function("f", None, [("x", F32, ""), ("h", F16, "")])
    with pytest.raises(ValueError, match="no math function 'sine'"):
        call_math(f, "sine", f.args[0])
    with pytest.raises(ValueError, match="of 1 operands"):
        call_math(f, "pow", f.args[0])
    with pytest.raises(TypeError, match="convert to float"):
        call_math(f, "exp", f.args[1])


def test_a_function_is_emitted_once() -> None:
    module = ModuleBuilder(AVX2)
    f = module.function("f", F32, [("x", F32, "")])
    f.ret(call_math(f, "exp", call_math(f, "exp", f.args[0])))
    assert module.text().count("define internal float @vm.exp.v1") == 1
