"""Generates pickles at random, reproducibly by seed: states of optimizers, attacks on classes, and damaged operations.

Most parts of a pickle are well-formed, so that readers get far. All opcodes of all protocols occur, with operands that
they do not allow, false lengths, objects that contain themselves, and names that the reader must reject.
"""

from __future__ import annotations

import pickletools
import random
import struct
from collections.abc import Callable
from itertools import pairwise

Random = random.Random

_ALLOWED = (
    *("mxnet.ndarray.ndarray NDArray", "mxnet.ndarray.sparse RowSparseNDArray", "mxnet.context Context"),
    *("mxnet.optimizer.optimizer Adam", "mxnet.optimizer.optimizer SGD", "mxnet.optimizer.optimizer Optimizer"),
    *("mxnet.lr_scheduler FactorScheduler", "mxnet.lr_scheduler LRScheduler", "mxforge.lr_scheduler PolyScheduler"),
    *("collections OrderedDict", "copyreg _reconstructor", "copy_reg _reconstructor", "_codecs encode"),
    *("numpy dtype", "numpy float32", "numpy.core.multiarray scalar", "numpy._core.multiarray scalar"),
    *("torch FloatStorage", "torch int16", "torch Size", "torch._utils _rebuild_tensor_v2"),
    *("builtins object", "__builtin__ bytearray", "builtins bytes", "builtins set", "builtins frozenset"),
)
_REJECTED = (
    *(
        "os system",
        "builtins eval",
        "builtins getattr",
        "builtins type",
        "builtins list",
        "posix system",
        "sys modules",
    ),
    *("mxforge.ndarray NDArray", "mxforge.frontend.optimizer.states _names", "copyreg __newobj__"),
    *("mxnet.lr_scheduler LRScheduler.__init__", "pickle loads", "numpy load", "mxforge.frontend.context _current"),
)
_INSTANCES = [name for name in _ALLOWED if "ptimizer" in name or "Scheduler" in name]
_ATTRIBUTES = ("lr", "aggregate_num", "__call__", "__class__", "__dict__", "update", "base_lr", "handle", "device_id")
_NUMBERS = (0, 1, 2, 255, 256, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1)
_ARRAY = bytes.fromhex("c9fa93f900000000010000000300000000000000010000000000000000000000") + bytes(12)


def random_pickle(rng: Random) -> bytes:
    """A pickle of up to some hundred operations."""
    head = rng.choice((b"", b"\x80\x02", b"\x80\x04", b"\x80\x05"))
    body = _value(rng, rng.randrange(6))
    for _ in range(rng.choice((0, 0, 0, 1, 1, 2, 5))):
        at = rng.randrange(len(body) + 1)
        body = body[:at] + _operation(rng) + body[at + rng.choice((0, 0, 1, 2)) :]
    return head + body + (b"." if rng.random() < 0.95 else b"")


def mutate_pickle(data: bytes, rng: Random) -> bytes:
    """A pickle whose operations are removed, repeated, exchanged or joined by others; or a new one."""
    if rng.random() < 0.3:
        return random_pickle(rng)
    at = [position for _, _, position in pickletools.genops(data)] + [len(data)]
    parts = [data[a:b] for a, b in pairwise(at)]
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        i, j = rng.randrange(len(parts)), rng.randrange(len(parts))
        change = rng.randrange(5)
        if change == 0:
            parts[i] = b""
        elif change == 1:
            parts.insert(i, parts[j])
        elif change == 2:
            parts[i], parts[j] = parts[j], parts[i]
        elif change == 3:
            parts.insert(i, _operation(rng))
        else:
            parts.insert(i, _value(rng, 2))
    return b"".join(parts)


# --- well-formed values -----------------------------------------------------------------------------------------------


def _value(rng: Random, depth: int) -> bytes:
    kinds = _SIMPLE if depth <= 0 else (*_SIMPLE, *_NESTED, *_NESTED)
    made = rng.choice(kinds)(rng, depth - 1)
    if rng.random() < 0.3:
        made += rng.choice((b"\x94", b"q" + bytes([rng.randrange(8)]), b"2\x94" + _name(rng) + b"00"))
    return made


def _text(rng: Random, _: int = 0) -> bytes:
    return _short(rng.choice((*_ATTRIBUTES, "", "latin1", "cpu", "f4", "<", "O8", "x" * 100)))


def _short(text: str) -> bytes:
    return b"\x8c" + bytes([len(text)]) + text.encode()


def _bytes(rng: Random, _: int = 0) -> bytes:
    content = rng.choice((b"", b"abcd", _ARRAY, _ARRAY, _ARRAY[:-3], rng.randbytes(40)))
    return b"C" + bytes([len(content)]) + content


def _number(rng: Random, _: int = 0) -> bytes:
    return rng.choice(
        (b"K\x00", b"K\x02", b"J\xff\xff\xff\xff", b"G" + struct.pack(">d", 0.5), b"N", b"\x88", b"I01\n")
    )


def _recalled(rng: Random, _: int) -> bytes:
    return rng.choice((b"h", b"h", b"2h")) + bytes([rng.randrange(8)])


def _name(rng: Random, _: int = 0) -> bytes:
    module, name = rng.choice((*_ALLOWED, *_ALLOWED, *_REJECTED)).split()
    if rng.random() < 0.5:
        return f"c{module}\n{name}\n".encode()
    return _short(module) + _short(name) + b"\x93"


def _sequence(rng: Random, depth: int) -> bytes:
    parts = b"".join(_value(rng, depth) for _ in range(rng.randrange(4)))
    return rng.choice((b"(%bt", b"](%be", b"(%bl", b"\x8f(%b\x90", b"(%b\x91")) % parts


def _mapping(rng: Random, depth: int) -> bytes:
    parts = b"".join(rng.choice((_text, _number))(rng) + _value(rng, depth) for _ in range(rng.randrange(4)))
    return rng.choice((b"(%bd", b"}(%bu")) % parts


def _called(rng: Random, depth: int) -> bytes:
    count = rng.randrange(4)
    arguments = b"".join(rng.choice((_text, _bytes, _value))(rng, depth) for _ in range(count))
    return _name(rng) + (b")%b", b"%b\x85", b"%b\x86", b"%b\x87")[count] % arguments + b"R"


def _array(rng: Random, _: int) -> bytes:
    cls = rng.choice(_ALLOWED[:2]).replace(" ", "\n").encode()
    return b"c%b\nN\x85R\x94}" % cls + _short("handle") + _bytes(rng) + b"sb"


def _instance(rng: Random, depth: int) -> bytes:
    cls = b"c%b\n" % rng.choice(_INSTANCES).replace(" ", "\n").encode()
    made = rng.choice(
        (b"%b)\x81", b"ccopy_reg\n_reconstructor\n(%bc__builtin__\nobject\nNtR", b"%b)}\x92", b"%b", b"(%bo")
    )
    return made % cls + _state(rng, depth) + b"b"


def _state(rng: Random, depth: int) -> bytes:
    """A state, often with the attributes of slots, which `pickle` sets on any object."""
    slots = b"}" + _text(rng) + _value(rng, depth) + b"s"
    return rng.choice((slots, slots, b"N" + slots + b"\x86", b")" + slots + b"\x86", _value(rng, depth)))


_SIMPLE = (_text, _bytes, _number, _number, _recalled, _name)
_NESTED = (_sequence, _mapping, _called, _array, _instance, _instance)


# --- single operations ------------------------------------------------------------------------------------------------


def _sized(width: int) -> Callable[[Random], bytes]:
    def made(rng: Random) -> bytes:
        content = rng.choice((b"", b"ab", b"\xff\xfe", b"7"))
        size = len(content) if rng.random() < 0.7 else rng.choice(_NUMBERS)
        return (size % 256**width).to_bytes(width, "little") + content

    return made


def _line(*texts: str) -> Callable[[Random], bytes]:
    return lambda rng: rng.choice(texts).encode() + b"\n"


def _integer(width: int) -> Callable[[Random], bytes]:
    return lambda rng: (rng.choice((*_NUMBERS, rng.randrange(8))) % 256**width).to_bytes(width, "little")


_OPERANDS: dict[str, Callable[[Random], bytes]] = {
    "uint1": _integer(1),
    "uint2": _integer(2),
    "int4": _integer(4),
    "uint4": _integer(4),
    "uint8": _integer(8),
    "float8": lambda rng: rng.randbytes(8),
    "decimalnl_short": _line("00", "01", "7", "-1", "", "x", "9" * 5000),
    "decimalnl_long": _line("7L", "0", "", "L", "9" * 5000, "-1L"),
    "floatnl": _line("1.5", "nan", "inf", "1e999", "", "x"),
    "stringnl": _line("'a'", "'\\x00'", "''", "a", "'", '"b"'),
    "stringnl_noescape": _line("a", "", "os.system"),
    "stringnl_noescape_pair": lambda rng: rng.choice((*_ALLOWED, *_REJECTED)).replace(" ", "\n").encode() + b"\n",
    "unicodestringnl": _line("a", "\\u00e9", "\\ud800", "\\u"),
    **{f"{kind}{width}": _sized(width) for kind in ("string", "bytes", "unicodestring") for width in (1, 4, 8)},
    **{"bytearray8": _sized(8), "long1": _sized(1), "long4": _sized(4)},
}
"""The operands of an operation in a pickle, by the names that `pickletools` gives them."""


def _operation(rng: Random) -> bytes:
    """Any operation."""
    chosen = rng.choice(pickletools.opcodes)
    return chosen.code.encode("latin1") + (b"" if chosen.arg is None else _OPERANDS[chosen.arg.name](rng))
