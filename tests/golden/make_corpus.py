#!/usr/bin/python3
"""Trains torchvision's networks in psgd and in PyTorch, and prints the table of docs/engine.md.

    apt-get install python3-torch python3-torchvision    # PyTorch 1.13, torchvision 0.14
    ninja -C build/release engine_onnx_losses
    tests/golden/make_corpus.py build/release/bin/engine_onnx_losses [NETWORK ...]
    tests/golden/make_corpus.py build/release/bin/engine_onnx_losses --texts [MODEL ...]

With --texts it compares the small language models of language_models.py instead, each exported in
several ways, in a few minutes.

Each network is exported as docs/engine.md says, imported by psgd and trained for five steps. It passes
if the losses differ by at most 1e-3 of PyTorch's. Both train in fp32 from the same random weights;
dropout and stochastic depth are 0. The learning rate is such that the losses fall, but no rounding
error is multiplied as in a network that jumps about. All networks take an hour or more on two cores and several GB.
"""

import copy
import pathlib
import subprocess
import sys
import tempfile
import warnings

import torch
import torch.nn.functional as F
import language_models
from make_onnx import export, fill, labels, tokens
from torch import nn
from torchvision import models

STEPS = 5
FALL = 0.1  # of the loss in the first step, by its gradient
BOUND = 1e-3
MOST_WEIGHTS = 150e6
RATE = 0.5  # of language models

# The smallest sizes (of 96 and more) at which PyTorch exports the network.
SIZES = {"alexnet": 224, "maxvit_t": 224} | {
    f"vgg{n}{bn}": 224 for n in (11, 13, 16, 19) for bn in ("", "_bn")}


class Logits(nn.Module):
    """A segmentation network, of whose outputs psgd trains the first."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x)["out"]


def build(name, size):
    how = {"num_classes": 10, "weights": None}
    if name in models.list_models(module=models.segmentation):
        return Logits(models.get_model(name, weights_backbone=None, **how))
    if name in ("googlenet", "inception_v3"):
        how |= {"aux_logits": False, "init_weights": True}
    if name.startswith("vit"):
        how["image_size"] = size
    return models.get_model(name, **how)


def without_chance(model):
    for module in model.modules():
        if type(module).__name__ == "StochasticDepth" or isinstance(module, nn.Dropout):
            module.p = 0.0
        if isinstance(module, nn.MultiheadAttention):
            module.dropout = 0.0
    return model.train()


def rate_of(model, x, y):
    """The rate of the first step that lowers the loss by FALL."""
    model = copy.deepcopy(model)
    F.cross_entropy(model(x), y).backward()
    rate = FALL / sum(p.grad.double().square().sum().item() for p in model.parameters())
    return float(f"{rate:.3g}")


def torch_losses(model, x, loss_of, rate):
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model(x))
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
    return losses


def compare(name, program, folder):
    """The row's last cells: nodes, largest difference, or why not."""
    size = SIZES.get(name, 96)
    batch = 2 if size == 224 else 4
    torch.manual_seed(1)
    model = without_chance(build(name, size))
    weights = sum(p.numel() for p in model.parameters())
    if weights > MOST_WEIGHTS:
        return size, f"left out: {weights / 1e6:.0f} M weights"
    pixels = isinstance(model, Logits)
    x = torch.tensor(fill(batch * 3 * size * size, 7)).view(batch, 3, size, size)
    y = labels(batch * size * size if pixels else batch, 10)
    if pixels:
        y = y.view(batch, size, size)
    path = folder / "network.onnx"
    try:
        torch.onnx.export(copy.deepcopy(model), x, str(path), training=torch.onnx.TrainingMode.TRAINING,
                          do_constant_folding=False, opset_version=13,
                          input_names=["input"], output_names=["logits"],
                          dynamic_axes={"input": {0: "batch"}})
    except Exception as error:  # what PyTorch's exporter cannot do
        return size, "PyTorch: " + str(error).split("\n")[0][:110]
    rate = rate_of(model, x, y)
    ran = subprocess.run([program, str(path), "onednn", str(batch), str(size), str(int(pixels)), str(rate),
                          str(STEPS)], capture_output=True, text=True)
    path.unlink()
    if ran.returncode != 0:
        return size, "psgd: " + " ".join(ran.stderr.split("\n")[:2])[:300]
    ours = [float(line) for line in ran.stdout.split()]
    theirs = torch_losses(model, x, lambda logits: F.cross_entropy(logits, y), rate)
    return size, verdict(ours, theirs)


# How a language model is exported.
EXPORTS = {
    "training": {"opset": 14},
    "open time": {"opset": 14, "time": True},
    "batch of 1": {"opset": 14, "dynamic": False},
    "evaluation": {"opset": 17, "training": False},
    "opset 11": {"opset": 11, "training": False},
}


def compare_text(name, program, folder):
    """A cell for each of EXPORTS."""
    batch, length, vocabulary = 3, language_models.LENGTH, language_models.VOCABULARY
    torch.manual_seed(1)
    make, frozen = language_models.CASES[name]
    model = make().train()
    x, y = tokens(batch, length, vocabulary), labels(batch * length, vocabulary)
    flat = lambda logits: F.cross_entropy(logits.reshape(-1, vocabulary), y)
    cells = []
    theirs = None
    for how in EXPORTS.values():
        path = folder / "network.onnx"
        try:
            export(copy.deepcopy(model), x if how.get("dynamic", True) else x[:1], path, **how)
        except Exception as error:  # what PyTorch's exporter cannot do
            cells.append("PyTorch: " + str(error).split(". ")[0].strip()[:80])
            continue
        ran = subprocess.run([program, str(path), "onednn", str(batch), str(length), "0", str(RATE), str(STEPS),
                              str(vocabulary)] + frozen, capture_output=True, text=True)
        if ran.returncode != 0:
            cells.append("psgd: " + " ".join(ran.stderr.split("\n")[1:2]).strip()[:200])
            continue
        ours = [float(line) for line in ran.stdout.split()]
        if theirs is None:
            theirs = torch_losses(copy.deepcopy(model), x, flat, RATE)
        cells.append(verdict(ours, theirs))
    return cells


def verdict(ours, theirs):
    apart = max(abs(a - b) / b for a, b in zip(ours, theirs))
    passes = "passes" if len(ours) == STEPS and apart <= BOUND else "differs"
    return f"{passes}: {apart:.1e} ({theirs[0]:.4f} to {theirs[-1]:.4f})"


def weights_of(name):
    return models.get_model_weights(name).DEFAULT.meta["num_params"]


def main(program, names):
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    if names[:1] == ["--texts"]:
        print(f"| model | {' | '.join(EXPORTS)} |\n|---|{'---|' * len(EXPORTS)}")
        with tempfile.TemporaryDirectory() as folder:
            for name in names[1:] or language_models.CASES:
                cells = compare_text(name, program, pathlib.Path(folder))
                print(f"| {name} | {' | '.join(cells)} |", flush=True)
        return
    every = models.list_models(module=models) + models.list_models(module=models.segmentation)
    print("| network | image | result |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name in names or sorted(every, key=weights_of):
            size, result = compare(name, program, pathlib.Path(folder))
            print(f"| {name} | {size} | {result} |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])
