"""A translator in the manner of GNMT, whose language is reversal: python3 lstm_translator.py --epochs 4

    ps-run examples/cluster.yaml --workers 2 -- python3 examples/lstm_translator.py

The first layer of the encoder reads in both directions, the decoder attends to its output, and
layers are added to what they read.
"""

import argparse

import psgd.torch
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader

WORDS, WIDTH = 24, 96
NOTHING, BEGIN, END = 0, 1, 2


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH, padding_idx=NOTHING)
        self.both_ways = nn.LSTM(WIDTH, WIDTH // 2, batch_first=True, bidirectional=True)
        self.encoder = nn.LSTM(WIDTH, WIDTH, batch_first=True)
        self.query = nn.Linear(WIDTH, WIDTH, bias=False)
        self.key = nn.Linear(WIDTH, WIDTH, bias=False)
        self.score = nn.Linear(WIDTH, 1, bias=False)
        self.decoder1 = nn.LSTM(WIDTH, WIDTH, batch_first=True)
        self.decoder2 = nn.LSTM(2 * WIDTH, WIDTH, batch_first=True)
        self.out = nn.Linear(WIDTH, WORDS)

    def forward(self, source, before):
        lengths = (source != NOTHING).sum(1).cpu()
        read = pack_padded_sequence(self.words(source), lengths, True, enforce_sorted=False)
        read = pad_packed_sequence(self.both_ways(read)[0], batch_first=True)[0]
        read = read + self.encoder(read)[0]
        said = self.decoder1(self.words(before))[0]
        scores = self.score(torch.tanh(self.query(said).unsqueeze(2) + self.key(read).unsqueeze(1)))
        scores = scores.squeeze(3).masked_fill((source == NOTHING).unsqueeze(1), -torch.inf)
        attended = scores.softmax(2) @ read
        return self.out(said + self.decoder2(torch.cat([said, attended], 2))[0])


def generate(samples, seed):
    """Sentences of 4 to 10 words."""
    draw = torch.Generator().manual_seed(seed)
    lengths = torch.randint(4, 11, (samples,), generator=draw).tolist()
    return [torch.randint(3, WORDS, (length,), generator=draw) for length in lengths]


def together(sentences):
    """A batch: the sentences, what the decoder has said before, and what it should say."""
    begin, end = torch.tensor([BEGIN]), torch.tensor([END])
    turned = [sentence.flip(0) for sentence in sentences]
    return (pad_sequence(sentences, True), pad_sequence([torch.cat([begin, t]) for t in turned], True),
            pad_sequence([torch.cat([t, end]) for t in turned], True))


def loss_of(source, before, target):
    return F.cross_entropy(model(source, before).flatten(0, 1), target.flatten(),
                           ignore_index=NOTHING)


def evaluate(sentences):
    source, before, target = together(sentences)
    with torch.no_grad():
        right = (model(source, before).argmax(2) == target)[target != NOTHING]
        return {"loss": loss_of(source, before, target), "accuracy": right.float().mean()}


parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--lr", type=float, default=4e-3)
arguments = parser.parse_args()
psgd.torch.seed()

model = Translator()
optimizer = torch.optim.Adam(model.parameters(), arguments.lr)
train, test = generate(6400, 1), generate(256, 2)
run = psgd.torch.join(model, optimizer)
loader = DataLoader(train, batch_size=64, sampler=run.sampler(train), collate_fn=together,
                    drop_last=True)
for epoch in run.epochs(arguments.epochs):
    for batch in loader:
        optimizer.zero_grad()
        loss_of(*batch).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5)
        optimizer.step()
    run.log(**evaluate(test))
