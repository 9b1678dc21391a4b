"""Opens the files that the tests write, with PyTorch and NumPy: python check.py DIR

The committed ones are in `written`. Prints ok, or fails where a value is not what was written.
"""

import os
import sys

import numpy as np
import torch

os.chdir(sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "written"))

for mmap in (False, True):
    d = torch.load("ours.pt", weights_only=True, mmap=mmap)
    assert list(d) == [
        "float32", "float64", "float16", "bfloat16", "int8", "uint8", "int16", "int32", "int64",
        "bool", "complex64", "complex128", "transposed", "slice", "empty", "leaf", "parameter",
        "plain",
    ], list(d)
    for name in list(d)[:12]:
        t = d[name]
        assert t.dtype == getattr(torch, name) and t.shape == (2, 3), (name, t)
        assert torch.equal(t, torch.tensor([[1, 0, 2], [3, 4, 5]]).to(t.dtype)), (name, t)
    assert d["transposed"].stride() == (1, 3) and torch.equal(d["transposed"], d["float32"].t())
    assert d["slice"].storage_offset() == 1 and d["slice"].stride() == (3, 1)
    d["float32"].mul_(2)
    assert d["transposed"][0, 1] == 6 and d["slice"][1, 0] == 8
    assert d["empty"].shape == (0, 3)
    assert d["leaf"].requires_grad and not isinstance(d["leaf"], torch.nn.Parameter)
    assert isinstance(d["parameter"], torch.nn.Parameter) and d["parameter"].requires_grad
    assert d["plain"] == {
        "none": None, "yes": True, "ints": [0, 255, 65535, -1, 1 << 31, -(1 << 63)],
        "big": 1 << 100, "float": 0.1, "complex": 1 - 2j, "text": "grüße", "bytes": b"\x00\xff",
        "tuple": (1, (), "x"), "set": {1, 2}, "size": torch.Size([2, 3]),
        "dtype": torch.bfloat16, "device": torch.device("cuda:1"), 3: "three",
    }, d["plain"]
    assert isinstance(d["plain"]["size"], torch.Size)

z = np.load("ours.npz")
for name in z.files:
    assert z[name].dtype == np.dtype(name), name
    assert np.array_equal(z[name], np.array([[1, 0, 2], [3, 4, 5]]).astype(name)), name
assert len(z.files) == 11
assert np.array_equal(np.load("ours.npy"), [[1, 3], [0, 4], [2, 5]])
try:
    from safetensors import safe_open
    from safetensors.torch import load_file
except ImportError:
    print("safetensors is not there")
else:
    s = load_file("ours.safetensors")
    assert len(s) == 12, list(s)
    for name in set(s) - {"transposed"}:
        assert s[name].dtype == getattr(torch, name), (name, s[name])
        assert torch.equal(s[name], torch.tensor([[1, 0, 2], [3, 4, 5]]).to(s[name].dtype)), name
    assert torch.equal(s["transposed"], torch.tensor([[1.0, 3], [0, 4], [2, 5]]))
    with safe_open("ours.safetensors", "pt") as f:
        assert f.metadata() == {"format": "pt"}, f.metadata()
print("ok")
