"""A small CNN on Fashion-MNIST, in two processes: torchrun --nproc_per_node 2 fashion_mnist_ddp.py --epochs 5

The torchrun of Debian 12 fails. Without it:

    export MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 WORLD_SIZE=2 OMP_NUM_THREADS=1
    for rank in 0 1; do RANK=$rank python3 fashion_mnist_ddp.py --epochs 5 & done; wait
"""

import argparse
import gzip

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


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
torch.manual_seed(arguments.seed)
dist.init_process_group("gloo")

model = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Linear(32 * 7 * 7, 128), nn.ReLU(), nn.Linear(128, 10))
model = DDP(model)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), arguments.lr, momentum=0.9, weight_decay=5e-4)
train, test = read("train", arguments.data), read("t10k", arguments.data)
sampler = DistributedSampler(train, seed=arguments.seed, drop_last=True)
loader = DataLoader(train, batch_size=64, sampler=sampler, drop_last=True)
for epoch in range(arguments.epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if dist.get_rank() == 0:
        print(f"epoch {epoch + 1}: loss {loss:.4f}, accuracy {evaluate(model, test):.4f}", flush=True)
dist.destroy_process_group()
