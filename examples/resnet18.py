"""ResNet-18 on small generated pictures: python3 resnet18.py --epochs 3

    ps-run examples/cluster.yaml --workers 2 -- python3 examples/resnet18.py

Takes torchvision's network if it is installed, and else the same one from below.
"""

import argparse

import psgd.torch
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

CLASSES = 10


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = nn.Identity() if stride == 1 else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + self.downsample(x))


def resnet18(num_classes):
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
              nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for outputs in (64, 128, 256, 512):
        layers += [Block(inputs, outputs, 1 if outputs == 64 else 2), Block(outputs, outputs, 1)]
        inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(512, num_classes))


try:
    from torchvision.models import resnet18
except ImportError:
    pass


def generate(samples, seed):
    """Stripes in noise: the class is their direction."""
    draw = torch.Generator().manual_seed(seed)
    y = torch.randint(CLASSES, (samples,), generator=draw)
    angle = (y * torch.pi / CLASSES).view(-1, 1, 1)
    side = torch.arange(48.)
    along = side.view(1, -1, 1) * angle.sin() + side * angle.cos()
    x = torch.sin(along / 2 + 6 * torch.rand(samples, 1, 1, generator=draw)).unsqueeze(1)
    return TensorDataset(x + torch.randn(samples, 3, 48, 48, generator=draw), y)


def evaluate(dataset):
    model.eval()
    x, y = dataset.tensors
    with torch.no_grad():
        out = model(x)
    model.train()
    return {"loss": F.cross_entropy(out, y), "accuracy": (out.argmax(1) == y).float().mean()}


parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--lr", type=float, default=0.05)
arguments = parser.parse_args()
psgd.torch.seed()

model = resnet18(num_classes=CLASSES)
optimizer = torch.optim.SGD(model.parameters(), arguments.lr, momentum=0.9, weight_decay=1e-4)
train, test = generate(1536, 1), generate(256, 2)
run = psgd.torch.join(model, optimizer)
loader = DataLoader(train, batch_size=64, sampler=run.sampler(train), drop_last=True)
for epoch in run.epochs(arguments.epochs):
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    run.log(**evaluate(test))
