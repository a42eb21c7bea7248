#!/usr/bin/python3
"""Makes the networks and losses that tests/conformance/engine/onnx_torch_test.cc compares with.

    make_onnx.py tests/golden/onnx [--resnet18]

Needs PyTorch, torchvision, onnx and onnxscript; the tests need none of them. PyTorch 1.13 made the files,
and 2.15 those of its newer exporter (dynamo). For each network the script writes NAME.onnx, with random
weights, and losses.json with what PyTorch's own training gives on the batches of onnx_torch_test.cc: the
same formula makes them on both sides. On another machine the last bits of running statistics and losses
may differ.
"""

import json
import math
import pathlib
import sys

import language_models
import torch
import torch.nn.functional as F
from torch import nn

STEPS = 10
RATE = 0.05


def fill(count, start):
    """Numbers in [-1, 1) that both sides can compute exactly: a 32-bit congruential generator."""
    state, values = start & 0xFFFFFFFF, []
    for _ in range(count):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        values.append((state >> 8) / 8388608.0 - 1.0)
    return values


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.down = None
        if stride != 1 or inputs != outputs:
            self.down = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (x if self.down is None else self.down(x)))


class SmallResnet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = Block(8, 8, 1)
        self.layer2 = Block(8, 16, 2)
        self.fc = nn.Linear(16, 10)

    def forward(self, x):
        x = self.layer2(self.layer1(self.pool(F.relu(self.bn1(self.conv1(x))))))
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


class SmallTransformer(nn.Module):
    """Decoder blocks as in minGPT: causal attention by a mask, gelu, layers of pre-normalisation."""

    def __init__(self, vocabulary=40, length=12, width=16, heads=2, layers=2):
        super().__init__()
        self.wte = nn.Embedding(vocabulary, width)
        self.wpe = nn.Parameter(torch.randn(1, length, width) * 0.1)
        self.blocks = nn.ModuleList([GptBlock(width, heads, length) for _ in range(layers)])
        self.ln_f = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln_f(x))


class GptBlock(nn.Module):
    def __init__(self, width, heads, length):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.fc, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.register_buffer("mask", torch.tril(torch.ones(1, 1, length, length)))

    def forward(self, x):
        n, t, c = x.shape
        q, k, v = self.qkv(self.ln_1(x)).split(c, dim=2)
        q, k, v = (y.view(n, t, self.heads, c // self.heads).transpose(1, 2) for y in (q, k, v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(c // self.heads)
        scores = scores.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf"))
        y = (F.softmax(scores, dim=-1) @ v).transpose(1, 2).contiguous().view(n, t, c)
        x = x + self.proj(y)
        return x + self.out(F.gelu(self.fc(self.ln_2(x))))


class Encoder(nn.Module):
    """PyTorch's own encoder layers, batch first."""

    def __init__(self, vocabulary=40, width=16):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(width, 2, 32, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        return self.head(self.encoder(self.embedding(tokens)))


class SmallLstm(nn.Module):
    def __init__(self, kind=nn.LSTM, vocabulary=40, width=16):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.rnn = kind(width, 24, num_layers=2, batch_first=True)
        self.head = nn.Linear(24, vocabulary)

    def forward(self, tokens):
        return self.head(self.rnn(self.embedding(tokens))[0])


class SmallUnet(nn.Module):
    """Strided and transposed convolutions, upsampling, concatenation; ends in log-softmax."""

    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(3, 8, 3, 2, 1)
        self.deep = nn.Conv2d(8, 12, 3, 2, 1)
        self.up = nn.ConvTranspose2d(12, 8, 2, 2)
        self.last = nn.Conv2d(24, 16, 3, padding=1)
        self.fc = nn.Linear(16, 10)

    def forward(self, x):
        a = F.leaky_relu(self.down(x), 0.1)
        b = torch.sigmoid(self.deep(a))
        c = torch.cat([a, torch.tanh(self.up(b)), F.interpolate(a, scale_factor=2)[:, :, 4:12, 4:12]], 1)
        return F.log_softmax(self.fc(F.avg_pool2d(F.relu(self.last(c)), 8).squeeze(3).squeeze(2)), 1)


class SmallPools(nn.Module):
    """Average pools that leave padding out, and such whose last windows reach beyond the image."""

    def __init__(self, last=nn.Identity()):
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, padding=1)
        self.fc = nn.Linear(6 * 6, 10)
        self.last = last

    def forward(self, x):
        x = F.avg_pool2d(F.relu(self.conv(x)), 3, 2, 1, count_include_pad=False)
        x = F.avg_pool2d(x, 2, 1, 1, ceil_mode=True, count_include_pad=True)
        x = F.avg_pool2d(x, (3, 2), 2, (1, 0), ceil_mode=True, count_include_pad=False)
        return self.last(self.fc(torch.flatten(F.avg_pool2d(x, 2, 2, ceil_mode=True)[:, :, :2, :3], 1)))


class SmallActivations(nn.Module):
    """Activations of mobile networks and others, and a squeeze and excitation."""

    def __init__(self):
        super().__init__()
        self.first, self.bn = nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16)
        self.depth = nn.Conv2d(16, 16, 3, 1, 1, groups=16)
        self.down, self.up = nn.Conv2d(16, 4, 1), nn.Conv2d(4, 16, 1)
        self.prelu = nn.PReLU(16)
        self.mix = nn.Conv2d(16, 24, 3, 2, 1)
        self.fc = nn.Linear(24, 10)

    def forward(self, x):
        x = F.relu6(3 * self.bn(self.first(x)))
        x = F.hardswish(self.depth(x))
        x = x * F.hardsigmoid(self.up(F.silu(self.down(F.adaptive_avg_pool2d(x, 1)))))
        x = self.mix(self.prelu(x - 0.1))
        a, b, c = x.split(8, 1)
        x = torch.cat([F.elu(a, 0.7), F.selu(b), F.softplus(c) + F.mish(c).clamp(min=-0.2)], 1)
        return self.fc(x.mean((2, 3)))


class SmallNorms(nn.Module):
    """Norms of groups and instances, of all axes of a sample, and of channels last."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 12, 3, 2, 1)
        self.group, self.instance = nn.GroupNorm(3, 12), nn.InstanceNorm2d(12, affine=True)
        self.mix = nn.Conv2d(12, 12, 3, 2, 1)
        self.whole, self.last = nn.LayerNorm((12, 4, 4)), nn.LayerNorm(12)
        self.scale = nn.Parameter(torch.full((12, 1, 1), 0.5))
        self.fc = nn.Linear(12, 10)

    def forward(self, x):
        x = self.instance(F.relu(self.group(self.conv(x))))
        x = self.whole(self.mix(x)) * self.scale
        x = self.last(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        length = x.norm(dim=1, keepdim=True)
        return self.fc((x / (length + 1)).amax((2, 3)))


def normed(x, axis):
    """A norm over one axis alone, as ConvNeXt's own code has it for images."""
    mean = x.mean(axis, keepdim=True)
    return (x - mean) / torch.sqrt((x - mean).pow(2).mean(axis, keepdim=True) + 1e-5)


class SmallAxisNorms(nn.Module):
    """Norms over the channels of images and over time, with weights. There are as many channels as times."""

    def __init__(self):
        super().__init__()
        self.conv, self.mix = nn.Conv2d(3, 12, 3, 2, 1), nn.Conv2d(12, 16, 3, 2, 1)
        self.weight, self.bias = nn.Parameter(torch.rand(12)), nn.Parameter(torch.rand(12))
        self.scale, self.shift = nn.Parameter(torch.rand(16)), nn.Parameter(torch.rand(16))
        self.fc = nn.Linear(16, 10)

    def forward(self, x):
        x = normed(self.conv(x), 1) * self.weight[:, None, None] + self.bias[:, None, None]
        rows = normed(self.mix(F.relu(x)).flatten(2).transpose(1, 2), 1) * self.scale + self.shift
        return self.fc(rows.amax(1))


class SmallMoves(nn.Module):
    """Patches with a class token as in a vision transformer, moved and resized, and reductions."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 4, 4)
        self.token, self.bias = nn.Parameter(torch.randn(1, 1, 16)), nn.Parameter(torch.randn(5, 2))
        self.heads = nn.Parameter(torch.randn(2, 16, 8) * 0.3)
        self.fc = nn.Linear(4 * 16 + 8, 10)
        self.register_buffer("places", torch.tensor([[0, 3, 1], [4, 2, 2]]))

    def forward(self, x):
        x = F.interpolate(F.pad(x, (1, 2, 0, 1), mode="reflect"), size=(32, 24), mode="bilinear")
        x = F.pixel_shuffle(F.pixel_unshuffle(x[:, :, ::2, 2:22], 2), 2)
        rows = self.patches(F.interpolate(x, size=(16, 16), mode="bicubic", align_corners=True))
        rows = rows.flatten(2).transpose(1, 2)
        rows = torch.cat([self.token.expand(rows.shape[0], -1, -1), rows.roll(3, 1)], 1)
        parts = torch.einsum("nic,hcd->nhid", rows, self.heads)
        scores = parts @ parts.transpose(-2, -1) / 3 + self.bias[self.places].sum(-1).mean()
        near = F.softmax(scores.masked_fill(scores > 2, 0.5), -2)
        mixed = torch.maximum(near @ parts, parts).repeat(1, 1, 1, 2)[:, :, 1:5, ::2].mean(1)
        spread = rows[:, 0].unsqueeze(1) * rows[:, 1:5]
        return self.fc(torch.cat([spread.flatten(1), mixed.sum(1)], 1))


class SmallChoices(nn.Module):
    """Choices whose other branch is infinite, NaN or of another size, and learned values as branches."""

    def __init__(self):
        super().__init__()
        self.conv, self.deep = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 8, 3, 2, 1)
        self.absent = nn.Parameter(torch.full((8, 1, 1), 0.3))
        self.limit = nn.Parameter(torch.full((8, 1, 1), -0.2))
        self.fc = nn.Linear(8, 10)

    def forward(self, x):
        x = self.conv(x)
        x = torch.where(x > -0.1, x, self.absent)
        high = torch.where(x > 0.2, torch.log(x.clamp(min=0.2)), torch.tensor(math.inf))
        x = torch.where(high.abs() < 100, high, x)
        x = torch.maximum(self.deep(x), self.limit)
        huge = F.relu(x) * 1e9 + 1e9
        x = torch.minimum(huge, torch.sigmoid(x)) + torch.maximum(-huge, torch.tanh(x))
        closed = (x < 0.2) & ~(x == 0.1)
        spread = F.softmax(x.flatten(2).masked_fill(closed.flatten(2), -1e9), -1)
        return self.fc((spread * x.flatten(2)).sum(-1) + x.mean((2, 3)))


class SmallSounds(nn.Module):
    """Rows of images as channels of a sequence."""

    def __init__(self):
        super().__init__()
        self.conv, self.deep = nn.Conv1d(48, 12, 3, 1, 1), nn.Conv1d(12, 16, 3, 2, 1, groups=2)
        self.bn, self.fc = nn.BatchNorm1d(16), nn.Linear(16, 10)

    def forward(self, x):
        x = F.max_pool1d(F.relu(self.conv(x.flatten(1, 2))), 3, 2, 1)
        x = F.avg_pool1d(self.bn(self.deep(x)), 2, 1, count_include_pad=False)
        return self.fc(F.adaptive_max_pool1d(x, 1).squeeze(2))


class SmallBothWays(nn.Module):
    """Recurrent layers in both directions."""

    def __init__(self, vocabulary=40, width=16):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, 12, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(24, 8, batch_first=True, bidirectional=True)
        self.rnn = nn.RNN(16, 24, batch_first=True, nonlinearity="relu")
        self.tanh = nn.RNN(24, 16, batch_first=True)
        self.head = nn.Linear(16, vocabulary)

    def forward(self, tokens):
        x = self.embedding(tokens) * (tokens != 7).unsqueeze(2).float()
        for layer in (self.lstm, self.gru, self.rnn, self.tanh):
            x = layer(x)[0]
        return self.head(x)


class SmallSpread(nn.Module):
    """Standard deviations and variances, whose number of elements is a product of sizes, and others."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 12, 3, 2, 1)
        self.deep = nn.Conv2d(12, 12, 3, padding=1)
        self.fc = nn.Linear(24, 10)

    def forward(self, x):
        x = F.celu(self.conv(x), 0.5)
        x = (x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 0.1)
        x = F.celu(self.deep(x)) * torch.sign(x)
        pooled = F.lp_pool2d(x.abs() + 0.1, 2, 2)
        return self.fc(torch.cat([x.std((2, 3)) + x.var((2, 3), unbiased=False), pooled.var((2, 3))], 1))


class SmallCosine(nn.Module):
    """A cosine head as that of CLIP, and other learned numbers without an axis; a buffer stays as it is."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 12, 3, 2, 1)
        self.weight = nn.Parameter(torch.randn(10, 12))
        self.shift, self.scale = nn.Parameter(torch.tensor(0.3)), nn.Parameter(torch.tensor(2.0))
        self.temperature = nn.Parameter(torch.tensor(0.7))
        self.average, self.most = nn.Parameter(torch.tensor(0.5)), nn.Parameter(torch.tensor(0.5))
        self.register_buffer("share", torch.tensor(0.5))

    def forward(self, x):
        x = F.relu(self.conv(x) * self.share + self.shift)
        parts = torch.softmax(torch.stack([self.average.exp(), self.most]), 0)
        x = parts[0] * x.mean((2, 3)) + parts[1] * x.amax((2, 3))
        cosines = F.linear(F.normalize(x), F.normalize(self.weight))
        return cosines * self.scale.clamp(max=4.6).exp() / self.temperature


class SmallNumbers(nn.Module):
    """Learned numbers that squeezing, means and norms make, and those that choices and roots take."""

    def __init__(self):
        super().__init__()
        self.conv, self.mixed = nn.Conv2d(3, 12, 3, 2, 1), nn.Parameter(torch.randn(12, 12) * 0.3)
        self.gain, self.row = nn.Parameter(torch.tensor(1.3)), nn.Parameter(torch.tensor(0.8))
        self.most, self.least = nn.Parameter(torch.tensor(0.2)), nn.Parameter(torch.tensor(-0.1))
        self.other, self.root = nn.Parameter(torch.tensor(0.3)), nn.Parameter(torch.tensor(0.9))
        self.limit = nn.Parameter(torch.tensor(0.1))
        self.fc = nn.Linear(12, 10)

    def forward(self, x):
        x = self.conv(x).mean((2, 3)) * self.row.view(1).squeeze() * self.most.exp().clamp(max=100)
        x = F.linear(x, (self.mixed - self.mixed.mean()) / (self.mixed.std() + 1e-3) * self.gain)
        x = torch.where(x > self.limit, x, self.other * x) + torch.maximum(x, self.least)
        spread = self.root.sqrt().unsqueeze(0).expand(12) * (self.mixed - self.mixed.mean()).abs().mean()
        return self.fc(x * spread)


def small_rows():
    return nn.Sequential(nn.Flatten(), nn.Linear(768, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 10))


def thin_resnet18():
    """torchvision's ResNet-18 with a sixteenth of its channels, so that its file is small."""
    from torchvision.models.resnet import BasicBlock, ResNet

    model = ResNet(BasicBlock, [2, 2, 2, 2], num_classes=10)
    model.inplanes = 4
    model.conv1, model.bn1 = nn.Conv2d(3, 4, 7, 2, 3, bias=False), nn.BatchNorm2d(4)
    for i, width in enumerate([4, 8, 16, 32]):
        setattr(model, f"layer{i + 1}", model._make_layer(BasicBlock, width, 2, 1 if i == 0 else 2))
    model.fc = nn.Linear(32, 10)
    return model


def images(batch, size):
    return torch.tensor(fill(batch * 3 * size * size, 7)).view(batch, 3, size, size)


def tokens(batch, length, vocabulary):
    values = [int((v + 1) / 2 * vocabulary) % vocabulary for v in fill(batch * length, 11)]
    return torch.tensor(values).view(batch, length)


def labels(count, classes):
    return torch.tensor([(i * 7 + 3) % classes for i in range(count)])


def one_hot(y):
    return F.one_hot(y, 10).float()


# Those of language_models.py that are tests; make_corpus.py compares all.
LANGUAGE_MODELS = ["encoder_square", "encoder_tutorial", "gpt2_where", "gpt2_new_gelu", "gpt2_places_repeat",
                   "multihead_time_first", "lstm_zeros", "rotary", "padded", "padded_own"]

# Keys are the values of model.loss.
LOSSES = {
    "cross_entropy": F.cross_entropy,
    "sigmoid": lambda x, y: F.binary_cross_entropy(x, one_hot(y)),  # of a network that ends in it
    "squared": lambda x, y: F.mse_loss(x, one_hot(y)),
    "smooth_l1": lambda x, y: F.smooth_l1_loss(x, one_hot(y)),
}


def train(model, x, y, loss_of):
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        logits = model(x)
        if logits.dim() == 3:
            logits = logits.flatten(0, 1)
        loss = loss_of(logits, y)
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
    return losses


def export(model, x, path, training=True, dynamic=True, opset=13, time=False, dynamo=False):
    model.train(training)
    if dynamo:
        made = torch.onnx.export(model, (x,), dynamo=True, optimize=False, verbose=False,
                                 dynamic_shapes=({0: torch.export.Dim("batch")},)).model_proto
        del made.metadata_props[:], made.graph.metadata_props[:]
        for node in made.graph.node:  # traces of the program
            del node.metadata_props[:]
        path.write_bytes(made.SerializeToString())
        return
    state = {k: v.clone() for k, v in model.state_dict().items()}
    mode = torch.onnx.TrainingMode.TRAINING if training else torch.onnx.TrainingMode.EVAL
    torch.onnx.export(model, x, str(path), training=mode, do_constant_folding=not training,
                      opset_version=opset, input_names=["input"], output_names=["logits"],
                      dynamic_axes={"input": {0: "batch"} | ({1: "time"} if time else {})} if dynamic else None)
    model.load_state_dict(state)


def main(folder, large):
    torch.manual_seed(1)
    torch.backends.mkldnn.enabled = False
    if large:
        import torchvision
        cases = {"resnet18": (torchvision.models.resnet18(num_classes=10), images(4, 64), labels(4, 10), {})}
    else:
        x, y = images(4, 16), labels(4, 10)
        t, u = tokens(3, 12, 40), labels(36, 40)
        cases = {
            "resnet": (SmallResnet(), x, y, {}),
            "unet": (SmallUnet(), x, y, {"opset": 11}),
            "gpt": (SmallTransformer(), t, u, {}),
            "gpt_folded": (SmallTransformer(), t, u, {"training": False, "opset": 17}),
            "gpt_fixed_batch": (SmallTransformer(), t, u, {"dynamic": False, "opset": 9}),
            "encoder": (Encoder(), t, u, {"dynamic": False}),
            "lstm": (SmallLstm(), t, u, {}),
            "lstm_folded": (SmallLstm(), t, u, {"training": False, "dynamic": False, "opset": 9}),
            "gru": (SmallLstm(nn.GRU), t, u, {"training": False}),
            "resnet18_thin": (thin_resnet18(), images(4, 64), y, {}),
            "pools": (SmallPools(), x, y, {}),
            "pools_sigmoid": (SmallPools(nn.Sigmoid()), x, y, {"loss": "sigmoid"}),
            "pools_squared": (SmallPools(nn.Softmax(1)), x, y, {"loss": "squared"}),
            "pools_smooth_l1": (SmallPools(), x, y, {"loss": "smooth_l1"}),
            "rows": (small_rows(), x, y, {}),  # made again below; its numbers are drawn here, too
            "activations": (SmallActivations(), x, y, {"opset": 14}),
            "norms": (SmallNorms(), x, y, {"opset": 17}),
            "moves": (SmallMoves(), x, y, {}),
            "sounds": (SmallSounds(), x, y, {}),
            "both_ways": (SmallBothWays(), t, u, {}),
            "choices": (SmallChoices(), x, y, {}),
        }
        for name in LANGUAGE_MODELS:
            make, _ = language_models.CASES[name]
            cases[f"lm_{name}"] = (make(), t, u, {"opset": 14, "time": True})
        cases["spread"] = (SmallSpread(), x, y, {})
        # The files of each of these groups were made by themselves.
        torch.manual_seed(1)
        for name, make in (("cosine", SmallCosine), ("numbers", SmallNumbers)):
            cases[name] = (make(), x, y, {"dynamo": True})
        torch.manual_seed(1)
        cases["axis_norms"] = (SmallAxisNorms(), x, y, {})
        torch.manual_seed(1)
        cases["rows"] = (small_rows(), x, y, {})
    losses = {}
    for name, (model, x, y, how) in cases.items():
        print(name)
        loss = LOSSES[how.pop("loss", "cross_entropy")]
        export(model, x[:1] if not how.get("dynamic", True) else x, folder / f"{name}.onnx", **how)
        losses[name] = train(model, x, y, loss)
        print(" ", losses[name][0], losses[name][-1])
    path = folder / ("resnet18.json" if large else "losses.json")
    path.write_text(json.dumps(losses, indent=1) + "\n")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]), "--resnet18" in sys.argv)
