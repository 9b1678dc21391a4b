#!/usr/bin/env python3
"""PyTorch's side of the checkpoint workloads of `torsh-bench --ranks N`: one JSON line for each, of the same names and keys.

    python torch_checkpoint.py [--ranks 2] [--best] [--rounds 4] [NAME_PART ...]

It starts its own ranks on this machine (one thread each, gloo). `torch.distributed.checkpoint` saves 64 float32 tensors of
16 MiB, 1 GiB in all, each sharded over the ranks along its first dimension, into a folder of the system's temporary folder.
`ckpt_1gb_{ranks}p` is a save; `ckpt_pause_1gb_{ranks}p` how long `async_save` keeps the caller waiting.

Set up once:  python3 -m venv venv && venv/bin/pip install torch
"""
import argparse
import json
import os
import shutil
import statistics
import tempfile
import time

parser = argparse.ArgumentParser()
parser.add_argument("only", nargs="*")
parser.add_argument("--list", action="store_true")
parser.add_argument("--ranks", type=int, default=2)
parser.add_argument("--rounds", type=int, default=4)
parser.add_argument("--budget", type=float, default=0.0, help="not used: a save takes its time")
parser.add_argument("--best", action="store_true")
args = parser.parse_args()

NAMES = [f"ckpt_1gb_{args.ranks}p", f"ckpt_pause_1gb_{args.ranks}p"]
NAMES = [n for n in NAMES if not args.only or any(o in n for o in args.only)]


def rank_main(rank, port, folder):
    os.environ.update(
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
        RANK=str(rank),
        WORLD_SIZE=str(args.ranks),
        OMP_NUM_THREADS="1",
    )
    import warnings

    warnings.filterwarnings("ignore")
    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (args.ranks,))
    torch.manual_seed(0)
    state = {
        f"layer{i}.weight": distribute_tensor(torch.randn(4096, 1024), mesh, [Shard(0)])
        for i in range(64)
    }
    for name in NAMES:
        pause = "pause" in name
        times = []
        for i in range(args.rounds + 1):
            path = os.path.join(folder, f"{name}_{i}")
            dist.barrier()
            start = time.perf_counter()
            if pause:
                saving = dcp.async_save(state, checkpoint_id=path)
                seconds = time.perf_counter() - start
                saving.result()
            else:
                dcp.save(state, checkpoint_id=path)
                seconds = time.perf_counter() - start
            slowest = torch.tensor([seconds])
            dist.all_reduce(slowest, dist.ReduceOp.MAX)
            if i > 0:  # the first one warms up
                times.append(slowest.item() * 1e6)
            dist.barrier()
            if rank == 0:
                shutil.rmtree(path)
        if rank == 0:
            best, median = min(times), statistics.median(times)
            print(
                json.dumps(
                    {
                        "name": name,
                        "us": best if args.best else median,
                        "min_us": best,
                        "flops": 0,
                        "bytes": 1 << 30,
                        "ranks": args.ranks,
                    }
                ),
                flush=True,
            )
    dist.destroy_process_group()


if __name__ == "__main__":
    if args.list:
        print("\n".join(NAMES))
        raise SystemExit
    import multiprocessing
    import socket

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        context = multiprocessing.get_context("spawn")
        ranks = [context.Process(target=rank_main, args=(r, port, folder)) for r in range(args.ranks)]
        for p in ranks:
            p.start()
        for p in ranks:
            p.join()
        raise SystemExit(any(p.exitcode for p in ranks))
