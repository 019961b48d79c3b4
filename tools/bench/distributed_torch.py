"""A process of PyTorch's gloo, which sums arrays with others; runs in the interpreter of PyTorch.

    python distributed_torch.py RANK SIZE PORT BYTES,...

The process 0 prints the median seconds of a sum for each size as JSON.
"""

import json
import sys
import time
from importlib import import_module
from statistics import median

torch, group = import_module("torch"), import_module("torch.distributed")


def main():
    rank, size, port = map(int, sys.argv[1:4])
    torch.set_num_threads(1)
    group.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size)
    medians = {}
    for nbytes in map(int, sys.argv[4].split(",")):
        values, times = torch.zeros(nbytes // 4), []
        for _ in range(max(5, min(500, 100_000_000 // max(nbytes, 1000))) + 2):
            group.barrier()
            begin = time.perf_counter()
            group.all_reduce(values)
            times.append(time.perf_counter() - begin)
        medians[nbytes] = median(times[2:])
    if rank == 0:
        print(json.dumps(medians))
    group.destroy_process_group()


main()
