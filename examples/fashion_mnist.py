"""A small CNN on Fashion-MNIST: python3 fashion_mnist.py --epochs 5"""

import argparse
import gzip

import numpy as np
import psgd.torch
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def read(kind, folder):
    with gzip.open(f"{folder}/{kind}-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 1, 28, 28)
    with gzip.open(f"{folder}/{kind}-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    pixels = torch.from_numpy(images.astype(np.float32) / 255)
    return TensorDataset((pixels - 0.286) / 0.353, torch.from_numpy(labels.astype(np.int64)))


def evaluate(model, dataset):
    model.eval()
    with torch.no_grad():
        right = sum((model(x).argmax(1) == y).sum().item() for x, y in DataLoader(dataset, 500))
    model.train()
    return right / len(dataset)


parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=5)
parser.add_argument("--lr", type=float, default=0.05)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
arguments = parser.parse_args()
psgd.torch.seed(arguments.seed)

model = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Linear(32 * 7 * 7, 128), nn.ReLU(), nn.Linear(128, 10))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), arguments.lr, momentum=0.9, weight_decay=5e-4)
train, test = read("train", arguments.data), read("t10k", arguments.data)
run = psgd.torch.join(model, optimizer, mask_momentum=True)  # under topk
loader = DataLoader(train, batch_size=64, sampler=run.sampler(train), drop_last=True)
for epoch in run.epochs(arguments.epochs):
    for x, y in loader:
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    run.log(loss=loss, accuracy=evaluate(model, test))
