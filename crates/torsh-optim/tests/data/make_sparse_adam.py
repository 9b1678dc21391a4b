"""Runs PyTorch's SparseAdam in float32 and writes sparse_adam.json: python make_sparse_adam.py

The parameters, gradients and results are the bits of float32 numbers as hexadecimal texts, row after row. Square roots are
correctly rounded: those of MKL, which PyTorch takes where it is built with it, are off by a unit in the last place in a fifth
of all cases. All other operations are PyTorch's own. Indices come at most twice, so sums of duplicates have one value.
"""

import json
import os

import numpy
import torch

ROWS, WIDTH = 7, 3
RUNS = [
    {"lr": 0.1},
    {"lr": 0.003, "betas": [0.5, 0.75], "eps": 1e-3, "maximize": True},
]
# The rows that each step has a gradient of. Row 6 has none.
STEPS = [[4, 1, 4], [1, 0], [5, 5, 1, 0], [2, 4, 3, 2], [0, 1, 3, 0]]


def root(t):
    return t.copy_(torch.from_numpy(numpy.sqrt(t.numpy())))


def bits(t):
    return [f"{n & 0xFFFFFFFF:08x}" for n in t.detach().contiguous().reshape(-1).view(torch.int32).tolist()]


def run(config):
    w = torch.nn.Parameter(torch.randn(ROWS, WIDTH))
    out = {"config": config, "start": bits(w), "steps": []}
    optimizer = torch.optim.SparseAdam([w], **config)
    for rows in STEPS:
        values = torch.randn(len(rows), WIDTH)
        w.grad = torch.sparse_coo_tensor(torch.tensor([rows]), values, w.shape)
        optimizer.step()
        out["steps"].append({"rows": rows, "values": bits(values)})
    state = optimizer.state[w]
    out["end"] = {"param": bits(w), "exp_avg": bits(state["exp_avg"]), "exp_avg_sq": bits(state["exp_avg_sq"])}
    return out


torch.manual_seed(0)
torch.Tensor.sqrt_ = root
here = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(here, "sparse_adam.json"), "w") as f:
    json.dump([run(r) for r in RUNS], f, indent=None, separators=(",", ":"))
    f.write("\n")
