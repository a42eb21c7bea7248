"""torchvision's Mask R-CNN on generated pictures of discs: python3 mask_rcnn.py --epochs 2

    ps-run examples/cluster.yaml --set data.batch=2 --workers 2 -- python3 examples/mask_rcnn.py
"""

import argparse

import psgd.torch
import torch
from torch.utils.data import DataLoader
from torchvision.models.detection import maskrcnn_resnet50_fpn

SIDE = 128


def generate(samples, seed):
    """One to three bright discs on noise, each with its box and its mask."""
    draw = torch.Generator().manual_seed(seed)
    rows, columns = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")
    made = []
    for _ in range(samples):
        picture = torch.rand(3, SIDE, SIDE, generator=draw) / 2
        boxes, masks = [], []
        for _ in range(torch.randint(1, 4, (1,), generator=draw)):
            radius = int(torch.randint(12, 30, (1,), generator=draw))
            x, y = torch.randint(radius, SIDE - radius, (2,), generator=draw).tolist()
            mask = (columns - x) ** 2 + (rows - y) ** 2 <= radius ** 2
            picture[:, mask] += 0.5
            boxes.append([x - radius, y - radius, x + radius, y + radius])
            masks.append(mask)
        made.append((picture, {"boxes": torch.tensor(boxes).float(),
                               "labels": torch.ones(len(boxes), dtype=torch.int64),
                               "masks": torch.stack(masks).byte()}))
    return made


def together(samples):
    pictures, targets = zip(*samples)
    return list(pictures), list(targets)


parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--lr", type=float, default=5e-3)
parser.add_argument("--samples", type=int, default=40)
arguments = parser.parse_args()
psgd.torch.seed()

model = maskrcnn_resnet50_fpn(weights=None, weights_backbone=None, num_classes=2, min_size=SIDE,
                              max_size=SIDE)
optimizer = torch.optim.SGD(model.parameters(), arguments.lr, momentum=0.9, weight_decay=5e-4)
train = generate(arguments.samples, 1)
run = psgd.torch.join(model, optimizer)
loader = DataLoader(train, batch_size=2, sampler=run.sampler(train), collate_fn=together,
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
