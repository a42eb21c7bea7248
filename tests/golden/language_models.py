"""Small language models as users of PyTorch write them, for make_onnx.py and make_corpus.py.

Each takes tokens N T and returns logits N T V (some: N*T V). No buffer is trained; CASES names the
buffers that a file does not tell from weights.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY, LENGTH, WIDTH, HEADS = 40, 12, 16, 2
LONGEST = LENGTH + 4  # of positions and masks, more than a sample has


def causal(how, length):
    """A mask of nn.TransformerEncoder or nn.MultiheadAttention."""
    if how == "square":
        return nn.Transformer.generate_square_subsequent_mask(length)
    if how == "bool":
        return torch.triu(torch.ones(length, length, dtype=torch.bool), diagonal=1)
    return torch.triu(torch.full((length, length), float("-inf")), diagonal=1)


def sinusoids():
    positions = torch.arange(LONGEST, dtype=torch.float).unsqueeze(1)
    factors = torch.exp(torch.arange(0, WIDTH, 2).float() * (-math.log(10000.0) / WIDTH))
    table = torch.zeros(LONGEST, WIDTH)
    table[:, 0::2], table[:, 1::2] = torch.sin(positions * factors), torch.cos(positions * factors)
    return table


class Encoder(nn.Module):
    """PyTorch's tutorial: nn.TransformerEncoder with a causal mask, time first or batch first."""

    def __init__(self, mask="square", batch_first=True, sinusoidal=False, **how):
        super().__init__()
        self.mask, self.batch_first = mask, batch_first
        self.embedding, self.positions = nn.Embedding(VOCABULARY, WIDTH), None
        if sinusoidal:
            self.register_buffer("pe", sinusoids().unsqueeze(0 if batch_first else 1))
        else:
            self.positions = nn.Embedding(LONGEST, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 32, dropout=0.0, batch_first=batch_first, **how)
        self.encoder = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(WIDTH) if how else None)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        if not self.batch_first:
            tokens = tokens.t()
        length = tokens.shape[1 if self.batch_first else 0]
        x = self.embedding(tokens) * math.sqrt(WIDTH)
        if self.positions is None:
            x = x + (self.pe[:, :length] if self.batch_first else self.pe[:length])
        else:
            at = self.positions(torch.arange(length, device=tokens.device))
            x = x + (at if self.batch_first else at.unsqueeze(1))
        y = self.head(self.encoder(x, mask=causal(self.mask, length)))
        return y if self.batch_first else y.transpose(0, 1)


class Attention(nn.Module):
    """Causal attention as in GPT-2: `mask` is how later places are left out."""

    def __init__(self, mask):
        super().__init__()
        self.mask = mask
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        open_places = torch.tril(torch.ones(LONGEST, LONGEST)).view(1, 1, LONGEST, LONGEST)
        self.register_buffer("bias", open_places if mask == "float" else open_places.bool())
        self.register_buffer("masked", torch.tensor(-1e4))

    def scores(self, x, length):
        if self.mask == "where":
            return torch.where(self.bias[:, :, :length, :length], x, self.masked.to(x.dtype))
        if self.mask == "where_full":
            return torch.where(self.bias[:, :, :length, :length], x,
                               torch.full([], torch.finfo(x.dtype).min, dtype=x.dtype))
        if self.mask == "product":
            bias = self.bias[:, :, :length, :length].float()
            return x * bias - 1e4 * (1 - bias)
        if self.mask == "arange":
            i = torch.arange(length)
            return x.masked_fill(i[None, :] > i[:, None], -1e9)
        if self.mask == "added":
            return x + torch.triu(torch.ones(length, length) * float("-inf"), diagonal=1)
        if self.mask == "float":
            return x.masked_fill(self.bias[:, :, :length, :length] == 0, float("-inf"))
        return x.masked_fill(~self.bias[:, :, :length, :length], torch.finfo(x.dtype).min)

    def forward(self, x):
        n, t, c = x.shape
        if self.mask == "arange":
            q, k, v = self.qkv(x).reshape(n, t, 3, HEADS, c // HEADS).permute(2, 0, 3, 1, 4)
        else:
            parts = self.qkv(x).chunk(3, dim=-1) if self.mask == "added" else self.qkv(x).split(c, dim=2)
            q, k, v = (y.view(n, t, HEADS, c // HEADS).transpose(1, 2) for y in parts)
        x = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(v.size(-1))
        y = F.softmax(self.scores(x, t), dim=-1) @ v
        return self.proj(y.transpose(1, 2).contiguous().view(n, t, c))


class NewGelu(nn.Module):
    """GPT-2's activation, as Hugging Face writes it."""

    def forward(self, x):
        return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


class Gpt2(nn.Module):
    """Blocks of pre-normalisation. `places`: how positions are made."""

    def __init__(self, mask="fill", places="arange", gelu=None, tied=False, flat=False):
        super().__init__()
        self.places, self.flat = places, flat
        self.wte, self.wpe = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LONGEST, WIDTH)
        self.blocks = nn.ModuleList(
            nn.ModuleDict({"ln_1": nn.LayerNorm(WIDTH), "attn": Attention(mask), "ln_2": nn.LayerNorm(WIDTH),
                           "mlp": nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), gelu or nn.GELU(),
                                                nn.Linear(4 * WIDTH, WIDTH))}) for _ in range(2))
        self.ln_f, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)
        if tied:
            self.head.weight = self.wte.weight
        self.register_buffer("ids", torch.arange(LONGEST).unsqueeze(0))

    def positions(self, tokens):
        n, t = tokens.shape
        row = torch.arange(t, device=tokens.device)
        return {"arange": lambda: row.unsqueeze(0), "expand": lambda: row.unsqueeze(0).expand_as(tokens),
                "repeat": lambda: row.repeat(n, 1), "buffer": lambda: self.ids[:, :t],
                "cumsum": lambda: torch.cumsum(torch.ones_like(tokens), 1) - 1}[self.places]()

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(self.positions(tokens))
        for block in self.blocks:
            x = x + block["attn"](block["ln_1"](x))
            x = x + block["mlp"](block["ln_2"](x))
        y = self.head(self.ln_f(x))
        return y.view(-1, VOCABULARY) if self.flat else y


class Multihead(nn.Module):
    """nn.MultiheadAttention with a causal mask."""

    def __init__(self, mask="bool", batch_first=True, weights=False):
        super().__init__()
        self.mask, self.batch_first, self.weights = mask, batch_first, weights
        self.embedding, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Parameter(torch.randn(LENGTH, WIDTH) * 0.1)
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=batch_first)
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        x = self.embedding(tokens) + self.positions
        y = x if self.batch_first else x.transpose(0, 1)
        mask = causal(self.mask, x.shape[1])
        y = self.attention(y, y, y, attn_mask=mask, need_weights=self.weights)[0]
        return self.head(self.norm(x + (y if self.batch_first else y.transpose(0, 1))))


class Recurrent(nn.Module):
    """`zeros`: the first state is given. `tied`: one table for tokens and logits."""

    def __init__(self, cell=nn.LSTM, batch_first=True, zeros=False, tied=False):
        super().__init__()
        self.batch_first, self.zeros = batch_first, zeros
        self.embedding, self.head = nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, VOCABULARY)
        self.rnn = cell(WIDTH, WIDTH, 2, batch_first=batch_first)
        if tied:
            self.head.weight = self.embedding.weight

    def forward(self, tokens):
        x = self.embedding(tokens)
        x = x if self.batch_first else x.transpose(0, 1)
        state = (torch.zeros(2, tokens.size(0), WIDTH), torch.zeros(2, tokens.size(0), WIDTH))
        y, _ = self.rnn(x, state) if self.zeros else self.rnn(x)
        return self.head(y if self.batch_first else y.transpose(0, 1))


class Rotary(nn.Module):
    """As Llama: root mean square norms, rotary positions, gated feed-forward."""

    def __init__(self):
        super().__init__()
        linear = lambda a, b: nn.Linear(a, b, bias=False)
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.q, self.k, self.v, self.o = (linear(WIDTH, WIDTH) for _ in range(4))
        self.gate, self.up, self.down = linear(WIDTH, 32), linear(WIDTH, 32), linear(32, WIDTH)
        self.norms = nn.ParameterList(nn.Parameter(torch.ones(WIDTH)) for _ in range(3))
        self.head = linear(WIDTH, VOCABULARY)
        self.register_buffer("inv_freq", 1.0 / (10000 ** (torch.arange(0, WIDTH // HEADS, 2).float() / (WIDTH // HEADS))))

    def norm(self, x, i):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.norms[i]

    def turned(self, x, angles):
        a, b = x.chunk(2, -1)
        return x * angles.cos() + torch.cat((-b, a), -1) * angles.sin()

    def forward(self, tokens):
        x = self.embedding(tokens)
        n, t, c = x.shape
        angles = torch.outer(torch.arange(t).float(), self.inv_freq)
        angles = torch.cat((angles, angles), -1)
        h = self.norm(x, 0)
        q, k, v = (part(h).view(n, t, HEADS, c // HEADS).transpose(1, 2) for part in (self.q, self.k, self.v))
        scores = self.turned(q, angles) @ self.turned(k, angles).transpose(2, 3) / math.sqrt(c // HEADS)
        y = F.softmax(scores + torch.full((t, t), float("-inf")).triu(1), -1) @ v
        x = x + self.o(y.transpose(1, 2).reshape(n, t, c))
        h = self.norm(x, 1)
        return self.head(self.norm(x + self.down(F.silu(self.gate(h)) * self.up(h)), 2))


class Padded(nn.Module):
    """A mask of padding, token 3, beside the causal one."""

    def __init__(self, own):
        super().__init__()
        self.own = own
        self.embedding, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 32, dropout=0.0, batch_first=True)
        self.encoder = None if own else nn.TransformerEncoder(layer, 1)
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH) if own else None for _ in range(3))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        t = tokens.shape[1]
        x = self.embedding(tokens) + self.positions(torch.arange(t))
        padding = tokens == 3
        if not self.own:
            return self.head(self.encoder(x, mask=causal("bool", t), src_key_padding_mask=padding))
        scores = self.q(x) @ self.k(x).transpose(1, 2) / 4
        scores = scores.masked_fill(padding[:, None, :] | causal("bool", t), -1e9)
        return self.head(F.softmax(scores, -1) @ self.v(x))


# Name: what makes it, and the buffers that model.frozen has to name.
CASES = {
    "encoder_square": (lambda: Encoder(), []),
    "encoder_bool": (lambda: Encoder("bool"), []),
    "encoder_inf": (lambda: Encoder("inf"), []),
    "encoder_time_first": (lambda: Encoder(batch_first=False), []),
    "encoder_norm_first": (lambda: Encoder(norm_first=True, activation="gelu"), []),
    "encoder_sinusoidal": (lambda: Encoder(sinusoidal=True), ["pe"]),
    "encoder_tutorial": (lambda: Encoder(sinusoidal=True, batch_first=False), ["pe"]),
    **{f"gpt2_{mask}": (lambda mask=mask: Gpt2(mask), [])
       for mask in ("fill", "where", "where_full", "product", "arange", "added", "float")},
    **{f"gpt2_places_{places}": (lambda places=places: Gpt2(places=places), [])
       for places in ("expand", "repeat", "buffer", "cumsum")},
    "gpt2_new_gelu": (lambda: Gpt2(gelu=NewGelu()), []),
    "gpt2_tanh_gelu": (lambda: Gpt2(gelu=nn.GELU(approximate="tanh")), []),
    "gpt2_tied": (lambda: Gpt2(tied=True), []),
    "gpt2_flat": (lambda: Gpt2(flat=True), []),
    "multihead": (lambda: Multihead(), []),
    "multihead_weights": (lambda: Multihead(weights=True), []),
    "multihead_time_first": (lambda: Multihead("inf", batch_first=False), []),
    "lstm": (lambda: Recurrent(), []),
    "lstm_zeros": (lambda: Recurrent(zeros=True), []),
    "lstm_time_first": (lambda: Recurrent(batch_first=False), []),
    "lstm_tied": (lambda: Recurrent(tied=True), []),
    "gru": (lambda: Recurrent(nn.GRU), []),
    "rotary": (lambda: Rotary(), []),
    "padded": (lambda: Padded(own=False), []),
    "padded_own": (lambda: Padded(own=True), []),
}
