"""Resumes the published checkpoints with PyTorch as `files.rs` does, and prints what it compares:
python resume.py DIR [OUT], where DIR has the checkpoints of the package chgnet 0.4.2, and OUT is a
folder for the parameters afterwards.
"""

import os
import sys

import torch

torch.set_num_threads(1)


def gradient(p, i, step):
    k = torch.arange(p.numel(), dtype=torch.int64)
    return (((k * 37 + i * 11 + step * 5) % 17 - 8).float() / 1024).reshape(p.shape)


for name in [
    "chgnet_0.2.0_e30f77s348m32.pth.tar",
    "chgnet_0.3.0_e29f68s314m37.pth.tar",
    "chgnet_r2scan_transfer_learning_e15f36s161m23.pth.tar",
]:
    saved = torch.load(os.path.join(sys.argv[1], name), weights_only=True, map_location="cpu")
    params = [torch.nn.Parameter(t) for t in saved["model"]["state_dict"].values()]
    adam = torch.optim.Adam(params, lr=1.0)
    if "T_max" in saved["scheduler"]:
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(adam, T_max=1)
    else:
        scheduler = torch.optim.lr_scheduler.ExponentialLR(adam, gamma=0.5)
    adam.load_state_dict(saved["optimizer"])
    scheduler.load_state_dict(saved["scheduler"])
    known = set(adam.state_dict()["state"])
    lrs = []
    for step in range(3):
        for i, p in enumerate(params):
            # Parameters that had no gradient before get one in the last step.
            p.grad = gradient(p, i, step) if i in known or step == 2 else None
        adam.step()
        scheduler.step()
        lrs.append(adam.param_groups[0]["lr"])
    state = adam.state_dict()["state"]
    wanted = [sum(t.detach().double().abs().sum().item() for t in params)]
    for key in ["exp_avg", "exp_avg_sq"]:
        wanted.append(sum(s[key].double().abs().sum().item() for s in state.values()))
    print(name, lrs, wanted)
    print([params[i].detach().flatten()[-1].item() for i in (1, 9, 40, 90, 98)])
    if len(sys.argv) > 2:
        tensors = {f"p{i}": p.detach() for i, p in enumerate(params)}
        for i, s in state.items():
            tensors |= {f"{key}{i}": s[key] for key in ("exp_avg", "exp_avg_sq")}
        torch.save(tensors, os.path.join(sys.argv[2], name))
