"""A small GPT that learns the texts of licenses, byte by byte: python3 gpt.py --epochs 6

    ps-run examples/cluster.yaml --workers 2 -- python3 examples/gpt.py
"""

import argparse
import pathlib

import psgd.torch
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

CONTEXT, WIDTH, HEADS, LAYERS = 32, 64, 4, 2


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
        self.register_buffer("later", torch.ones(CONTEXT, CONTEXT).triu(1).bool())

    def forward(self, x):
        samples, length, _ = x.shape
        q, k, v = (part.view(samples, length, HEADS, -1).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).split(WIDTH, 2))
        scores = q @ k.transpose(2, 3) * (WIDTH / HEADS) ** -0.5
        scores = scores.masked_fill(self.later[:length, :length], -torch.inf)
        x = x + self.out((scores.softmax(3) @ v).transpose(1, 2).reshape(x.shape))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.bytes = nn.Embedding(256, WIDTH)
        self.places = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, 256, bias=False)
        for part in (self.bytes, self.places):
            nn.init.normal_(part.weight, std=0.02)
        self.head.weight = self.bytes.weight  # tied

    def forward(self, x):
        x = self.bytes(x) + self.places(torch.arange(x.shape[1], device=x.device))
        return self.head(self.norm(self.blocks(x)))


def loss_of(out, y):
    return F.cross_entropy(out.flatten(0, 1), y.flatten())


def evaluate(dataset):
    x, y = next(iter(DataLoader(dataset, batch_size=len(dataset))))
    with torch.no_grad():
        out = model(x)
    return {"loss": loss_of(out, y), "accuracy": (out.argmax(2) == y).float().mean()}


parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=6)
parser.add_argument("--lr", type=float, default=6e-3)
parser.add_argument("--text", default="/usr/share/common-licenses")
arguments = parser.parse_args()
psgd.torch.seed()

files = {path.resolve() for path in pathlib.Path(arguments.text).iterdir() if path.is_file()}
text = torch.tensor(list(b"".join(path.read_bytes() for path in sorted(files))))
pieces = text[:len(text) // (CONTEXT + 1) * (CONTEXT + 1)].view(-1, CONTEXT + 1)
pieces = TensorDataset(pieces[:, :-1], pieces[:, 1:])
train, test = torch.utils.data.random_split(
    pieces, [len(pieces) - 256, 256], torch.Generator().manual_seed(1))

model = GPT()
optimizer = torch.optim.AdamW(model.parameters(), arguments.lr)
run = psgd.torch.join(model, optimizer)
loader = DataLoader(train, batch_size=64, sampler=run.sampler(train), drop_last=True)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, arguments.epochs * len(loader))
for epoch in run.epochs(arguments.epochs):
    for x, y in loader:
        optimizer.zero_grad()
        loss_of(model(x), y).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1)
        optimizer.step()
        schedule.step()
    run.log(**evaluate(test))
