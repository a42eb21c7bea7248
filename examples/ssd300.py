"""torchvision's SSD300 on generated pictures of boxes: python3 ssd300.py --epochs 2

    ps-run examples/cluster.yaml --set data.batch=4 --workers 2 -- python3 examples/ssd300.py
"""

import argparse

import psgd.torch
import torch
from torch.utils.data import DataLoader
from torchvision.models.detection import ssd300_vgg16


def generate(samples, seed):
    """A bright box on noise, in one of two colours."""
    draw = torch.Generator().manual_seed(seed)
    made = []
    for _ in range(samples):
        label = torch.randint(1, 3, (1,), generator=draw)
        side = torch.randint(80, 160, (2,), generator=draw)
        corner = (torch.rand(2, generator=draw) * (300 - side)).long()
        (left, top), (right, bottom) = corner.tolist(), (corner + side).tolist()
        picture = torch.rand(3, 300, 300, generator=draw) / 2
        picture[label.item(), top:bottom, left:right] += 0.5
        made.append((picture, {"boxes": torch.tensor([[left, top, right, bottom]]).float(),
                               "labels": label}))
    return made


def together(samples):
    pictures, targets = zip(*samples)
    return list(pictures), list(targets)


parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--lr", type=float, default=1e-3)
parser.add_argument("--samples", type=int, default=80)
arguments = parser.parse_args()
psgd.torch.seed()

model = ssd300_vgg16(weights=None, weights_backbone=None, num_classes=3)
optimizer = torch.optim.SGD(model.parameters(), arguments.lr, momentum=0.9, weight_decay=5e-4)
train = generate(arguments.samples, 1)
run = psgd.torch.join(model, optimizer)
loader = DataLoader(train, batch_size=4, sampler=run.sampler(train), collate_fn=together,
                    drop_last=True)
for epoch in run.epochs(arguments.epochs):
    sums = {}
    for step, (pictures, targets) in enumerate(loader):
        losses = model(pictures, targets)
        loss = sum(losses.values())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 10)
        optimizer.step()
        values = {name: value.item() for name, value in {"loss": loss, **losses}.items()}
        print(f"step {step}: " + ", ".join(f"{name} {x:.3f}" for name, x in values.items()))
        sums = {name: sums.get(name, 0) + x for name, x in values.items()}
    run.log(**{name: value / (step + 1) for name, value in sums.items()})
