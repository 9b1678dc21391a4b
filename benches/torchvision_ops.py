#!/usr/bin/env python3
"""torchvision's side of the vision workloads of torsh-bench: one JSON line for each, of the same names and keys.

    python torchvision_ops.py [--list] [--threads N] [--budget SECONDS] [NAME_PART ...]

Set up once:  python3 -m venv venv && venv/bin/pip install torch torchvision
"""
import argparse
import json
import statistics
import time

import torch
from torchvision import ops

parser = argparse.ArgumentParser()
parser.add_argument("only", nargs="*")
parser.add_argument("--list", action="store_true")
parser.add_argument("--threads", type=int, default=0)
parser.add_argument("--budget", type=float, default=0.35)
args = parser.parse_args()
if args.threads:
    torch.set_num_threads(args.threads)
torch.manual_seed(0)


def bench(name, make):
    """make() builds the inputs and returns the call to time."""
    if args.only and not any(part in name for part in args.only):
        return
    if args.list:
        print(name)
        return
    call = make()
    call()
    call()
    calls, rounds = 1, 7
    while True:
        start = time.perf_counter()
        for _ in range(calls):
            call()
        took = time.perf_counter() - start
        if took > args.budget / rounds:
            break
        calls = max(calls + 1, int(calls * min(10, args.budget / rounds / max(took, 1e-9) * 1.2)))
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        times.append((time.perf_counter() - start) / calls * 1e6)
    line = {"name": name, "us": round(statistics.median(times), 3), "min_us": round(min(times), 3), "flops": 0, "bytes": 0}
    print(json.dumps(line), flush=True)


def boxes(n):
    corner = torch.rand(n, 2) * 900
    return torch.cat([corner, corner + torch.rand(n, 2) * 95 + 5], 1)


def suppress():
    b, s = boxes(10_000), torch.rand(10_000)
    return lambda: ops.nms(b, s, 0.5)


def suppress_classes():
    b, s, c = boxes(10_000), torch.rand(10_000), (torch.rand(10_000) * 80).floor()
    return lambda: ops.batched_nms(b, s, c, 0.5)


def align(grad):
    x = torch.randn(1, 256, 125, 125, requires_grad=grad)
    b = torch.cat([torch.zeros(512, 1), boxes(512)], 1)

    def forward():
        return ops.roi_align(x, b, 7, 0.125, 2)

    return (lambda: torch.autograd.grad(forward().sum(), [x])) if grad else forward


def deform(grad):
    shapes = (2, 64, 56, 56), (64, 64, 3, 3), (2, 18, 56, 56)
    x, w, o = (torch.randn(s) for s in shapes)
    m = torch.rand(2, 9, 56, 56)
    leaves = [t.requires_grad_(grad) for t in (x, w * 0.1, o, m)]
    x, w, o, m = leaves

    def forward():
        return ops.deform_conv2d(x, o, w, padding=1, mask=m)

    return (lambda: torch.autograd.grad(forward().sum(), leaves)) if grad else forward


bench("nms_10000", suppress)
bench("batched_nms_10000x80", suppress_classes)
bench("roi_align_512x256x7x7", lambda: align(False))
bench("roi_align_grad_512x256x7x7", lambda: align(True))
bench("deform_conv2d_2x64x56x56", lambda: deform(False))
bench("deform_conv2d_grad_2x64x56x56", lambda: deform(True))
