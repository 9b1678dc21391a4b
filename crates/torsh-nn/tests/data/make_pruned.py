"""Writes pruned.pt: the state dict of a model that PyTorch pruned, and what it computes.

python make_pruned.py
"""

import torch
from torch import nn
from torch.nn.utils import prune

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
prune.l1_unstructured(net[0], "weight", 0.5)
prune.random_unstructured(net[0], "weight", 2)
prune.ln_structured(net[2], "weight", 1, 2, 1)
prune.l1_unstructured(net[2], "bias", 1)
x = torch.tensor([[1.0, -2.0, 3.0, 0.5]])
torch.save(net.state_dict(), "pruned.pt")
print(list(net.state_dict()))
print(net(x).tolist())
print([net[0].weight_mask.tolist(), net[2].weight_mask.tolist(), net[2].bias_mask.tolist()])
