"""A worker whose steps depend on more than the weights: momentum, a schedule, random numbers, a
frozen average of the weights, and what it counts by itself.

torch_state_worker.py OUT_FOLDER EPOCHS; LARGE: megabytes of further state; SLOW: seconds of a step;
AHEAD: processes of the loader
"""

import os
import random
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import psgd.torch

SAMPLES, BATCH = 80, 8


def points():
    draw = torch.Generator().manual_seed(3)
    x = torch.randn(SAMPLES, 6, generator=draw)
    return TensorDataset(x, (x[:, 0] * x[:, 1] > 0).long())


def main():
    out, epochs = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(1)
    torch.manual_seed(5)
    random.seed(6)
    model = nn.ModuleDict({
        "net": nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Dropout(0.3), nn.Tanh(),
                             nn.Linear(16, 2)),
        "average": nn.Linear(6, 16)})
    model["average"].requires_grad_(False)
    optimizer = torch.optim.SGD(model["net"].parameters(), 0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.5)
    run = psgd.torch.join(model, optimizer)
    kept = {"steps": 0, "workers": []}
    large = torch.arange(int(os.environ.get("LARGE", "0")) * 250000, dtype=torch.float32)
    if len(large) > 0:
        kept["large"] = torch.zeros_like(large)
    run.state(scheduler=scheduler, kept=kept)
    data = points()
    loader = DataLoader(data, batch_size=BATCH, sampler=run.sampler(data),
                        num_workers=int(os.environ.get("AHEAD", "0")))
    first = None
    for epoch in run.epochs(epochs):
        if first is None:
            first = epoch
            if len(large) > 0 and epoch > 0:
                assert torch.equal(kept["large"], large), "the large state is another"
        for x, y in loader:
            time.sleep(float(os.environ.get("SLOW", "0")))
            noise = random.random() * torch.randn(x.shape)
            loss = nn.CrossEntropyLoss()(model["net"](x + 0.1 * noise), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                for mean, new in zip(model["average"].parameters(), model["net"][0].parameters()):
                    mean.lerp_(new, 0.1)
            kept["steps"] += 1
            if run.client.worker == 0:
                with open(f"{out}/steps", "a") as file:
                    file.write("s")
        scheduler.step()
        kept["workers"].append(run.client.worker)
        if len(large) > 0:
            kept["large"] = large.clone()
    torch.save({**model.state_dict(), "steps": torch.tensor(kept["steps"]),
                "rate": torch.tensor(optimizer.param_groups[0]["lr"]),
                "workers": torch.tensor(kept["workers"])},
               f"{out}/worker-{run.client.worker}.pt")


if __name__ == "__main__":
    main()
