"""Times the launches of a program one by one."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence

from ..runtime.executable import Executable
from ..runtime.threads import RECORD_BYTES, get_pool


def launch_times(
    executable: Executable, inputs: Sequence[int], outputs: Sequence[int], rounds: int = 10
) -> list[float]:
    """Seconds of each launch: the least of `rounds` runs of the program on tensors at these addresses.

    Launched one by one, each pays for its own call (about a microsecond), which a run of the program pays once.
    """
    executable.run(inputs, outputs)  # prepares, and lays the addresses down
    instance = executable._take()
    start = instance.records.value or 0
    records = [ctypes.c_void_p(start + i * RECORD_BYTES) for i in range(len(executable.program.launches))]
    best = [float("inf")] * len(records)
    run, one = get_pool().run, ctypes.c_int64(1)
    for _ in range(rounds):
        for i, record in enumerate(records):
            begin = time.perf_counter()
            run(record, one)
            best[i] = min(best[i], time.perf_counter() - begin)
    executable._idle.append(instance)
    return best
