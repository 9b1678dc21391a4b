"""Writes autocast.json: the losses of models that PyTorch trains in a bfloat16 autocast region.

    python make_autocast.py

Weights and data are what `manual_seed` and the default initialisation give, so nothing but the
losses is stored.
"""

import json
import pathlib

import torch
from torch import nn

F = nn.functional
STEPS = 12


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(16, 32)
        self.norm = nn.LayerNorm(32)
        self.fc2 = nn.Linear(32, 4)

    def forward(self, x):
        return self.fc2(F.relu(self.norm(self.fc1(x))))

    def data(self):
        return torch.randn(24, 16), torch.randint(0, 4, (24,))


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, 1, 1)
        self.norm = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 8, 3, 2, 1)
        self.fc = nn.Linear(8, 4)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.conv1(x))), 2)
        x = F.adaptive_avg_pool2d(F.gelu(self.conv2(x)), 1)
        return self.fc(x.flatten(1))

    def data(self):
        return torch.randn(12, 3, 8, 8), torch.randint(0, 4, (12,))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(6, 16)
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        x = self.embed(x)
        x = self.norm(x + self.attention(x, x, x, need_weights=False)[0])
        return self.head(x.mean(1))

    def data(self):
        return torch.randn(10, 7, 6), torch.randint(0, 4, (10,))


class Recurrent(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.rnn = layer(5, 12)
        self.head = nn.Linear(12, 4)

    def forward(self, x):
        return self.head(self.rnn(x)[0][-1])

    def data(self):
        return torch.randn(6, 10, 5), torch.randint(0, 4, (10,))


def losses(make, region):
    torch.manual_seed(7)
    model = make()
    x, y = model.data()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    out = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        with torch.autocast("cpu", enabled=region):
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        out.append(loss.item())
    return out


models = {
    "mlp": Mlp,
    "cnn": Cnn,
    "attention": Attention,
    "lstm": lambda: Recurrent(nn.LSTM),
    "gru": lambda: Recurrent(nn.GRU),
}
result = {
    name: {"bfloat16": losses(make, True), "float32": losses(make, False)}
    for name, make in models.items()
}
pathlib.Path(__file__).with_name("autocast.json").write_text(json.dumps(result, indent=1) + "\n")
