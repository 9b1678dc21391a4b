"""Writes script.pt, a TorchScript archive, with PyTorch 2.15: python make.py"""
import os

import torch
from torch import nn

os.chdir(os.path.dirname(os.path.abspath(__file__)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([2.5]))
        self.fc = nn.Linear(2, 3)
        self.norm = nn.BatchNorm1d(3)
        self.words = ["a", "b"]
        self.sizes = [1, 2]
        self.table = {"x": 1}

    def forward(self, x):
        return self.norm(self.fc(x)) * self.scale


net = Net()
with torch.no_grad():
    net.fc.weight.copy_(torch.arange(1.0, 7.0).reshape(3, 2))
torch.jit.save(torch.jit.script(net.eval()), "script.pt")
