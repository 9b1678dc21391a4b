"""Writes `dcp/`, a checkpoint of torch.distributed.checkpoint by two ranks: python dcp.py.

Values are such that the test can make them again.
"""

import os
import pathlib
import shutil

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

OUT = pathlib.Path(__file__).parent / "dcp"


def values(*shape, dtype=torch.float32):
    n = 1
    for s in shape:
        n *= s
    return (torch.arange(n).reshape(shape) * 0.5 - 3).to(dtype)


def write(rank, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    state = {
        "model": {
            # Uneven: 3 rows and 2.
            "weight": distribute_tensor(values(5, 4), mesh, [Shard(0)]),
            "across": distribute_tensor(values(3, 4, dtype=torch.float64), mesh, [Shard(1)]),
            "bias": distribute_tensor(values(5, dtype=torch.bfloat16), mesh, [Replicate()]),
            "counter": torch.tensor(7),
        },
        "optimizer": {
            "state": {
                "weight": {
                    "step": torch.tensor(3.0),
                    "exp_avg": distribute_tensor(-values(5, 4), mesh, [Shard(0)]),
                    "exp_avg_sq": distribute_tensor(values(5, 4) ** 2, mesh, [Shard(0)]),
                }
            },
            "param_groups": [{"lr": 0.125, "betas": (0.9, 0.999), "params": ["weight"]}],
        },
        "epoch": 4,
        "name": "two ranks",
    }
    # A path without the folders of this machine, as it is written into the file.
    os.chdir(OUT.parent)
    dcp.save(state, checkpoint_id=OUT.name)
    dist.destroy_process_group()


if __name__ == "__main__":
    shutil.rmtree(OUT, ignore_errors=True)
    store = OUT.with_suffix(".store")
    store.unlink(missing_ok=True)
    mp.spawn(write, (store,), nprocs=2)
    store.unlink(missing_ok=True)
