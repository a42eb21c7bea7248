#!/usr/bin/python3
"""Writes networks.json: what networks make of a batch, as PyTorch computes it, in double.

Needs Debian's python3-torch and python3-torchvision; run it only when a network is added:

    tests/golden/make_networks.py > tests/golden/networks.json

Weights, inputs and labels are functions of their index (unit, below), so that the test makes the same
ones and no weights are stored. Kept of a step of training: the loss; of the logits their length and
their products with two vectors of such numbers; of each gradient its length and its product with
another such vector. Then the loss in evaluation, so with running statistics, after that step was
taken at rate RATE. Of those under "small", whose images suit plain loops, all gradients together are
kept as two numbers.
"""
import json
import math

import numpy as np
import torch
import torchvision
from torch import nn
from torch.nn import functional as F

from torch_networks import (BagOfTokens, Cnn, Gpt, Lenet5, LogisticRegression, LstmLm, Mlp, Ncf, Resnet20,
                            Transformer, TransformerEncoder, Unet)

# Streams in addition to those of parameters.
INPUT, LABELS, PROBE, VALUES, LOGITS = 1 << 20, 1 << 21, 1 << 22, 3 << 21, 1 << 23
RATE = 0.001


def unit(stream, count):
    """`count` numbers in [0, 1): the upper 24 bits of splitmix64 of stream and index."""
    z = (np.uint64(stream) << np.uint64(40)) + np.arange(count, dtype=np.uint64)
    with np.errstate(over="ignore"):
        z = z + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(40)).astype(np.float64) / 2.0**24


def fill(model):
    """Weights of variance 2 / fan_in around zero; what normalises starts near one."""
    for stream, (name, parameter) in enumerate(model.named_parameters()):
        shape = parameter.shape
        spread = 2 * unit(stream, parameter.numel()) - 1
        if len(shape) > 1:
            fan_in = parameter.numel() // shape[0]
            values = spread * np.float32(math.sqrt(6 / fan_in))
        else:
            values = 0.1 * spread + (1 if is_scale(model, name) else 0)
        values = values.astype(np.float32).astype(np.float64)
        parameter.data = torch.from_numpy(values).reshape(shape)


def is_scale(model, name):
    module = model.get_submodule(name.rpartition(".")[0])
    return name.endswith("weight") and isinstance(module, (nn.BatchNorm2d, nn.LayerNorm))


def torchvision_model(make, **options):
    model = make(weights=None, num_classes=10, **options)
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0
    return model


def sequences(batch, length, classes, source):
    """Of pairs of sequences `source` tokens come first: token 0 where those of a sample end. Texts with
    one label are all source."""
    tokens = torch.from_numpy((unit(INPUT, batch * length) * classes).astype(np.int64))
    tokens = tokens.reshape(batch, length)
    if source:
        tokens[:, :source] = 1 + tokens[:, :source] % (classes - 1)
        for n in range(batch):
            tokens[n, 1 + n % source:source] = 0
    return tokens


def sparse_vectors(batch, entries, vocabulary):
    index = torch.from_numpy((unit(INPUT, batch * entries) * vocabulary).astype(np.int64))
    values = torch.from_numpy(unit(VALUES, batch * entries))
    return index.reshape(batch, entries), values.reshape(batch, entries)


def kept_of_logits(logits):
    values = logits.detach().numpy().reshape(-1)
    products = [float(values @ (2 * unit(LOGITS + i, values.size) - 1)) for i in range(2)]
    return [float(np.linalg.norm(values)), *products]


def golden(model, batch, image=None, length=0, classes=10, source=0, entries=0, vocabulary=0):
    fill(model)
    model = model.double().train()
    if length:
        inputs, vocabulary = [sequences(batch, length, classes, source)], classes
    elif entries:
        inputs = sparse_vectors(batch, entries, vocabulary)
    else:
        inputs = [torch.from_numpy(unit(INPUT, batch * math.prod(image))).reshape(batch, *image)]
    logits = model(*inputs)
    axis = 1 if logits.dim() == 4 else logits.dim() - 1
    places = [size for i, size in enumerate(logits.shape) if i != axis]
    labels = torch.from_numpy((unit(LABELS, math.prod(places)) * classes).astype(np.int64))

    def loss_of(logits):
        return F.cross_entropy(logits.movedim(axis, -1).flatten(0, -2), labels)

    loss = loss_of(logits)
    loss.backward()
    gradients = {}
    for stream, (name, parameter) in enumerate(model.named_parameters()):
        gradient = parameter.grad.numpy().reshape(-1)
        probe = 2 * unit(PROBE + stream, gradient.size) - 1
        gradients[name] = [float(np.linalg.norm(gradient)), float(gradient @ probe)]
        parameter.data -= RATE * parameter.grad
    with torch.no_grad():
        evaluation = loss_of(model.eval()(*inputs))
    return {"batch": batch, "image": image, "length": length, "source": source, "entries": entries,
            "vocabulary": vocabulary, "classes": classes,
            "loss": rounded(float(loss)), "logits": [rounded(x) for x in kept_of_logits(logits)],
            "evaluation": rounded(float(evaluation)), "gradients": gradients}


def rounded(number):
    return float(f"{number:.12g}")


def main():
    torch.manual_seed(0)
    tv = torchvision.models
    inception = {"aux_logits": False, "transform_input": False, "init_weights": False}
    networks = {
        "lenet5": golden(Lenet5(), 6, (1, 28, 28)),
        "cnn": golden(Cnn(), 8, (1, 28, 28)),
        "resnet20": golden(Resnet20(), 8, (3, 32, 32)),
        "unet": golden(Unet(), 1, (1, 32, 32), classes=3),
        "gpt": golden(Gpt(), 3, length=9, classes=13),
        "lstm_lm": golden(LstmLm(), 3, length=9, classes=13),
        "transformer": golden(Transformer(), 5, length=13, classes=13, source=6),
        "bag_of_tokens": golden(BagOfTokens(), 5, length=7, classes=13, source=7),
        "transformer_encoder": golden(TransformerEncoder(), 5, length=7, classes=13, source=7),
        "squeezenet": golden(torchvision_model(tv.squeezenet1_1), 4, (3, 64, 64)),
        "resnet18": golden(torchvision_model(tv.resnet18), 8, (3, 64, 64)),
        "resnet50": golden(torchvision_model(tv.resnet50), 8, (3, 64, 64)),
        "googlenet": golden(torchvision_model(tv.googlenet, **inception), 8, (3, 64, 64)),
        # Images are not square, so that swapped height and width give other numbers.
        "inception_v3": golden(torchvision_model(tv.inception_v3, **inception), 4, (3, 75, 107)),
        "alexnet": golden(torchvision_model(tv.alexnet), 2, (3, 63, 95)),
        "vgg16": golden(torchvision_model(tv.vgg16), 2, (3, 32, 64)),
        "mlp": golden(Mlp(), 4, (1, 28, 28)),
        "ncf": golden(Ncf(), 6, classes=2, entries=2, vocabulary=12),
        "logistic_regression": golden(LogisticRegression(), 6, classes=3, entries=4, vocabulary=12),
    }
    small = {
        "unet": golden(Unet(), 1, (1, 16, 16), classes=3),
        "resnet18": golden(torchvision_model(tv.resnet18), 4, (3, 32, 32)),
        "googlenet": golden(torchvision_model(tv.googlenet, **inception), 4, (3, 32, 32)),
        "inception_v3": golden(torchvision_model(tv.inception_v3, **inception), 3, (3, 75, 75)),
    }
    for network in small.values():
        lengths, products = zip(*network.pop("gradients").values())
        network["gradient"] = [rounded(math.hypot(*lengths)), rounded(sum(products))]
    print("{")
    for name, network in networks.items():
        gradients = network.pop("gradients")
        print(f' "{name}": ' + json.dumps(network)[:-1] + ', "gradients": {')
        lines = [f'  "{key}": [{length:.9g}, {product:.9g}]' for key, (length, product) in gradients.items()]
        print(",\n".join(lines) + "}},")
    lines = [f'  "{name}": ' + json.dumps(network) for name, network in small.items()]
    print(' "small": {\n' + ",\n".join(lines) + "}\n}")


if __name__ == "__main__":
    main()
