"""Networks of the zoo as PyTorch has them, for those that torchvision has not."""
import math

import torch
from torch import nn
from torch.nn import functional as F


class Lenet5(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 20, 5), nn.Conv2d(20, 50, 5)
        self.fc1, self.fc2 = nn.Linear(800, 500), nn.Linear(500, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2).flatten(1)
        return self.fc2(F.relu(self.fc1(x)))


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        for i, (before, after) in enumerate([(1, 32), (32, 64), (64, 64), (64, 64)], 1):
            setattr(self, f"conv{i}", nn.Conv2d(before, after, 3, padding=1, bias=False))
            setattr(self, f"bn{i}", nn.BatchNorm2d(after))
        self.fc1 = nn.Linear(576, 10)

    def forward(self, x):
        for i in range(1, 5):
            x = F.relu(getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(x)))
            x = x if i == 3 else F.max_pool2d(x, 2)
        return self.fc1(x.flatten(1))


class CifarBlock(nn.Module):
    def __init__(self, before, after):
        super().__init__()
        self.stride = after // before
        self.conv1 = nn.Conv2d(before, after, 3, self.stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if self.stride > 1:
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, 0, x.shape[1]))
        return F.relu(x + y)


class Resnet20(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        self.layer1 = nn.Sequential(*(CifarBlock(16, 16) for _ in range(3)))
        self.layer2 = nn.Sequential(CifarBlock(16, 32), CifarBlock(32, 32), CifarBlock(32, 32))
        self.layer3 = nn.Sequential(CifarBlock(32, 64), CifarBlock(64, 64), CifarBlock(64, 64))
        self.fc = nn.Linear(64, 10)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.fc(x.mean((2, 3)))


class Twice(nn.Module):
    def __init__(self, before, after):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(before, after, 3, 1, 1), nn.Conv2d(after, after, 3, 1, 1)

    def forward(self, x):
        return F.relu(self.conv2(F.relu(self.conv1(x))))


class Up(nn.Module):
    def __init__(self, before, after):
        super().__init__()
        self.up = nn.ConvTranspose2d(before, after, 2, 2)
        twice = Twice(before, after)
        self.conv1, self.conv2 = twice.conv1, twice.conv2

    def forward(self, x, skip):
        x = torch.cat([skip, self.up(x)], 1)
        return F.relu(self.conv2(F.relu(self.conv1(x))))


class Unet(nn.Module):
    def __init__(self):
        super().__init__()
        widths = [1, 64, 128, 256, 512]
        for i in range(1, 5):
            setattr(self, f"down{i}", Twice(widths[i - 1], widths[i]))
        self.bottom = Twice(512, 1024)
        for i in range(4, 0, -1):
            setattr(self, f"up{i}", Up(2 * widths[i], widths[i]))
        self.out = nn.Conv2d(64, 3, 1)

    def forward(self, x):
        skips = []
        for i in range(1, 5):
            skips.append(getattr(self, f"down{i}")(x))
            x = F.max_pool2d(skips[-1], 2)
        x = self.bottom(x)
        for i in range(4, 0, -1):
            x = getattr(self, f"up{i}")(x, skips.pop())
        return self.out(x)


def future_of(length, device):
    """Where a place of a sequence must not look: at later places."""
    return torch.triu(torch.ones(length, length, dtype=torch.bool, device=device), 1)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            setattr(self, name, nn.Linear(width, width))

    def forward(self, x):
        n, t, c = x.shape
        split = lambda y: y.reshape(n, t, self.heads, c // self.heads).transpose(1, 2)
        q, k, v = split(self.q_proj(x)), split(self.k_proj(x)), split(self.v_proj(x))
        scores = q @ k.transpose(2, 3) / math.sqrt(c // self.heads)
        scores = scores.masked_fill(future_of(t, x.device), -math.inf)
        return self.out_proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(n, t, c))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(width), Attention(width, heads)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = nn.Module()
        self.mlp.c_fc, self.mlp.c_proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp.c_proj(F.gelu(self.mlp.c_fc(self.ln_2(x))))


class Gpt(nn.Module):
    def __init__(self, length=9, vocabulary=13, width=16, heads=2, layers=2):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.h = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe.weight
        return self.ln_f(self.h(x)) @ self.wte.weight.T


class LstmLm(nn.Module):
    def __init__(self, vocabulary=13, width=16, layers=2):
        super().__init__()
        self.encoder = nn.Embedding(vocabulary, width)
        self.rnn = nn.LSTM(width, width, layers, batch_first=True)
        self.decoder = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        return self.decoder(self.rnn(self.encoder(tokens))[0])


def attend(attention, x, other, mask):
    """Attention of x to `other`, except where the mask is true."""
    n, t, c = x.shape
    split = lambda y: y.reshape(n, -1, attention.heads, c // attention.heads).transpose(1, 2)
    q, k, v = split(attention.q_proj(x)), split(attention.k_proj(other)), split(attention.v_proj(other))
    scores = q @ k.transpose(2, 3) / math.sqrt(c // attention.heads)
    weights = scores.masked_fill(mask, -math.inf).softmax(-1)
    return attention.out_proj((weights @ v).transpose(1, 2).reshape(n, t, c))


class Layer(nn.Module):
    """Of an encoder, or of a decoder with `crosses`."""

    def __init__(self, width, heads, crosses):
        super().__init__()
        self.self_attn, self.norm1 = Attention(width, heads), nn.LayerNorm(width)
        if crosses:
            self.multihead_attn, self.norm2 = Attention(width, heads), nn.LayerNorm(width)
        self.linear1, self.linear2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        setattr(self, "norm3" if crosses else "norm2", nn.LayerNorm(width))

    def forward(self, x, own_mask, source=None, source_mask=None):
        x = self.norm1(x + attend(self.self_attn, x, x, own_mask))
        if source is not None:
            x = self.norm2(x + attend(self.multihead_attn, x, source, source_mask))
        last = self.norm2 if source is None else self.norm3
        return last(x + self.linear2(F.relu(self.linear1(x))))


class Stack(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)


class Transformer(nn.Module):
    """Token 0 pads the source; a sample's last tokens are the decoder's."""

    def __init__(self, source=6, vocabulary=13, width=16, heads=4, layers=2):
        super().__init__()
        self.source = source
        self.embedding = nn.Embedding(vocabulary, width)
        self.encoder = Stack(Layer(width, heads, False) for _ in range(layers))
        self.decoder = Stack(Layer(width, heads, True) for _ in range(layers))

    def embed(self, tokens):
        width = self.embedding.weight.shape[1]
        place = torch.arange(tokens.shape[1], dtype=torch.float64, device=tokens.device)[:, None]
        angle = place / 10000 ** (torch.arange(0, width, 2, dtype=torch.float64, device=tokens.device) / width)
        places = torch.stack([angle.sin(), angle.cos()], -1).flatten(1)
        return math.sqrt(width) * self.embedding(tokens) + places.float()

    def forward(self, tokens):
        first, second = tokens[:, :self.source], tokens[:, self.source:]
        padded = (first == 0).cumsum(1) > 0
        padded = padded[:, None, None, :]
        source = self.embed(first)
        for layer in self.encoder.layers:
            source = layer(source, padded)
        future = future_of(second.shape[1], tokens.device)
        x = self.embed(second)
        for layer in self.decoder.layers:
            x = layer(x, future, source, padded)
        return x @ self.embedding.weight.T


def before_padding(tokens):
    """Where the texts of a batch have tokens; token 0 ends a text."""
    return (tokens == 0).cumsum(1) == 0


def mean_over(x, real):
    return (x * real[..., None]).sum(1) / real.sum(1, keepdim=True)


class BagOfTokens(nn.Module):
    def __init__(self, vocabulary=13, width=16, classes=13):
        super().__init__()
        self.embedding, self.fc = nn.Embedding(vocabulary, width), nn.Linear(width, classes)

    def forward(self, tokens):
        return self.fc(mean_over(self.embedding(tokens), before_padding(tokens)))


class TransformerEncoder(nn.Module):
    embed = Transformer.embed

    def __init__(self, vocabulary=13, width=16, heads=4, layers=2, classes=13):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.encoder = Stack(Layer(width, heads, False) for _ in range(layers))
        self.fc = nn.Linear(width, classes)

    def forward(self, tokens):
        real = before_padding(tokens)
        x = self.embed(tokens)
        for layer in self.encoder.layers:
            x = layer(x, ~real[:, None, None, :])
        return self.fc(mean_over(x, real))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(784, 128), nn.Linear(128, 10)

    def forward(self, x):
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


def against_zero(x):
    return torch.cat([torch.zeros_like(x), x], 1)


class Ncf(nn.Module):
    """Of pairs of a user and an item, rows of the same tables; their values are not read."""

    def __init__(self, rows=12, width=8):
        super().__init__()
        self.gmf, self.mlp = nn.Embedding(rows, width), nn.Embedding(rows, 32)
        self.fc1, self.fc2 = nn.Linear(64, 32), nn.Linear(32, 16)
        self.predict = nn.Linear(width + 16, 1)

    def forward(self, pair, values):
        product = self.gmf(pair).prod(1)
        x = F.relu(self.fc2(F.relu(self.fc1(self.mlp(pair).flatten(1)))))
        return against_zero(self.predict(torch.cat([product, x], 1)))


class LogisticRegression(nn.Module):
    def __init__(self, features=12, classes=3):
        super().__init__()
        self.linear = nn.Module()
        self.linear.weight = nn.Parameter(torch.empty(features, classes))
        self.linear.bias = nn.Parameter(torch.empty(classes))

    def forward(self, index, values):
        return (values[..., None] * self.linear.weight[index]).sum(1) + self.linear.bias
