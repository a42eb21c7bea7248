#!/usr/bin/python3
"""Trains torchvision's networks in psgd and in PyTorch, and prints the table of docs/engine.md.

    apt-get install python3-torch python3-torchvision    # PyTorch 1.13, torchvision 0.14
    ninja -C build/release engine_onnx_losses
    tests/golden/make_corpus.py build/release/bin/engine_onnx_losses [NETWORK ...]
    tests/golden/make_corpus.py build/release/bin/engine_onnx_losses --texts [MODEL ...]

With --texts it compares the small language models of language_models.py instead, each exported in
several ways, in a few minutes. Each row is made by a process of its own, which --limit ends after so
many seconds. With --table rows are appended to a file, and a later call makes only those that the file
lacks or that ran out of time (delete a line to make it again):

    tests/golden/make_corpus.py PROGRAM vgg11 swin_s --limit 1800 --table corpus.md

Each network is exported as docs/engine.md says, imported by psgd and trained for five steps. It passes
if the losses differ by at most 1e-3 of PyTorch's. Both train in fp32 from the same random weights;
dropout and stochastic depth are 0. The learning rate is such that the losses fall, but no rounding
error is multiplied as in a network that jumps about. All networks take an hour or more on two cores and several GB.
"""

import argparse
import copy
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
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
MOST_WEIGHTS = 150e6  # of networks that are not named
OUT_OF_TIME = "out of time"
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


def print_row(program, name, texts):
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        cells = compare_text(name, program, folder) if texts else compare(name, program, folder)
    print(" | ".join(str(cell) for cell in cells))


def made_row(how, name):
    """The row that a process of its own makes, with its seconds."""
    command = [sys.executable, __file__, how.program, name, "--row"] + (["--texts"] if how.texts else [])
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        # The process and its children are a group, so that all end together.
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   start_new_session=True, env=os.environ | {"TMPDIR": folder})
        try:
            out, error = process.communicate(timeout=how.limit)
        except subprocess.TimeoutExpired:
            out, error = "", f"{OUT_OF_TIME}: more than {how.limit:g} s"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    seconds = time.monotonic() - start
    columns = len(EXPORTS) if how.texts else 2
    if process.returncode == 0 and out:
        cells = out.strip()
    else:
        why = (error.strip().splitlines() or [f"ended with {process.returncode}"])[-1][:200]
        cells = " | ".join([why] + [""] * (columns - 1)) if how.texts else f" | {why}"
    return f"| {name} | {cells} | {seconds:.0f} |"


def names_of(how):
    known = list(language_models.CASES) if how.texts else sorted(
        models.list_models(module=models) + models.list_models(module=models.segmentation), key=weights_of)
    for name in how.names:
        if name not in known:
            sys.exit(f"make_corpus.py: there is no {name}; there are {', '.join(known)}")
    return how.names or [name for name in known if how.texts or weights_of(name) <= MOST_WEIGHTS]


def name_in(row):
    return row.split("|")[1].strip()


def main(how):
    names = names_of(how)
    if how.row:
        return print_row(how.program, how.names[0], how.texts)
    columns = ["model", *EXPORTS, "s"] if how.texts else ["network", "image", "result", "s"]
    head = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    rows = how.table.read_text().splitlines() if how.table and how.table.exists() else head
    if rows[:2] != head:
        sys.exit(f"make_corpus.py: {how.table} is another table; --table names a new file or one of its own")
    rows = [row for row in rows if OUT_OF_TIME not in row or name_in(row) not in names]
    print("\n".join(rows), flush=True)
    made = {name_in(row) for row in rows}
    for name in names:
        if name in made:
            continue
        rows.append(made_row(how, name))
        print(rows[-1], flush=True)
        if how.table:
            how.table.write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="engine_onnx_losses")
    parser.add_argument("names", nargs="*", metavar="NAME", help="a network or model; none: all")
    parser.add_argument("--texts", action="store_true", help="language models instead of networks")
    parser.add_argument("--limit", type=float, metavar="SECONDS", help="of each row")
    parser.add_argument("--table", type=pathlib.Path, metavar="FILE", help="the rows, to go on from")
    parser.add_argument("--row", action="store_true", help=argparse.SUPPRESS)
    main(parser.parse_intermixed_args())
