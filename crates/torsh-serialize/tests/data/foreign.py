"""Writes the files with entries that tensors here lack, with PyTorch 2.15, NumPy 2 and safetensors:
python foreign.py [DIR], where DIR is this folder by itself.
"""

import argparse
import enum
import os
import pathlib
import sys
import warnings
import zipfile

import numpy as np
import torch
from safetensors.torch import save_file

os.chdir(sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__)))

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(2, 1, bias=False)
        with torch.no_grad():
            self.fc.weight.copy_(torch.tensor([[0.5, -2.0]]))


class Tags(dict):
    pass


class Color(enum.Enum):
    RED = 1


def foreign():
    unsigned = {
        "u16": torch.tensor([0, 1, 65535], dtype=torch.uint16),
        "u32": torch.tensor([0, 1, 4294967295], dtype=torch.uint32),
        "u64": torch.tensor([0, 1, (1 << 63) - 1], dtype=torch.uint64),
    }
    over = torch.tensor([5, 1 << 63], dtype=torch.uint64)
    f8 = torch.tensor([[1.0, 2.0, 4.0]]).to(torch.float8_e4m3fn)
    return unsigned, over, f8


unsigned, over, f8 = foreign()
scale = torch.tensor([0.5, 1.5])
square = unsigned["u16"].reshape(3, 1).expand(3, 2)
tags = Tags(a=1)
objects = {
    "state_dict": {**unsigned, "square": square, "tail": unsigned["u16"][1:], "scale": scale},
    "f8": f8, "over": over, "quantized": torch.quantize_per_tensor(scale, 0.5, 0, torch.qint8),
    "sparse": torch.eye(2).to_sparse(), "parameter": torch.nn.Parameter(f8, requires_grad=False),
    "args": argparse.Namespace(lr=0.1, start=torch.tensor([3.0])), "function": foreign, "color": Color.RED,
    "path": pathlib.PurePosixPath("a/b"), "tags": tags, "net": Net(), "epoch": 3,
    "words": np.array(["a", "b"]), "counts": np.array([1, 65535], dtype=np.uint16),
}
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch.save(objects, "foreign.pt")
    torch.save(objects, "foreign_legacy.pt", _use_new_zipfile_serialization=False)
np.savez(
    "foreign.npz", scale=scale.numpy(), u16=unsigned["u16"].numpy(), u32=unsigned["u32"].numpy().astype(">u4"),
    u64=unsigned["u64"].numpy(), over=over.numpy(), big=np.array([1.5, -2.0], dtype=">f8"),
    words=np.array(["a", "b"]), days=np.array(["2020-01-01"], dtype="M8[D]"),
    objects=np.array([{}, None], dtype=object), fields=np.zeros((2, 3), dtype=[("a", "<f4"), ("b", "<i4", (2,))]),
)
with zipfile.ZipFile("foreign.npz", "a") as archive:
    archive.writestr("notes.txt", "about the arrays")
    with archive.open("scale.npy") as member:
        content_of_scale = member.read()
    archive.writestr("bz2.npy", content_of_scale, zipfile.ZIP_BZIP2)
tensors = {
    **unsigned, "over": over, "f8": f8, "e5m2": f8.to(torch.float8_e5m2), "scale": scale,
    "e8m0": torch.tensor([1.0, 2.0]).to(torch.float8_e8m0fnu),
    "f4": torch.zeros(2, 3, dtype=torch.uint8).view(torch.float4_e2m1fn_x2),
}
save_file(tensors, "foreign.safetensors", {"format": "pt", "by": "torch"})
