"""What tests of PyTorch workers train, in a run and alone. Ends the test if there is no PyTorch."""

import copy
import sys
import unittest
import warnings
from concurrent.futures import ThreadPoolExecutor

try:
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset
except ImportError as error:
    print(f"no PyTorch for this Python: {error}")
    sys.exit(77)

import psgd.torch
from servers import server

SAMPLES, BATCH = 32, 4


def points():
    draw = torch.Generator().manual_seed(3)
    x = torch.randn(SAMPLES, 6, generator=draw)
    return TensorDataset(x, (x.sum(1) > 0).long())


class Tied(nn.Module):
    """Tied, frozen and unused weights, and running statistics."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.first = nn.Linear(6, 6)
        self.again = nn.Linear(6, 6, bias=False)  # the norm would take it out again
        self.again.weight = self.first.weight
        self.norm = nn.BatchNorm1d(6)
        self.frozen = nn.Linear(6, 6)
        self.frozen.weight.requires_grad_(False)
        self.unused = nn.Linear(2, 2)
        self.last = nn.Linear(6, 2)

    def forward(self, x):
        return self.last(self.frozen(self.norm(self.again(torch.tanh(self.first(x))))))


class Kept:
    """A sampler's run that notes which batches it dealt."""

    def __init__(self, run, data):
        self.run, self.batches = run, []
        self.loader = DataLoader(data, batch_size=BATCH, sampler=run.sampler(data))

    def __iter__(self):
        for x, y in self.loader:
            self.batches.append((x.clone(), y.clone()))
            yield x, y


def step(model, optimizer, x, y):
    loss = nn.CrossEntropyLoss()(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


class Training(unittest.TestCase):
    def assert_same(self, model, alone, delta=1e-6):
        for (name, one), (_, other) in zip(model.state_dict().items(), alone.state_dict().items()):
            self.assertLess((one.float() - other.float()).abs().max().item(), delta, name)

    def train(self, make_optimizer, model=None, overlap=False, step=step, **how):
        """Trains within a run, then alone on the same batches; returns both models."""
        model = model or Tied()
        alone = copy.deepcopy(model)
        with server(data=f"{{batch: {BATCH}}}", **how) as at:
            optimizer = make_optimizer(model)
            run = psgd.torch.join(model, optimizer, server=at, overlap=overlap)
            kept = Kept(run, points())
            for _ in run.epochs(2):
                for x, y in kept:
                    step(model, optimizer, x, y)
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    run.log(accuracy=0.5, loss=torch.ones((), requires_grad=True))
        self.assertEqual(len(kept.batches), 2 * SAMPLES // BATCH)
        self.assertEqual(run.timings()["steps"], len(kept.batches))
        optimizer = make_optimizer(alone)
        for x, y in kept.batches:
            step(alone, optimizer, x, y)
        return model, alone

    def joined(self, at, model, optimizer=None, **how):
        """A run of SGD, and its loader."""
        optimizer = optimizer or torch.optim.SGD(
            [p for p in model.parameters() if p.requires_grad], 0.1)
        run = psgd.torch.join(model, optimizer, server=at, **how)
        loader = DataLoader(points(), batch_size=BATCH, sampler=run.sampler(points()))
        return run, loader, optimizer

    def both(self, work, make=lambda: nn.Linear(6, 2), rate=0.1, samples=SAMPLES):
        """What work(run, batches, model, optimizer) returns of two workers, in threads, by number."""
        data = TensorDataset(torch.randn(samples, 6), torch.arange(samples) % 2)
        models = [make() for _ in range(2)]
        with server(data=f"{{batch: {BATCH}}}", workers=2) as at, ThreadPoolExecutor(2) as pool:
            def worker(model):
                optimizer = torch.optim.SGD(model.parameters(), rate)
                run = psgd.torch.join(model, optimizer, server=at)
                try:
                    return run.worker, work(run, Kept(run, data), model, optimizer)
                except Exception:
                    run.leave(failed=True)  # the other would wait
                    raise

            return [done for _, done in sorted(pool.map(worker, models), key=lambda done: done[0])]
