"""Writes random.txt: draws of PyTorch on the CPU (run with PyTorch 2.15, x86-64 with AVX2).

A line is `op dtype seed n a b form data`: form `v` gives the values' bits in hexadecimal, `h` the
64-bit FNV-1a hash of the values' little-endian bytes.
"""

import os

import torch

LETTER = {torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16",
          torch.int64: "i64", torch.uint8: "u8"}
BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
lines = []


def fnv(data):
    h = 0xCBF29CE484222325
    for byte in data:
        h = ((h ^ byte) * 0x100000001B3) & (2**64 - 1)
    return h


def put(op, seed, n, a, b, t, form=None):
    t = t.contiguous().flatten()
    size = t.element_size()
    bits = t.view(BITS[size])
    if form == "v" or (form is None and n <= 17):
        data = "v " + " ".join(format(v % 256**size, "x") for v in bits.tolist())
    else:
        data = f"h {fnv(bits.numpy().tobytes()):x}"
    lines.append(f"{op} {LETTER[t.dtype]} {seed} {n} {a!r} {b!r} {data}")


def draw(op, seed, n, a, b, dtype, f, form=None):
    torch.manual_seed(seed)
    put(op, seed, n, a, b, f(torch.empty(n, dtype=dtype)), form)


floats = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
sizes = [1, 5, 15, 16, 17, 31, 100, 625, 1000, 5001]
for seed in [0, 42, 2**40 + 7]:
    for n in sizes:
        for dtype in floats:
            for a, b in [(0.0, 1.0), (-2.0, 3.3)]:
                draw("uniform", seed, n, a, b, dtype, lambda t: t.uniform_(a, b))
                if n > 17 and seed:
                    continue
                # Double precision goes by the platform's sin and log, hence values to compare.
                form = "v" if n < 32 or dtype == torch.float64 else "h"
                if n <= 100 or dtype != torch.float64:
                    draw("normal", seed, n, a, b + 1, dtype, lambda t: t.normal_(a, b + 1), form)
        for low, high in [(3, 17), (-5, 2**28 - 6), (0, 2**28), (-(2**62), 2**62), (0, 2**33)]:
            draw("randint", seed, n, low, high, torch.int64, lambda t: t.random_(low, high))
        draw("random", seed, n, 0, 0, torch.int64, lambda t: t.random_())
        draw("random_full", seed, n, 0, 0, torch.int64, lambda t: t.random_(-(2**63), None))
        draw("randperm", seed, n, 0, 0, torch.int64, lambda t: torch.randperm(n))
        for p in [0.3, 0.5, 1.0]:
            draw("bernoulli", seed, n, p, 0, torch.uint8, lambda t: t.bernoulli_(p))
        draw("dropout", seed, n, 0.4, 0, torch.float32,
             lambda t: (torch.nn.functional.dropout(t.fill_(1), 0.4, True) != 0).byte())
        ramp = torch.arange(n) / n
        draw("bernoulli_probs", seed, n, 0, 0, torch.float32,
             lambda t: torch.bernoulli(ramp).byte())
        draw("bernoulli_probs64", seed, n, 0, 0, torch.float32,
             lambda t: torch.bernoulli(ramp.double()).byte())
        for dtype in [torch.float32, torch.float64]:
            weights = torch.arange(1, 1001, dtype=dtype).sqrt().reshape(2, 500)
            if n > 1:
                draw("multinomial" + LETTER[dtype], seed, n, 0, 0, dtype,
                     lambda t: torch.multinomial(weights, n, replacement=True))
random_types = [(torch.bool, 2, 0), (torch.uint8, 2**8, 0), (torch.int8, 2**7, 0),
                (torch.int16, 2**15, 0), (torch.int32, 2**31, 0), (torch.float16, 2**11 + 1, 0),
                (torch.bfloat16, 2**8 + 1, 0), (torch.float32, 2**24 + 1, 0),
                (torch.float64, 2**53 + 1, 1)]
for dtype, modulus, wide in random_types:
    draw("random_modulus", 3, 1000, modulus, wide, dtype, lambda t: t.random_().to(torch.int64))
for n in [7, 40]:
    for dtype in floats:
        draw("exponential", 1, n, 1.5, 0.0, dtype, lambda t: t.exponential_(1.5), "v")
        draw("cauchy", 1, n, 0.5, 2.0, dtype, lambda t: t.cauchy_(0.5, 2.0), "v")
        draw("log_normal", 1, n, 0.5, 0.7, dtype, lambda t: t.log_normal_(0.5, 0.7), "v")
        draw("geometric", 1, n, 0.2, 0.0, dtype, lambda t: t.geometric_(0.2), "v")
    draw("geometric", 1, n, 0.2, 0.0, torch.int64, lambda t: t.geometric_(0.2), "v")
draw("normal_strided", 5, 20, 1.0, 2.0, torch.float32,
     lambda t: torch.empty(20, 2)[:, 0].normal_(1.0, 2.0), "v")

torch.manual_seed(0)
linear = torch.nn.Linear(7, 5)
put("linear", 0, 40, 7.0, 0.0, torch.cat([linear.weight.detach().flatten(), linear.bias.detach()]))

# Calls in sequence from one seed, with the state between.
torch.manual_seed(2**63 + 11)
put("state", 2**63 + 11, 0, 0, 0, torch.get_rng_state(), "h")
for step, f in enumerate([
    lambda: torch.rand(3), lambda: torch.randn(3), lambda: torch.randn(20, dtype=torch.float64),
    lambda: torch.rand(1, dtype=torch.float64), lambda: torch.randn(1),
    lambda: torch.randint(0, 10, (5,)), lambda: torch.randn(33, dtype=torch.bfloat16),
    lambda: torch.rand(1301), lambda: torch.rand(700, dtype=torch.float64),
    lambda: torch.randperm(10), lambda: torch.empty(2).log_normal_(),
]):
    t = f()
    form = "v" if step in (1, 2, 4, 10) else None
    put(f"step{step}", 2**63 + 11, t.numel(), 0, 0, t, form)
    put("state", 2**63 + 11, step + 1, 0, 0, torch.get_rng_state(), "h")

path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "random.txt")
with open(path, "w") as file:
    file.write("\n".join(lines) + "\n")
