"""Writes ddp_traces.json: losses of PyTorch's DistributedDataParallel on two ranks with gloo.

    python crates/torsh-distributed/tests/data/ddp_traces.py
"""

import json
import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as powersgd
from torch.nn.parallel import DistributedDataParallel

INPUTS, HIDDEN, ROWS, STEPS = 8, 32, 6, 20
HERE = os.path.dirname(os.path.abspath(__file__))


class GlooSyncBatchNorm(nn.Module):
    """`nn.SyncBatchNorm` refuses tensors of the CPU; this is its definition with differentiable collectives."""

    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        import torch.distributed.nn.functional as functional

        sums = torch.cat([x.sum(0), (x * x).sum(0), torch.tensor([float(len(x))])])
        sums = functional.all_reduce(sums)
        n = sums[-1]
        mean, square = sums[:-1].view(2, -1) / n
        var = square - mean * mean
        return (x - mean) / torch.sqrt(var + 1e-5) * self.weight + self.bias


def model_of(name):
    torch.manual_seed(11)
    layers = [nn.Linear(INPUTS, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, 1)]
    if name == "syncbn":
        layers.insert(1, GlooSyncBatchNorm(HIDDEN))
    return nn.Sequential(*layers)


def data(rank):
    g = torch.Generator().manual_seed(100 + rank)
    x = torch.randn(ROWS, INPUTS, generator=g)
    return x, torch.sin(x.sum(1, keepdim=True))


def run(name, rank):
    model = model_of(name)
    ddp = DistributedDataParallel(model)
    if name == "powersgd":
        state = powersgd.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2)
        ddp.register_comm_hook(state, powersgd.powerSGD_hook)
    if name == "adamw":
        optimizer = torch.optim.AdamW(ddp.parameters(), lr=0.01)
    else:
        optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9)
    x, y = data(rank)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(ddp(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def worker(rank, out):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29611")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    traces = {}
    for name in ("sgd", "adamw", "powersgd", "syncbn"):
        losses = [None, None]
        dist.all_gather_object(losses, run(name, rank))
        weights = {n: p.detach().flatten().tolist() for n, p in model_of(name).named_parameters()}
        both = [data(0), data(1)]
        traces[name] = {
            "inputs": INPUTS,
            "hidden": HIDDEN,
            "rows": ROWS,
            "weights": weights,
            "x": [x.flatten().tolist() for x, _ in both],
            "y": [y.flatten().tolist() for _, y in both],
            "losses": losses,
        }
    if rank == 0:
        with open(out, "w") as f:
            json.dump(traces, f)
            f.write("\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "ddp_traces.json")
    mp.spawn(worker, args=(out,), nprocs=2)
