"""Writes the fixtures of tests/printing.rs: tensors with their values inlined and what PyTorch
prints for them. Made with PyTorch 2.15 on the CPU:

    python printing.py                    # printing_torch.json, from the cases below
    python printing.py GOLDEN_DIR         # also printing.json, from GOLDEN_DIR/printing.json
                                          # and GOLDEN_DIR/printing.safetensors
    python printing.py --random SEED N    # N random cases on stdout, for a wider check

A tensor that is summarised stores only the elements that PyTorch looks at (key `values`, as
many as are shown) unless it is `torch.arange`, stored as its length (key `arange`).
"""

import json
import math
import os
import random
import sys

import torch
from torch._tensor_str import PRINT_OPTS, get_summarized_data

HERE = os.path.dirname(os.path.abspath(__file__))


def plain(v):
    if isinstance(v, complex):
        return [plain(v.real), plain(v.imag)]
    if isinstance(v, float) and not math.isfinite(v):
        return str(v)
    return v


def case(t, options=None, arange=None, default_dtype=None, default_device=None):
    out = {"shape": list(t.shape), "dtype": str(t.dtype).removeprefix("torch.")}
    torch.set_printoptions(profile="default", **(options or {}))
    if default_dtype is not None:
        torch.set_default_dtype(default_dtype)
        out["default_dtype"] = str(default_dtype).removeprefix("torch.")
    get_default_device = torch._C._get_default_device
    if default_device is not None:
        torch._C._get_default_device = lambda: default_device
        out["device"] = str(t.device)
    try:
        printed = repr(t)
        if t.is_meta:
            out["meta"] = True
            out["device"] = "meta"
        elif arange is not None:
            out["arange"] = arange
        else:
            data = t.detach()
            if data.numel() > PRINT_OPTS.threshold and PRINT_OPTS.edgeitems:
                data = get_summarized_data(data)
            if data.dtype == torch.complex32:
                data = data.to(torch.complex64)
            out["values"] = [plain(v) for v in data.flatten().tolist()]
    finally:
        torch._C._get_default_device = get_default_device
        torch.set_default_dtype(torch.float32)
        torch.set_printoptions(profile="default")
    if options:
        options = dict(options)
        if options.get("threshold") == math.inf:
            options["threshold"] = None
        out["options"] = options
    if t.requires_grad and t.grad_fn is None:
        out["requires_grad"] = True
    if t.grad_fn is not None:
        out["requires_grad"] = True
        out["grad_fn"] = type(t.grad_fn).__name__
    out["printed"] = printed
    return out


def write(name, cases):
    with open(os.path.join(HERE, name), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
    print(name, len(cases))


def golden(folder):
    # The format: the header's length in 8 bytes, a JSON header, the data.
    with open(os.path.join(folder, "printing.safetensors"), "rb") as f:
        header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        data = f.read()
    dtypes = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16,
              "BF16": torch.bfloat16, "I64": torch.int64, "I32": torch.int32, "U8": torch.uint8,
              "BOOL": torch.bool}
    tensors = {}
    for name, h in header.items():
        if name != "__metadata__":
            start, end = h["data_offsets"]
            raw = torch.tensor(list(data[start:end]), dtype=torch.uint8)
            tensors[name] = raw.view(dtypes[h["dtype"]]).reshape(h["shape"])
    with open(os.path.join(folder, "printing.json")) as f:
        entries = json.load(f)
    cases = []
    for e in entries:
        t = tensors[e["value"]["tensor"]]
        if e["value"]["dtype"].startswith("complex"):
            t = torch.view_as_complex(t)  # stored as pairs
        assert list(t.shape) == e["value"]["shape"], e
        if e.get("requires_grad") or "expression" in e:
            t = t.requires_grad_()
        if "expression" in e:
            # The stored tensor is the leaf.
            assert e["expression"].startswith("requires_grad leaf times 2"), e
            t = t * 2
        c = case(t)
        assert c["dtype"] == e["value"]["dtype"], e
        c["printed"] = e["printed"]
        cases.append(c)
    write("printing.json", cases)


def fixed():
    g = torch.Generator().manual_seed(0)
    inf, nan = math.inf, math.nan
    T = torch.tensor

    def randn(*shape):
        return torch.randn(*shape, generator=g)

    def randint(low, high, *shape):
        return torch.randint(low, high, shape, generator=g)

    # Every dtype: scalar, vector, matrix.
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8,
                  torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool,
                  torch.complex64, torch.complex128):
        yield case(T(3.25).to(dtype))
        yield case(T([0.0, 1.5, 2.75, 100.0]).to(dtype))
        yield case(randn(2, 3).mul(3).abs().to(dtype))
        yield case(torch.empty(0, dtype=dtype))
        yield case(torch.empty(2, 0, 3, dtype=dtype))
    yield case(T([1.5, -2.0, 448.0]).to(torch.float8_e4m3fn))
    yield case(T([1.5, -2.0, 57344.0]).to(torch.float8_e5m2))
    yield case(T([1 + 2j, -0.5 - 3.25j]).to(torch.complex32))
    # Scalars.
    for v in (0.0, -0.0, 1.0, -1.0, 0.1, 1e-4, 9.9e-5, 1e8, 1.1e8, 123456789.0, 1e-45, 3e38,
              inf, -inf, nan, 0, -7, 2**62, -(2**63), True, False, 1j, -0.0 - 0.0j,
              complex(nan, -inf), complex(-inf, nan), 1.25 - 1e-7j):
        yield case(T(v))
    # Float notation: whole, fixed, scientific, and their borders.
    for v in ([1.0, -2.0, 300.0], [0.0, 0.0], [0.0, -0.0, nan], [inf, -inf], [-inf, 1.5],
              [nan, 1e10], [1.0, 1000.0], [1.0, 1001.0], [0.5, 500.0], [0.5, 500.5],
              [1e-4, 1e-3], [1.0001e-4, 1e-3], [1e8, 1e8], [1e8, 1.00000008e8], [1.5, nan, -inf],
              [0.00005, 0.00015], [0.03125, 0.15625, 2.00390625], [99999.99999, 1000.5],
              [-1e-5, 1.0], [1e-40, 1.0], [12345.678, -98765.43], [0.1, 0.2, 0.30000001],
              [1e-7, inf, nan, 0.0, -0.0]):
        yield case(T(v))
        yield case(T(v, dtype=torch.float64))
    yield case(T([1e300, 1e-300], dtype=torch.float64))
    yield case(T([1e-4, 1.0], dtype=torch.float16))
    yield case(T([60000.0, 0.5], dtype=torch.float16))
    yield case(T([6e-8, 1e-4], dtype=torch.float16))
    yield case(T([0.1, 3.14159, 1e3], dtype=torch.bfloat16))
    # Integers and booleans.
    yield case(T([[1, -1000], [20, 3]]))
    yield case(T([-128, 127], dtype=torch.int8))
    yield case(T([2**63 - 1, -(2**63)]))
    yield case(T([[True, True], [True, True]]))
    yield case(T([[True, False], [False, True]]))
    # Complex.
    yield case(T([1 + 2j, -3.5 + 0.25j, -1j, 0j]))
    yield case(T([[1e-6 + 1j, 100 + 1e6j], [nan + 1j, complex(1, -inf)]]))
    yield case(torch.complex(randn(4, 5), randn(4, 5)))
    yield case(torch.complex(randn(40, 50).double(), randn(40, 50).double()))
    yield case(T([complex(0.0, -0.0), complex(-0.0, 0.0)]))
    # Ranks and lines.
    yield case(torch.ones(1, 1, 1, 1))
    yield case(randn(2, 2, 2, 2))
    yield case(randint(-9, 9, 1, 2, 1, 2, 1))
    yield case(randn(30))
    yield case(randn(2, 12))
    yield case(randn(2, 2, 11).double())
    yield case(randint(0, 100000, 40))
    yield case(randint(0, 2, 3, 20).bool())
    yield case(torch.arange(25.0))
    # Sizes of tensors without elements.
    for shape in ((0,), (0, 0), (3, 0), (1, 0, 5)):
        yield case(torch.empty(shape))
        yield case(torch.empty(shape, dtype=torch.int64))
        yield case(torch.empty(shape, requires_grad=True))
    # Summaries.
    yield case(torch.arange(1000), arange=1000)
    yield case(torch.arange(1001), arange=1001)
    yield case(torch.arange(1001.0), arange=1001)
    yield case(torch.arange(1_000_000, dtype=torch.int32), arange=1_000_000)
    yield case(torch.arange(10_000).reshape(100, 100), arange=10_000)
    yield case(torch.arange(10_000.0).reshape(100, 100), arange=10_000)
    yield case(torch.arange(8000).reshape(20, 20, 20), arange=8000)
    yield case(torch.arange(2400.0).reshape(2, 3, 400), arange=2400)
    yield case(torch.arange(2400).reshape(400, 3, 2), arange=2400)
    yield case(torch.arange(4096, dtype=torch.float64).reshape(8, 8, 8, 8), arange=4096)
    yield case(torch.arange(1200).reshape(1200, 1), arange=1200)
    yield case(torch.arange(1200).reshape(1, 1200), arange=1200)
    yield case(randn(5000))
    yield case(randn(33, 34).requires_grad_())
    yield case(randn(10, 11, 12))
    yield case(randn(2000).gt(0))
    hidden = torch.ones(2000)
    hidden[1000] = 1e-9
    yield case(hidden)
    # Autograd and devices.
    x = T([1.0, 2.0], requires_grad=True)
    m = randn(7, 9).requires_grad_()
    for t in (x, x * 2, x + 1, x.sum(), x.exp(), m, m.t(), m @ m.t(), m.relu(), m.double(),
              m.softmax(1), randn(3, 10).requires_grad_(), x.to(torch.float16),
              x.double().requires_grad_(), randn(0, 4).requires_grad_() * 2,
              torch.nn.functional.cross_entropy(m, torch.zeros(7, dtype=torch.int64))):
        yield case(t)
    for shape in ((), (3,), (2, 3)):
        yield case(torch.empty(shape, device="meta"))
        yield case(torch.empty(shape, device="meta", dtype=torch.int64))
        yield case(torch.empty(shape, device="meta", requires_grad=True))
    # No other device at hand: let the default be another than the CPU.
    for t in (x, m * 2, T([1, 2]), torch.empty(0, 3).double(), T(1.5).half()):
        yield case(t, default_device="cuda")
    # Another default dtype.
    for dtype in (torch.float64, torch.float16, torch.bfloat16):
        for t in (x, x.double(), x.half(), T([1, 2]), T([1j]), T([1j], dtype=torch.complex128),
                  torch.empty(0), torch.empty(0, 2).double(), torch.empty(1, device="meta")):
            yield case(t.detach(), default_dtype=dtype)
    # Options.
    values = T([[1.23456789, -200.0, 0.5], [3.0, 1e-3, 77.7]])
    wide = randn(2, 15)
    for options in ({"precision": 2}, {"precision": 0}, {"precision": 10}, {"sci_mode": True},
                    {"sci_mode": False}, {"sci_mode": True, "precision": 0},
                    {"linewidth": 40}, {"linewidth": 1}, {"linewidth": 200},
                    {"threshold": 5}, {"threshold": 0}, {"threshold": math.inf},
                    {"threshold": 5, "edgeitems": 1}, {"threshold": 5, "edgeitems": 0},
                    {"edgeitems": 0}, {"threshold": 20, "edgeitems": 2, "precision": 3},
                    {"threshold": 29, "linewidth": 30},
                    {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80}):
        for t in (values, wide, T(2.5), T([1e10, 1.0]), T([0.0, nan]), T([1 + 2.5j, 1e-9j]),
                  randint(-50, 50, 4, 3, 2), torch.arange(7), x * 3):
            yield case(t, options)
    yield case(T([1e30, -123.0]), {"sci_mode": False})
    yield case(T([1e-30, 0.5]), {"sci_mode": False})
    yield case(torch.arange(50), {"threshold": 10, "edgeitems": 0}, arange=50)
    yield case(torch.arange(3000), {"threshold": math.inf}, arange=3000)


def chance(seed, count):
    torch.manual_seed(seed)
    r = random.Random(seed)
    for _ in range(count):
        shape = [r.choice([0, 1, 2, 3, 5, 7, 8, 13] if r.random() < 0.2 else [1, 2, 3, 5, 7, 8, 13])
                 for _ in range(r.choice([0, 1, 1, 2, 2, 3, 4]))]
        dtype = r.choice([torch.float32] * 4 + [torch.float64, torch.float16, torch.bfloat16,
                          torch.int32, torch.int64, torch.bool, torch.complex64,
                          torch.complex128])
        t = torch.randn(shape, dtype=torch.complex128 if dtype.is_complex else torch.float64)
        kind = r.random()
        if kind < 0.25:
            t = t * 10 ** r.uniform(-6, 9)
        elif kind < 0.4 and not dtype.is_complex:
            t = (t * 10 ** r.uniform(0, 6)).round()
        elif kind < 0.55 and not dtype.is_complex:
            # Ties of the rounding to `precision` digits.
            t = (t * 64).round() / 2 ** r.randint(0, 9)
        elif kind < 0.65 and not dtype.is_complex:
            t = t.exp().exp()
        t = t.clamp(-1e9, 1e9).to(dtype) if dtype in (torch.int32, torch.int64) else t.to(dtype)
        if not t.dtype.is_complex and t.dtype.is_floating_point and t.numel() and r.random() < 0.3:
            flat = t.flatten()
            for v in (math.nan, math.inf, -math.inf, 0.0, -0.0):
                if r.random() < 0.5:
                    flat[r.randrange(flat.numel())] = v
            t = flat.reshape(shape)
        if (t.is_floating_point() or t.is_complex()) and r.random() < 0.3:
            t.requires_grad_()
            if r.random() < 0.5:
                t = t * 2
        options = {}
        if r.random() < 0.3:
            options["precision"] = r.randint(0, 9)
        if r.random() < 0.5:
            options["threshold"] = r.choice([0, 5, 20, 100])
        if r.random() < 0.3:
            options["edgeitems"] = r.randint(1, 4)
        if r.random() < 0.3:
            options["linewidth"] = r.randint(1, 130)
        if r.random() < 0.3:
            options["sci_mode"] = r.choice([True, False])
        yield case(t, options)


def main():
    args = sys.argv[1:]
    if args[:1] == ["--random"]:
        print(json.dumps(list(chance(int(args[1]), int(args[2])))))
        return
    write("printing_torch.json", list(fixed()))
    if args:
        golden(args[0])


if __name__ == "__main__":
    main()
