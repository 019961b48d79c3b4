"""Lowers random bits: Philox4x32-10 as an expression of an element's position."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..ir.kernel import Cast, Const, Expr, Scalar
from ..ir.scalar import ScalarOp
from ..ir.types import DType

Share = Callable[[Expr], Expr]
"""Stores an expression in a Local and returns its Ref: every word of a round is read several times."""

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_LOW = 0xFFFFFFFF


def philox_word(words: Sequence[Expr], position: Expr, share: Share) -> Expr:
    """Word `position` (I64) of the stream of a key of four U32 words; see core.RandomBits for the counters.

    Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3". Words are computed as U64, so that
    products include their high halves.
    """
    key = [Cast(DType.U64, word) for word in words]
    block = share(_shift(Cast(DType.U64, position), 2))
    counter = [_low(block), _shift(block, 32), key[2], key[3]]
    keys = [share(key[0]), share(key[1])]
    for number in range(_ROUNDS):
        here = [_plus(k, number * w) for k, w in zip(keys, _WEYL, strict=True)]
        counter = [share(word) for word in _round(counter, here, share)]
    which = share(_binary(ScalarOp.AND, Cast(DType.U64, position), _const(3)))
    word = counter[3]
    for k in (2, 1, 0):
        word = Scalar(ScalarOp.SELECT, (Scalar(ScalarOp.EQ, (which, _const(k))), counter[k], word))
    return Cast(DType.U32, word)


def _round(c: list[Expr], keys: list[Expr], share: Share) -> list[Expr]:
    first = share(_binary(ScalarOp.MUL, c[0], _const(_MULTIPLIERS[0])))
    second = share(_binary(ScalarOp.MUL, c[2], _const(_MULTIPLIERS[1])))
    return [
        _xor(_xor(_shift(second, 32), c[1]), keys[0]),
        _low(second),
        _xor(_xor(_shift(first, 32), c[3]), keys[1]),
        _low(first),
    ]


def _const(value: int) -> Const:
    return Const(value, DType.U64)


def _binary(op: ScalarOp, a: Expr, b: Expr) -> Expr:
    return Scalar(op, (a, b))


def _xor(a: Expr, b: Expr) -> Expr:
    return _binary(ScalarOp.XOR, a, b)


def _shift(a: Expr, bits: int) -> Expr:
    return _binary(ScalarOp.SHIFT_RIGHT, a, _const(bits))


def _low(a: Expr) -> Expr:
    return _binary(ScalarOp.AND, a, _const(_LOW))


def _plus(a: Expr, b: int) -> Expr:
    """a + b modulo 2^32."""
    return _low(_binary(ScalarOp.ADD, a, _const(b & _LOW)))
