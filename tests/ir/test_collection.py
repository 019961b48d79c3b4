"""Pauses of the garbage collector: nested, in several threads, in forked children, and when the program disabled it."""

import gc
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

import pytest
from mxforge.ir.collection import collection_paused


@pytest.fixture(autouse=True)
def _enabled() -> Iterator[None]:
    gc.enable()
    yield
    gc.enable()


def test_the_outermost_pause_ends_it() -> None:
    with collection_paused():
        with collection_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_an_error_ends_the_pause() -> None:
    with pytest.raises(KeyError), collection_paused():
        raise KeyError
    assert gc.isenabled()


def test_a_disabled_collector_stays_disabled() -> None:
    gc.disable()
    with collection_paused():
        assert not gc.isenabled()
    assert not gc.isenabled()


@contextmanager
def _paused_in_another_thread() -> Iterator[None]:
    entered, leave = Event(), Event()

    def pause() -> None:
        with collection_paused():
            entered.set()
            leave.wait()

    thread = Thread(target=pause)
    thread.start()
    entered.wait()
    try:
        yield
    finally:
        leave.set()
        thread.join()


def test_pauses_of_two_threads_end_with_the_last() -> None:
    with _paused_in_another_thread():
        with collection_paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_forked_child_does_not_wait_for_threads_that_it_lacks() -> None:
    with _paused_in_another_thread():
        child = os.fork()
        if child == 0:
            os._exit(0 if gc.isenabled() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


class _Cycle:
    def __init__(self) -> None:
        self.itself = self


def test_objects_that_stay_are_old_and_still_collected() -> None:
    with collection_paused(objects_stay=True):
        died = weakref.ref(_Cycle())
    gc.collect(1)
    assert died() is not None
    gc.collect()
    assert died() is None


def test_frozen_objects_stay_frozen() -> None:
    gc.freeze()
    try:
        with collection_paused(objects_stay=True):
            pass
        assert gc.get_freeze_count() > 1000
    finally:
        gc.unfreeze()
