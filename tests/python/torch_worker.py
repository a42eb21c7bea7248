"""A worker of the tests: a small network on small data, whose samples and weights it leaves behind.

torch_worker.py OUT_FOLDER EPOCHS [STEPS_OF_WORKER_1_BEFORE_IT_DIES]
"""

import json
import os
import signal
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import psgd.torch

SAMPLES, BATCH, RATE, MOMENTUM, DECAY = 512, 16, 0.1, 0.9, 0.9


class Points(Dataset):
    def __init__(self):
        draw = torch.Generator().manual_seed(7)
        self.x = torch.randn(SAMPLES, 10, generator=draw)
        self.y = (self.x[:, 0] * self.x[:, 1] > 0).long() + (self.x[:, 2] > 0).long()

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        return self.x[index], self.y[index], index


def network(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(10, 24), nn.Tanh(), nn.Linear(24, 3))


def optimizer_of(model):
    return torch.optim.SGD(model.parameters(), RATE, momentum=MOMENTUM)


def main():
    out, epochs = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(1)
    data = Points()
    name = os.environ.get("PSGD_NAME", "worker-0")
    # Each worker begins with weights of its own: those of the first count.
    model = network(100 + int(name.split("-")[1]))
    optimizer = optimizer_of(model)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=DECAY)
    criterion = nn.CrossEntropyLoss()
    run = psgd.torch.join(model, optimizer)
    loader = DataLoader(data, batch_size=BATCH, sampler=run.sampler(data))
    seen, first, came = [], None, []
    for epoch in run.epochs(epochs):
        came.append(epoch)
        if first is None:
            first = {name: value.clone() for name, value in model.state_dict().items()}
        for x, y, indices in loader:
            if len(sys.argv) > 3:
                time.sleep(0.1)
            if len(sys.argv) > 3 and name == "worker-1" and len(seen) == int(sys.argv[3]):
                os.kill(os.getpid(), signal.SIGKILL)
            seen.append((epoch, indices.tolist()))
            with open(f"{out}/{name}.jsonl", "a") as file:
                file.write(json.dumps(seen[-1]) + "\n")
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        scheduler.step()
        with torch.no_grad():
            right = (model(data.x).argmax(1) == data.y).float().mean()
        run.log(loss=loss, accuracy=right, samples=SAMPLES, margin=0.25)
    torch.save({"seen": seen, "epochs": came, "loss": float(loss), "first": first, "last": model.state_dict(),
                "accuracy": float(right), "timings": run.timings()}, f"{out}/{name}.pt")


if __name__ == "__main__":
    main()
