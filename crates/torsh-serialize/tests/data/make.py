"""Writes the files that the tests read, with PyTorch 2.15, NumPy 2 and safetensors:
python make.py [DIR], where DIR is this folder by itself.

pnet.pt is not made here; see pnet.LICENSE.md.
"""

from collections import OrderedDict
import os
import pathlib
import pickle
import sys

import numpy as np
import torch

os.chdir(sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__)))
DTYPES = [
    "float32", "float64", "float16", "bfloat16", "int8", "uint8", "int16", "int32", "int64",
    "bool", "complex64", "complex128",
]


def content():
    base = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    out = OrderedDict()
    for name in DTYPES:
        out[name] = torch.tensor([1, 0, 3]).to(getattr(torch, name))
    out["complex64"] = torch.tensor([1 + 2j, -3.5j])
    out["base"] = base
    out["transposed"] = base.t()
    out["slice"] = base[1:, ::2]
    out["expanded"] = torch.tensor([7.0]).expand(4)
    out["number"] = torch.tensor(2.5, dtype=torch.float64)
    out["empty"] = torch.zeros(0, 3)
    out["leaf"] = torch.tensor([1.5], requires_grad=True)
    out["parameter"] = torch.nn.Parameter(torch.tensor([[1.0, -1.0]]))
    out["frozen"] = torch.nn.Parameter(torch.tensor([4.0]), requires_grad=False)
    out["again"] = base
    out["plain"] = {
        "none": None, "yes": True, "int": -5, "large": 1 << 40, "big": -(1 << 100), "float": 0.1,
        "complex": 1 - 2j, "text": "grüße", "bytes": b"\x00\xff", "tuple": (1, (2, 3), ()),
        "list": [1, [2.0, "x"], {}], "size": torch.Size([2, 3]), "dtype": torch.bfloat16,
        "cuda": torch.device("cuda", 1), "cpu": torch.device("cpu"), "set": {42},
        3: "three", (1, "a"): "pair",
    }
    model = torch.nn.Linear(2, 1)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[0.5, -0.25]]))
        model.bias.fill_(0.125)
    adam = torch.optim.Adam(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(adam, 10)
    model(torch.ones(1, 2)).sum().backward()
    adam.step()
    scheduler.step()
    out["model"] = model.state_dict()
    out["optimizer"] = adam.state_dict()
    out["scheduler"] = scheduler.state_dict()
    return out


for name, zipped in [("zip.pt", True), ("legacy.pt", False)]:
    torch.save(content(), name, _use_new_zipfile_serialization=zipped)
torch.save(content()["plain"], "protocol4.pt", pickle_protocol=4)

torch.serialization.set_default_load_endianness(None)
small = OrderedDict(a=torch.tensor([1.0, -2.5]), b=torch.tensor([1 + 2j]), c=torch.tensor([258]))
torch.save(small, "little.pt")
reader = torch._C.PyTorchFileReader("little.pt")
with open("big.pt", "wb") as f:
    writer = torch._C.PyTorchFileWriter(f)
    for record in reader.get_all_records():
        if record in ("version", ".data/serialization_id", ".format_version", ".storage_alignment"):
            continue
        data = reader.get_record(record)
        if record == "byteorder":
            data = b"big"
        elif record.startswith("data/"):
            size = {"0": 4, "1": 4, "2": 8}[record[5:]]
            data = np.frombuffer(data, f"V{size}").view(f"u{size}").byteswap().tobytes()
        writer.write_record(record, data, len(data))
    writer.write_end_of_file()
del reader
os.remove("little.pt")

x = np.arange(6, dtype=np.float32).reshape(2, 3) / 2
arrays = {
    "c": x, "f": np.asfortranarray(x), "big": x.astype(">f4"), "half": x.astype("f2"),
    "double": x.astype("f8"), "bool": x > 1, "int8": -x.astype("i1"), "uint8": x.astype("u1"),
    "int16": x.astype(">i2"), "int32": x.astype("i4"), "int64": x.astype("i8"),
    "complex64": (x + 1j).astype("c8"), "complex128": (x - 1j).astype(">c16"),
    "number": np.float64(1.5), "empty": np.zeros((0, 2)),
}
np.savez("arrays.npz", **arrays)
np.savez_compressed("packed.npz", **arrays)
np.save("fortran.npy", arrays["f"])
np.save("structured.npy", np.zeros(2, dtype=[("a", "f4"), ("b", "i4")]))
np.save("objects.npy", np.array([{}], dtype=object))

# As the data set CIFAR is, with NumPy's arrays in a pickle by itself.
batch = {
    "data": np.arange(24, dtype="u1").reshape(2, 12), "labels": [6, 9], "label": b"batch 1",
    "means": np.array([[0.5, -1.5]], dtype=">f8").T, "one": np.float32(2.5), "names": ("a", "\u00fc"),
}
for protocol in [0, 2, 5]:
    with open(f"batch{protocol}.pkl", "wb") as f:
        pickle.dump(batch, f, protocol=protocol)
with open("records.pkl", "wb") as f:
    pickle.dump([pathlib.PurePosixPath("a", "b"), {"x": 1.5}], f, protocol=2)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(2, 3)
        self.words = ["a", "b"]
        self.table = {"x": 1}

    def forward(self, x):
        return self.fc(x)

net = Net()
with torch.no_grad():
    net.fc.weight.copy_(torch.arange(1.0, 7.0).reshape(3, 2))
torch.jit.save(torch.jit.script(net), "script.pt")

try:
    from safetensors.torch import save_file
except ImportError:
    print("safetensors is not there")
else:
    # The format has no complex128.
    tensors = {name: torch.tensor([1, 0, 3]).to(getattr(torch, name)) for name in DTYPES[:-1]}
    tensors["complex64"] = torch.tensor([1 + 2j, -3.5j])
    tensors["matrix"] = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    tensors["number"] = torch.tensor(2.5, dtype=torch.float64)
    tensors["empty"] = torch.zeros(0, 3)
    save_file(tensors, "arrays.safetensors", metadata={"by": "safetensors.torch"})
