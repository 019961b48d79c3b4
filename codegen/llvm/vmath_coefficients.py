"""The coefficients of the vector math functions, with the interval and the error of each fit.

Every list starts with the constant term. The coefficients are minimax fits: least squares on 1200 Chebyshev points of
the interval, reweighted (Lawson) until the weighted error is level, with function values of 120 bits or more. For
polynomials that are evaluated in float32, the coefficients were rounded to float32 one by one and the rest was fitted
again; other coefficients are doubles. Weights make the error relative to the whole function, so "error 3e-9" is 0.05
ulp of a float32.
"""

from __future__ import annotations


def _floats(*spelled: str) -> tuple[float, ...]:
    return tuple(float.fromhex(s) for s in spelled)


# (e^r - 1 - r) / r^2 on |r| <= 0.3473, error 3.2e-9 of e^r
EXP = _floats("0x1.fffffcp-2", "0x1.555492p-3", "0x1.5558bcp-5", "0x1.1239cap-7", "0x1.6a417p-10")
# the same, error 1.4e-8 of e^r - 1
EXPM1 = _floats("0x1.fffffep-2", "0x1.5554b2p-3", "0x1.5557p-5", "0x1.1226bap-7", "0x1.6b8d9ep-10")
# (2^r - 1) / r on |r| <= 0.5005, error 3.0e-9 of 2^r
EXP2 = _floats("0x1.62e43p-1", "0x1.ebfbdcp-3", "0x1.c6af7ap-5", "0x1.3b2ddap-7", "0x1.5f0976p-10", "0x1.417284p-13")
# (log(1+f) - f + f^2/2) / f^3 on -0.25 <= f <= 0.5, error 9.2e-10 of log(1+f)
LOG = _floats(
    "0x1.55555ap-2",
    "-0x1.00006ep-2",
    "0x1.999764p-3",
    "-0x1.5519d2p-3",
    "0x1.24639p-3",
    "-0x1.04ad9ep-3",
    "0x1.df1c2cp-4",
    "-0x1.74ff4p-4",
    "0x1.340cf2p-5",
)
# (tanh(x)/x - 1) / z in z = x^2, |x| <= 0.6, error 2.8e-9
TANH = _floats("-0x1.55553ep-2", "0x1.1109bep-3", "-0x1.b89abap-5", "0x1.54c3c2p-6", "-0x1.828776p-8")
# erf(x)/x - 1 in z = x^2, |x| <= 0.93, error 9.0e-10
ERF_SMALL = _floats(
    "0x1.06eba8p-3",
    "-0x1.81274p-2",
    "0x1.ce2d64p-4",
    "-0x1.b8011ap-6",
    "0x1.544a1ap-8",
    "-0x1.a60a2ep-11",
    "0x1.4f676p-14",
)
# -log(erfc(x)) / x on 0.9 <= x <= 4, error 4.6e-11 of erf
ERF_LARGE = _floats(
    "0x1.20e258p+0",
    "0x1.45b64cp-1",
    "0x1.aa1a22p-4",
    "-0x1.5938ecp-6",
    "0x1.b2233ap-10",
    "0x1.321ccap-11",
    "-0x1.f2feap-13",
    "0x1.3af202p-15",
    "-0x1.3cf448p-19",
)
# (sin(r)/r - 1) / z in z = r^2, |r| <= 1.002 pi/4, error 1.6e-10
SIN = _floats("-0x1.555556p-3", "0x1.111174p-7", "-0x1.a05956p-13", "0x1.7c2d52p-19")
# (cos(r) - 1 + z/2) / z^2 in z = r^2, |r| <= 1.002 pi/4, error 1.2e-10
COS = _floats("0x1.55554ap-5", "-0x1.6c0c26p-10", "0x1.99e718p-16")
# 2 atanh(s) / (s ln 2) in z = s^2, s = (m-1)/(m+1), m in [sqrt 1/2, sqrt 2], error 1.2e-11; double
LOG2_ATANH = _floats(
    "0x1.71547652beefcp+1",
    "0x1.ec709d116fee4p-1",
    "0x1.277781001cdb4p-1",
    "0x1.a58cfe6df1dedp-2",
    "0x1.5cf2cf39481d1p-2",
)
# (atan(x)/x - 1) / z in z = x^2, x <= 1, error 2.6e-9
ATAN = _floats(
    "-0x1.55553ep-2",
    "0x1.9991e6p-3",
    "-0x1.2420b6p-3",
    "0x1.c08f64p-4",
    "-0x1.58155ep-4",
    "0x1.da5ed4p-5",
    "-0x1.fdfc1cp-6",
    "0x1.64c1cep-7",
    "-0x1.d4984ap-10",
)
# (asin(x)/x - 1) / z in z = x^2, x <= 1/2, error 2.9e-10
ASIN = _floats("0x1.55554cp-3", "0x1.3338acp-4", "0x1.6ca75p-5", "0x1.04d36ap-5", "0x1.d511aap-7", "0x1.34cff6p-5")
# sin(pi x)/x in z = x^2, |x| <= 1/2, error 2.1e-11; double
SINPI = _floats(
    "0x1.921fb5441e49ap+1",
    "-0x1.4abbce4f1a2a9p+2",
    "0x1.466bbfc24f195p+1",
    "-0x1.32d11201a05f4p-1",
    "0x1.500ff7efbc1ap-4",
    "-0x1.cc345a2616378p-8",
)
# lgamma(2+y) / (y (y+1)) on |y| <= 1, error 2.23e-11; double
LGAMMA = _floats(
    "0x1.b0ee6072139efp-2",
    "-0x1.9ae650940ccddp-4",
    "0x1.0e0c9dbeed7e7p-5",
    "-0x1.95ce31d10abf9p-7",
    "0x1.4797727caed6p-8",
    "-0x1.144dcc4d29341p-9",
    "0x1.dfde9ea908195p-11",
    "-0x1.aa0d276ac9208p-12",
    "0x1.7fde09c5fe1d5p-13",
    "-0x1.545ed73407f05p-14",
    "0x1.34d1318d9a682p-15",
    "-0x1.62879788ca656p-16",
    "0x1.5c69d0020be58p-17",
    "-0x1.e0deb72ccd851p-22",
    "-0x1.0ddd150386cf6p-23",
    "-0x1.4a3e7dc648531p-19",
    "0x1.4f303330d83dep-20",
)
# erfinv(x)/x in u = w - 2.5, w = -log(1-x^2) <= 5 (the form of M. Giles, 2012), error 4.02e-08
ERFINV_CENTRE = _floats(
    "0x1.805c5ep+0",
    "0x1.f91e8ap-3",
    "-0x1.11cb6p-8",
    "-0x1.4867p-10",
    "0x1.cadab6p-13",
    "-0x1.4ba1d6p-18",
    "-0x1.ea0136p-19",
    "0x1.ecd2dcp-22",
    "0x1.d94524p-25",
    "-0x1.1706aap-27",
    "-0x1.04627p-29",
)
# erfinv(x)/x in u = sqrt(w) - 3, 5 <= w <= 16.8, error 6.93e-09
ERFINV_TAIL = _floats(
    "0x1.6a9efcp+1",
    "0x1.006dcap+0",
    "0x1.35792cp-7",
    "-0x1.f4e7a4p-8",
    "0x1.7548a6p-8",
    "-0x1.d33d4cp-9",
    "0x1.7c30a2p-10",
    "-0x1.0279b4p-13",
    "-0x1.03cf44p-12",
    "0x1.51d532p-13",
    "-0x1.57595p-15",
)

# 192 bits of 1/(2 pi), for the Payne-Hanek reduction of large angles.
INV_TWO_PI = (0x28BE60DB, 0x9391054A, 0x7F09D5F4, 0x7D4D3770, 0x36D8A566, 0x4F10E410)
# pi/2 and ln 2 as sums of float32 (Cody and Waite: products with a small integer are exact in an fma chain).
HALF_PI = _floats("0x1.921fb6p+0", "-0x1.777a5cp-25", "-0x1.ee59dap-50")
LN2 = _floats("0x1.62e43p-1", "-0x1.05c61p-29")
