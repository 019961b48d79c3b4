"""Times the launches of a program one by one."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence

from ...runtime.device import Runnable
from ...runtime.host.executable import Executable
from ...runtime.host.threads import RECORD_BYTES, get_pool


def launch_times(executable: Runnable, inputs: Sequence[int], outputs: Sequence[int], rounds: int = 10) -> list[float]:
    """The time of each launch in seconds: the minimum of `rounds` runs of the program on tensors at these addresses.

    Each time includes a native call (about a microsecond); a normal run has one such call for all launches.
    """
    assert isinstance(executable, Executable)
    executable.run(inputs, outputs)  # prepares, and patches the addresses
    instance = executable.take_instance()
    start = instance.records[0].value or 0
    records = [ctypes.c_void_p(start + i * RECORD_BYTES) for i in range(len(executable.program.computations))]
    best = [float("inf")] * len(records)
    run, one = get_pool().run, ctypes.c_int64(1)
    for _ in range(rounds):
        for i, record in enumerate(records):
            begin = time.perf_counter()
            run(record, one)
            best[i] = min(best[i], time.perf_counter() - begin)
    executable.give_instance(instance)
    return best
