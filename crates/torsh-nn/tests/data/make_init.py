"""Writes init.safetensors: PyTorch's starting weights under manual_seed(7), and its state dict;
and forward.safetensors: what some of its layers give.

Needs torch and safetensors. The order of construction is that of tests/layers.rs.
"""
import os
import torch
from torch import nn

try:
    from safetensors.torch import save_file
except ImportError:  # numpy's writer makes the same file
    save_file = None

torch.manual_seed(7)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 6, (3, 2), groups=2)
        self.norm = nn.BatchNorm2d(6)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 3)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.table = nn.Embedding(7, 4, padding_idx=2)
        self.head = nn.Sequential(nn.Linear(20, 30, bias=False), nn.ReLU(), nn.Linear(2, 4))
        self.wide = nn.Linear(3, 2, dtype=torch.float64)
        self.norm1 = nn.BatchNorm1d(2, affine=False)


net = Net()
state = {k: v.clone() for k, v in net.state_dict().items()}
t = torch.empty(3, 4)
for name, f in [
    ("xavier_uniform_", lambda: nn.init.xavier_uniform_(t, gain=1.5)),
    ("xavier_normal_", lambda: nn.init.xavier_normal_(t)),
    ("kaiming_uniform_", lambda: nn.init.kaiming_uniform_(t)),
    ("kaiming_normal_", lambda: nn.init.kaiming_normal_(t, mode="fan_out", nonlinearity="relu")),
    ("uniform_", lambda: nn.init.uniform_(t, -2.0, 3.0)),
    ("normal_", lambda: nn.init.normal_(t, 1.0, 0.5)),
]:
    state["init." + name] = f().clone()
here = os.path.dirname(os.path.abspath(__file__))
open(os.path.join(here, "init.names"), "w").write("\n".join(net.state_dict().keys()) + "\n")
open(os.path.join(here, "init.repr"), "w").write(repr(net) + "\n")

F = nn.functional
out = {
    "x": torch.linspace(-1, 1, 20).reshape(4, 5),
    "image": torch.linspace(-2, 3, 2 * 4 * 7 * 6).sin().reshape(2, 4, 7, 6),
}
out["fc"] = net.fc(out["x"])
out["fc"].sum().backward()
out["fc.weight.grad"] = net.fc.weight.grad
w, b = net.blocks[0].conv.weight, net.blocks[0].conv.bias
out["conv"] = F.conv2d(out["image"], w, b, stride=(2, 1), padding=(1, 2), groups=2)
for mode in ["reflect", "replicate", "circular"]:
    out["conv." + mode] = F.conv2d(F.pad(out["image"], (1, 1, 1, 1), mode=mode), w, b, groups=2)
out["pool"], out["indices"] = F.max_pool2d(out["image"], 3, 2, 1, ceil_mode=True, return_indices=True)
out["rows"] = net.table(torch.tensor([2, 6, 6]))
out["rows"].sum().backward()
out["rows.grad"] = net.table.weight.grad
out["target"] = torch.linspace(0, 1, 12).reshape(4, 3)
out["mse"] = F.mse_loss(out["fc"], out["target"])
out["mse.sum"] = F.mse_loss(out["fc"], out["target"], reduction="sum")
out["softmax"], out["gelu"] = out["fc"].softmax(-1), F.gelu(out["fc"])
out["flatten"] = out["image"].flatten(1)
out = {k: v.detach().clone() for k, v in out.items()}


def save(state, path):
    if save_file is not None:
        return save_file(state, path)
    import subprocess, sys

    raw = {k: (str(v.dtype).split(".")[1], list(v.shape), v.reshape(-1).tolist()) for k, v in state.items()}
    code = (
        "import sys, ast, numpy as n; from safetensors.numpy import save_file;"
        "r = ast.literal_eval(sys.stdin.read());"
        f"save_file({{k: n.array(v, dtype=d).reshape(s) for k, (d, s, v) in r.items()}}, {path!r})"
    )
    python = os.environ.get("NUMPY_PYTHON", sys.executable)
    subprocess.run([python, "-c", code], input=repr(raw), text=True, check=True)


save(state, os.path.join(here, "init.safetensors"))
save(out, os.path.join(here, "forward.safetensors"))
