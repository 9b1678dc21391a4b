"""Goes on with PyTorch from the training states that `files.rs` wrote to DIR/ours.pt, and writes
where that leads to DIR/theirs.pt: python go_on.py DIR
"""

import os
import sys

import torch

os.chdir(sys.argv[1])


def gradient(p, i, step):
    k = torch.arange(p.numel(), dtype=torch.int64)
    return (((k * 37 + i * 11 + step * 5) % 17 - 8).to(p.dtype) / 1024).reshape(p.shape)


out = {}
for name, saved in torch.load("ours.pt", weights_only=True).items():
    params = [torch.nn.Parameter(p) for p in saved["params"]]
    optimizer = getattr(torch.optim, name)(params, lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    scaler = torch.amp.GradScaler("cpu")
    optimizer.load_state_dict(saved["optimizer"])
    scheduler.load_state_dict(saved["scheduler"])
    scaler.load_state_dict(saved["scaler"])
    for step in range(2, 5):
        scale = scaler.scale(torch.ones((), dtype=params[0].dtype))
        for i, p in enumerate(params):
            p.grad = gradient(p, i, step) * scale
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
    out[name] = {
        "params": [p.detach() for p in params],
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "scaler": scaler.state_dict(),
    }
torch.save(out, "theirs.pt")
