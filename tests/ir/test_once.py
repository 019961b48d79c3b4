"""Properties that are computed once: by one thread, for each instance, and also in a forked child."""

from __future__ import annotations

import os
import signal
import threading
import warnings
from typing import Any

import pytest
from mxforge.ir.once import once


class Numbers:
    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.begun, self.goes_on = threading.Event(), threading.Event()

    @once
    def value(self) -> int:
        """The number of calls."""
        self.calls.append(threading.get_ident())
        self.begun.set()
        assert self.goes_on.wait(30)
        return len(self.calls)


def test_the_value_is_computed_once_and_stored() -> None:
    numbers = Numbers()
    numbers.goes_on.set()
    assert numbers.value == numbers.value == 1
    assert Numbers.value.__doc__ == "The number of calls."
    assert set(vars(numbers)) == {"calls", "begun", "goes_on", "value"}


def test_threads_wait_for_the_one_that_computes() -> None:
    numbers, found = Numbers(), []
    threads = [threading.Thread(target=lambda: found.append(numbers.value)) for _ in range(4)]
    for thread in threads:
        thread.start()
    numbers.begun.wait(30)
    numbers.goes_on.set()
    for thread in threads:
        thread.join(30)
    assert found == [1] * 4 and len(numbers.calls) == 1


def test_instances_do_not_wait_for_each_other() -> None:
    slow, fast = Numbers(), Numbers()
    thread = threading.Thread(target=lambda: slow.value)
    thread.start()
    slow.begun.wait(30)
    fast.goes_on.set()
    assert fast.value == 1 and not slow.goes_on.is_set()
    slow.goes_on.set()
    thread.join(30)


def test_an_error_is_not_stored() -> None:
    class Failing:
        calls = 0

        @once
        def value(self) -> int:
            self.calls += 1
            return 1 // (self.calls - 1)

    failing = Failing()
    with pytest.raises(ZeroDivisionError):
        _ = failing.value
    assert failing.value == 1


def test_a_child_computes_what_another_thread_had_begun() -> None:
    numbers = Numbers()
    thread = threading.Thread(target=lambda: numbers.value)
    thread.start()
    numbers.begun.wait(30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks in processes with threads
        child = os.fork()
    if not child:
        signal.alarm(10)
        numbers.goes_on.set()
        os._exit(0 if numbers.value == 2 else 1)
    numbers.goes_on.set()
    thread.join(30)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
