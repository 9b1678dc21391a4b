"""Runs PyTorch's optimizers on COO gradients and writes sparse.json: python make_sparse.py

Each run has parameters, gradients as lists of (indices, values) of each step, and what the parameters and tensors of
the state are afterwards, all as exact numbers. Indices come at most twice, so sums of duplicates have one value.
"""

import json
import os

import torch

torch.manual_seed(0)
RUNS = [
    ("SparseAdam", {"lr": 0.1}, "float32"),
    ("SparseAdam", {"lr": 0.01, "betas": [0.5, 0.75], "eps": 1e-3, "maximize": True}, "float32"),
    ("SparseAdam", {"lr": 0.1}, "float64"),
    ("SGD", {"lr": 0.1}, "float32"),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.25}, "float64"),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True}, "float64"),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1}, "float64"),
    ("Adagrad", {"lr": 0.1, "initial_accumulator_value": 0.5, "maximize": True}, "float32"),
]
STEPS = [
    # Of a table of 6 rows, and of the elements of a matrix of 3 x 4.
    ([[4, 1]], [[0, 2], [3, 3]]),
    ([[1, 0, 1]], [[2, 0, 2], [3, 1, 3]]),
    ([[]], [[1], [1]]),
    ([[5, 4, 0, 5]], [[0, 0, 1], [0, 3, 1]]),
]


def numbers(t):
    return t.detach().reshape(-1).tolist()


def run(name, config, dtype):
    dtype = getattr(torch, dtype)
    shapes = [(6, 3), (3, 4)]
    params = [torch.nn.Parameter(torch.randn(s, dtype=dtype)) for s in shapes]
    out = {"optimizer": name, "config": config, "dtype": str(dtype)[6:], "start": [numbers(p) for p in params]}
    optimizer = getattr(torch.optim, name)(params, **config)
    steps = []
    for indices in STEPS:
        grads = []
        for p, own in zip(params, indices):
            own = torch.tensor(own, dtype=torch.int64)
            values = torch.randn(own.shape[1], *p.shape[own.shape[0] :], dtype=dtype)
            p.grad = torch.sparse_coo_tensor(own, values, p.shape)
            grads.append({"indices": own.reshape(-1).tolist(), "values": numbers(values)})
        optimizer.step()
        steps.append(grads)
    out["steps"] = steps
    out["params"] = [numbers(p) for p in params]
    out["state"] = [
        {k: numbers(v.to_dense() if v.is_sparse else v) for k, v in optimizer.state[p].items() if torch.is_tensor(v) and v.dim()}
        for p in params
    ]
    return out


here = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(here, "sparse.json"), "w") as f:
    json.dump([run(*r) for r in RUNS], f, indent=None, separators=(",", ":"))
    f.write("\n")
