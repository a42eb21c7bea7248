"""Steps of one PyTorch worker: whatever is in the model, the run's weights are those of a program
that trains alone.

torch_steps_test.py BIN_FOLDER SOURCE_FOLDER
"""

import copy
import sys
import unittest

try:
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset
except ImportError as error:
    print(f"no PyTorch for this Python: {error}")
    sys.exit(77)

import psgd
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


class Steps(unittest.TestCase):
    def assert_same(self, model, alone, delta=1e-6):
        for (name, one), (_, other) in zip(model.state_dict().items(), alone.state_dict().items()):
            self.assertLess((one.float() - other.float()).abs().max().item(), delta, name)

    def train(self, make_optimizer, model=None, **how):
        """Trains within a run, then alone on the same batches; returns both models."""
        model = model or Tied()
        alone = copy.deepcopy(model)
        with server(data=f"{{batch: {BATCH}}}", **how) as at:
            optimizer = make_optimizer(model)
            run = psgd.torch.join(model, optimizer, server=at)
            kept = Kept(run, points())
            for _ in run.epochs(2):
                for x, y in kept:
                    step(model, optimizer, x, y)
                run.log(accuracy=0.5)
        self.assertEqual(len(kept.batches), 2 * SAMPLES // BATCH)
        self.assertEqual(run.timings()["steps"], len(kept.batches))
        optimizer = make_optimizer(alone)
        for x, y in kept.batches:
            step(alone, optimizer, x, y)
        return model, alone

    def test_any_optimizer_with_groups(self):
        def adam(model):
            return torch.optim.AdamW([
                {"params": [p for n, p in model.named_parameters() if "bias" not in n]},
                {"params": [p for n, p in model.named_parameters() if "bias" in n], "lr": 0.1}])

        self.assert_same(*self.train(adam), delta=1e-5)

    def test_an_optimizer_of_the_shards(self):
        self.assert_same(*self.train(lambda m: torch.optim.SGD(m.parameters(), 0.1, momentum=0.9),
                                     optimizer="{sgd: {learning_rate: 0.1, momentum: 0.9}}"))

    def test_bf16_weights_do_not_round_the_shards(self):
        model = nn.Sequential(nn.Linear(6, 2)).to(torch.bfloat16)
        with server(data=f"{{batch: {BATCH}}}") as at:
            optimizer = torch.optim.SGD(model.parameters(), 1e-3)
            run = psgd.torch.join(model, optimizer, server=at)
            loader = DataLoader(points(), batch_size=BATCH, sampler=run.sampler(points()))
            for _ in run.epochs(1):
                for x, y in loader:
                    step(model, optimizer, x.to(torch.bfloat16), y)
        self.assertTrue(all(torch.isfinite(p).all() for p in model.parameters()))

    def test_accumulated_gradients(self):
        model = nn.Linear(6, 2)
        alone = copy.deepcopy(model)
        with server(data=f"{{batch: {BATCH}}}") as at:
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            run = psgd.torch.join(model, optimizer, server=at)
            kept = Kept(run, points())
            for _ in run.epochs(1):
                for i, (x, y) in enumerate(kept):
                    loss = nn.CrossEntropyLoss()(model(x), y) / 2
                    if i % 2 == 0:
                        with run.accumulate():
                            loss.backward()
                        continue
                    loss.backward()
                    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                    optimizer.step()
                    optimizer.zero_grad()
        self.assertEqual(run.timings()["steps"], SAMPLES // BATCH)
        optimizer = torch.optim.SGD(alone.parameters(), 0.1)
        for i, (x, y) in enumerate(kept.batches):
            (nn.CrossEntropyLoss()(alone(x), y) / 2).backward()
            if i % 2 == 1:
                torch.nn.utils.clip_grad_norm_(alone.parameters(), 0.5)
                optimizer.step()
                optimizer.zero_grad()
        self.assert_same(model, alone)

    def test_a_skipped_step_and_a_loader_with_processes(self):
        model = nn.Linear(6, 2)
        with server(data=f"{{batch: {BATCH}}}") as at:
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
            run = psgd.torch.join(model, optimizer, server=at)
            loader = DataLoader(points(), batch_size=BATCH, sampler=run.sampler(points()),
                                num_workers=2)
            epochs = 0
            for _ in run.epochs(2):
                for i, (x, y) in enumerate(loader):
                    if i != 3:
                        step(model, optimizer, x, y)
                scheduler.step()
                epochs += 1
            self.assertEqual(epochs, 2)
            self.assertEqual(run.timings()["steps"], 2 * SAMPLES // BATCH)

    def test_mistakes(self):
        model = nn.Linear(6, 2)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        with server(data=f"{{batch: {2 * BATCH}}}") as at:
            with self.assertRaisesRegex(psgd.InvalidError, "not of this model"):
                psgd.torch.join(nn.Linear(6, 2), optimizer, server=at)
            run = psgd.torch.join(model, optimizer, server=at)
            with self.assertRaisesRegex(psgd.StateError, "joined a run before"):
                psgd.torch.join(model, optimizer, server=at)
            with self.assertRaisesRegex(psgd.StateError, "run.sampler"):
                next(run.epochs(1))
            loader = DataLoader(points(), batch_size=BATCH, sampler=run.sampler(points()))
            with self.assertRaisesRegex(psgd.StateError, "within its epochs"):
                next(iter(loader))
            with self.assertRaisesRegex(psgd.StateError, "batch_size=8"):
                for _ in run.epochs(1):
                    for x, y in loader:
                        step(model, optimizer, x, y)
            run.leave()
            step(model, optimizer, *next(iter(DataLoader(points(), BATCH))))  # as alone

    def test_a_shape_that_changes(self):
        model = nn.Linear(6, 2)
        with server(data=f"{{batch: {BATCH}}}") as at:
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            run = psgd.torch.join(model, optimizer, server=at)
            loader = DataLoader(points(), batch_size=BATCH, sampler=run.sampler(points()))
            with self.assertRaisesRegex(psgd.InvalidError, "weight has the shape"):
                for _ in run.epochs(1):
                    for x, y in loader:
                        step(model, optimizer, x, y)
                        for parameter, shape in ((model.weight, (3, 6)), (model.bias, (3,))):
                            parameter.data, parameter.grad = torch.zeros(shape), None
            run.leave(failed=True)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
