"""Prints the seconds that torch.distributed.checkpoint takes to save and load as much as the suite's `measure`:
python dcp_time.py [ranks [bytes]]. Best of three, the slowest rank's.
"""

import os
import shutil
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard


def work(rank, ranks, size, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks)
    mesh = init_device_mesh("cpu", (ranks,))
    rows = size // 4 // 1024 // 16 // ranks
    state = {f"t{i}": DTensor.from_local(torch.full((rows, 1024), float(i)), mesh, [Shard(0)]) for i in range(16)}
    best = [float("inf")] * 4
    for _ in range(3):
        times = []
        for what in ("save", "async", "load"):
            dist.barrier()
            start = time.perf_counter()
            if what == "save":
                dcp.save(state, checkpoint_id=f"{folder}/checkpoint")
            elif what == "async":
                future = dcp.async_save(state, checkpoint_id=f"{folder}/other")
                times.append(time.perf_counter() - start)
                future.result()
            else:
                dcp.load(state, checkpoint_id=f"{folder}/checkpoint")
            times.append(time.perf_counter() - start)
        slowest = torch.tensor(times, dtype=torch.float64)
        dist.all_reduce(slowest, dist.ReduceOp.MAX)
        best = [min(a, b) for a, b in zip(best, slowest.tolist())]
    if rank == 0:
        names = ("save", "pause of async_save", "async_save", "load")
        for name, seconds in zip(names, best):
            print(f"{name}: {seconds:.3f} s")
    dist.destroy_process_group()


if __name__ == "__main__":
    ranks = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    size = int(sys.argv[2]) if len(sys.argv) > 2 else 1 << 30
    folder = tempfile.mkdtemp()
    try:
        mp.spawn(work, (ranks, size, folder), nprocs=ranks)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)
