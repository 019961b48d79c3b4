"""Pickles of states: what MXNet and Python write is read; no file changes a class, runs code or takes much memory."""

from __future__ import annotations

import base64
import pickle
import pickletools
import random
import struct
import tracemalloc
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.frontend.artifacts import pickles
from mxforge.frontend.optimizer.states import read_states, write_states
from random_pickles import random_pickle

SCHEDULER = b"cmxnet.lr_scheduler\nFactorScheduler\n"
SLOTS = b"N}X\x08\x00\x00\x00__call__K\x01s\x86b."
INSTANCE = SCHEDULER + b")\x81"
CONTEXT = b"cmxnet.context\nContext\n"
ATTACKS = {
    "slots of a class": SCHEDULER + SLOTS,
    "slots of an instance": INSTANCE + SLOTS,
    "a second state": INSTANCE + b"}b}b.",
    "a state with other keys than names": INSTANCE + b"}K\x01K\x01sb.",
    "a state of a class": SCHEDULER + b"}X\x01\x00\x00\x00aK\x01sb.",
    "a state of a function": b"cnumpy.core.multiarray\nscalar\n}b.",
    "a state of a type of numpy": b"cnumpy\nfloat32\n}b.",
    "a state of a dictionary": b"ccollections\nOrderedDict\n)R}X\x01\x00\x00\x00aK\x01sb.",
    "a state of a context": CONTEXT + b"X\x03\x00\x00\x00cpuK\x00\x86R}X\x09\x00\x00\x00device_idK\x07sb.",
    "a constructor": SCHEDULER + b"K\x01\x85R.",
    "a constructor with arguments": SCHEDULER + b"K\x01\x85\x81.",
    "keywords": SCHEDULER + b")}\x92.",
    "an old instance": b"(imxnet.lr_scheduler\nFactorScheduler\n.",
    "another old instance": b"(" + SCHEDULER + b"o.",
    "another base class": b"ccopyreg\n_reconstructor\n" + SCHEDULER + b"c__builtin__\nset\nN\x87R.",
    "the state of a base class": b"ccopyreg\n_reconstructor\n" + SCHEDULER + b"c__builtin__\nobject\nK\x01\x87R.",
    "a class as a value": SCHEDULER + b".",
    "a class in a list": b"]" + SCHEDULER + b"a.",
    "a class in a tuple": SCHEDULER + b"\x85.",
    "a class in a tuple in a tuple": SCHEDULER + b"\x85\x85.",
    "a class as a state": INSTANCE + SCHEDULER + b"b.",
    "an element of an instance": INSTANCE + b"K\x01a.",
    "an entry of an instance": INSTANCE + b"K\x01K\x01s.",
    "an element of bytes": b"c__builtin__\nbytearray\n)R(K\x01e.",
    "an array without a state": b"cmxnet.ndarray.ndarray\nNDArray\nN\x85R.",
    "an array without a state in a list": b"]cmxnet.ndarray.ndarray\nNDArray\nN\x85Ra.",
    "an object of the program": b"P1\n.",
    "an object of a registry": b"\x82\x01.",
    "a buffer": b"\x97.",
    "a list as a key": b"}]K\x01s.",
    "an element of a set": b"\x8f(]\x90.",
    "a large number as a key": b"}\x8a\x09" + bytes(8) + b"\x01K\x01s.",
    "a tuple in a tuple as a key": b"})\x85\x85K\x01s.",
    "deep tuples as a key": b"})" + b"\x85" * 200_000 + b"K\x01s.",
    "deep tuples in a set": b"\x8f()" + b"\x85" * 200_000 + b"\x90.",
    "a codec": b"c_codecs\nencode\nX\x01\x00\x00\x00aX\x03\x00\x00\x00hex\x86R.",
    "a mark too few": b"e.",
    "values at the end": b"K\x01K\x02.",
    "no value": b".",
    "no such place": b"h\x07.",
}


def classes() -> list[dict[str, int]]:
    """The attributes of the classes that states can name, and of what they are built from."""

    def below(cls: type) -> Iterator[type]:
        yield cls
        for sub in cls.__subclasses__():
            yield from below(sub)

    named = (*below(mx.optimizer.Optimizer), *below(mx.lr_scheduler.LRScheduler), mx.Context, mx.nd.NDArray)
    return [{name: id(value) for name, value in vars(cls).items()} for cls in named]


@pytest.mark.parametrize("attack", ATTACKS)
def test_attacks_are_rejected(attack: str) -> None:
    before = classes()
    with pytest.raises(pickle.UnpicklingError):
        read_states(b"\x80\x04" + ATTACKS[attack])
    assert classes() == before and mx.current_context() == mx.cpu(0)


def test_random_pickles_change_no_class() -> None:
    before, read = classes(), 0
    for seed in range(2000):
        try:
            read_states(random_pickle(random.Random(seed)))
            read += 1
        except pickle.UnpicklingError:
            pass
        assert classes() == before, seed
    assert read > 200


def test_every_operation_is_known_or_rejected() -> None:
    rejected = {"INST", "OBJ", "NEWOBJ_EX", "PERSID", "EXT1", "EXT2", "EXT4"}
    rejected |= {"NEXT_BUFFER", "READONLY_BUFFER"}  # of buffers outside of the pickle
    known = pickles._LITERALS | pickles._OPERATIONS.keys()
    assert known | rejected == {operation.name for operation in pickletools.opcodes} and not known & rejected


LONG = b"B" + struct.pack("<I", 100_000) + bytes(100_000) + b"\x940"
HEAD = struct.pack("<Iiiq3i", 0xF993FAC9, 0, 1, 25_000, 1, 0, 0)
LONG_ARRAY = b"B" + struct.pack("<I", len(HEAD) + 100_000) + HEAD + bytes(100_000) + b"\x940"
ARRAY = b"cmxnet.ndarray.ndarray\nNDArray\nN\x85R}\x8c\x06handleh\x00sb"
BOMBS = {
    "copies of bytes": LONG + b"](" + b"c__builtin__\nbytearray\nh\x00\x85R" * 3000 + b"e.",
    "copies of an array": LONG_ARRAY + b"](" + ARRAY * 3000 + b"e.",
    "copies of a set": b"](" + b"I1\nI2\nI3\n" * 900 + b"e\x940](" + b"c__builtin__\nset\nh\x00\x85R" * 3000 + b"e.",
    "a length of bytes": b"\x8e" + struct.pack("<Q", 1 << 62) + b".",
    "a length of text": b"\x8d" + struct.pack("<Q", 1 << 40) + b".",
    "a length of a bytearray": b"\x96" + struct.pack("<Q", 1 << 40) + b".",
    "a length of a number": b"\x8b\xff\xff\xff\x7f.",
    "a frame": b"\x95" + struct.pack("<Q", 1 << 62) + b"X",
    "a place of the memo": b"Nr\xff\xff\xff\xff0",
    "doubled parts": b"]" + b"q\x00]h\x00ah\x00a" * 10_000 + b"R.",
    "marks": b"(" * 100_000 + b".",
    "sets": b"\x8f" * 100_000 + b".",
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_memory_is_proportional_to_the_file(bomb: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(pickle.UnpicklingError):
            read_states(BOMBS[bomb])
        assert tracemalloc.get_traced_memory()[1] < (1 << 20) + 400 * len(BOMBS[bomb])
    finally:
        tracemalloc.stop()


VALUE = {
    **{"none": None, "flags": [True, False], "numbers": (1, -1, 2**40, -(2**70), 1.5, 300), "text": "é" * 300},
    **{"bytes": b"\x00\xff" * 200, "no bytes": b"", "array": bytearray(b"\xff"), "empty": ((), [], {}, set())},
    **{"sets": ({1, "a"}, frozenset((2, b"b"))), "ordered": OrderedDict(b=1, a=(2, 3)), 3: {(1, "a"): "tuple"}},
    "numpy": (np.float32(0.5), np.int64(7), np.dtype("float16"), np.float64),
}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_values_of_every_protocol_are_read(protocol: int) -> None:
    found = read_states(pickle.dumps(VALUE, protocol))
    assert found == VALUE and list(found["ordered"]) == ["b", "a"] and type(found["array"]) is bytearray


def test_what_is_the_same_object_stays_the_same() -> None:
    array, counts = mx.nd.ones((2,)), {0: 1}
    optimizer = mx.optimizer.Adam()
    optimizer.lr_scheduler = mx.lr_scheduler.FactorScheduler(3)
    setattr(optimizer.lr_scheduler, "optimizer", optimizer)  # noqa: B010 (unknown to the class)
    found = read_states(write_states([array, (array,), counts, {"again": counts}, optimizer]))
    assert found[0] is found[1][0] and found[2] is found[3]["again"]
    assert found[4].lr_scheduler.optimizer is found[4]
    assert found[4]._index_update_count is found[4]._all_index_update_counts[0]


def test_nested_lists_of_any_depth_are_read() -> None:
    found = read_states(b"]" * 100_000 + b"a" * 99_999 + b".")
    assert len(found) == 1


def test_an_instance_of_a_class_with_its_own_state() -> None:
    class Halving(mx.optimizer.Optimizer):
        def __setstate__(self, state: Any) -> None:
            self.lr = 2 * state[0]

    name = f"c{Halving.__module__}\n{Halving.__qualname__}\n".encode()
    assert read_states(name + b")\x81]K\x03ab.").lr == 6


# Recorded from MXNet 1.9.1: the momentum of a row_sparse weight of shape (4, 2), after one update by ones.
SPARSE = """
gASV8AAAAAAAAAB9lEsAjBRteG5ldC5uZGFycmF5LnNwYXJzZZSMEFJvd1NwYXJzZU5EQXJyYXmUk5ROhZRSlH2UjAZoYW5kbGWUjAhidWlsdGluc5SM
CWJ5dGVhcnJheZSTlEOMyfqT+QEAAAACAAAAAAAAAAAAAAACAAAAAAAAAAIAAAAEAAAAAAAAAAIAAAAAAAAAAQAAAAAAAAAAAAAABgAAAAEAAAAEAAAA
AAAAAArXI7wK1yO8CtcjvArXI7wK1yO8CtcjvArXI7wK1yO8AAAAAAAAAAABAAAAAAAAAAIAAAAAAAAAAwAAAAAAAACUhZRSlHNicy4=
"""


def test_sparse_states_of_mxnet() -> None:
    state = read_states(base64.b64decode(SPARSE))[0]
    assert state.stype == "row_sparse" and np.allclose(state.asnumpy(), -0.01) and state.shape == (4, 2)


def test_states_are_written_with_the_names_of_mxnet_and_numpy_1() -> None:
    sparse = [mx.nd.ones((2, 3)).tostype(stype) for stype in ("csr", "row_sparse")]
    data = write_states([*sparse, np.float64(1)])
    for name in (b"sparse\nCSRNDArray\n", b"sparse\nRowSparseNDArray\n", b"cnumpy.core.multiarray\nscalar\n"):
        assert name in data
    assert [type(array) for array in read_states(data)[:2]] == [type(array) for array in sparse]
