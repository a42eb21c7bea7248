"""Of overlap=True: passes that wait for their own weights only, and gradients that leave early.

torch_overlap_test.py BIN_FOLDER SOURCE_FOLDER
"""

import copy
import sys
import unittest

from torch_training import BATCH, Tied, Training, step  # first: exits without PyTorch

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import psgd
from servers import server


class Attention(nn.Module):
    """Weights that a module uses without calling the module that has them, and a module called late
    whose weights are used early.
    """

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.head = nn.Linear(6, 6, bias=False)
        self.input = nn.Linear(6, 6, bias=False)
        self.input.weight = self.head.weight
        self.norm = nn.BatchNorm1d(6)
        self.attention = nn.MultiheadAttention(6, 2)
        self.last = nn.Linear(6, 2)

    def forward(self, x):
        hidden = self.norm(self.input(x))
        return self.last(self.head(self.attention(hidden, hidden, hidden)[0]))


class Checkpointed(nn.Sequential):
    """Its backward pass computes the forward pass again."""

    def __init__(self):
        torch.manual_seed(5)
        super().__init__(nn.Linear(6, 6), nn.Sequential(nn.Tanh(), nn.Linear(6, 6)), nn.Linear(6, 2))

    def forward(self, x):
        return self[2](checkpoint(self[1], self[0](x), use_reentrant=False))


class Overlap(Training):
    def test_passes_that_overlap_with_the_network(self):
        def sgd(model):
            return torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)

        for model in (Tied(), Attention(), Checkpointed()):
            self.assert_same(*self.train(sgd, copy.deepcopy(model), overlap=True), delta=1e-5)
            self.assert_same(*self.train(sgd, copy.deepcopy(model), overlap=True,
                                         optimizer="{sgd: {learning_rate: 0.1, momentum: 0.9}}"),
                             delta=1e-5)

    def test_overlapping_passes_begin_before_all_weights_are_here(self):
        model = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 2))
        with server(data=f"{{batch: {BATCH}}}", optimizer="{sgd: {learning_rate: 0.1}}") as at:
            run, loader, optimizer = self.joined(at, model, overlap=True)
            asked = []
            wait, wait_for, push = run.client.wait, run.client.wait_for, run.client.push_memory
            run.client.wait = lambda: (asked.append("all"), wait())
            run.client.wait_for = lambda name: (asked.append(name), wait_for(name))
            run.client.push_memory = lambda name, *how, **named: (
                asked.append(f"push {name}"), push(name, *how, **named))
            for _ in run.epochs(1):
                for i, (x, y) in enumerate(loader):
                    if i == 3:
                        model[0]._is_replica = True  # as DataParallel's copies have it
                        with self.assertRaisesRegex(psgd.StateError, "join the DataParallel model"):
                            model(x)
                        del model[0]._is_replica
                    asked.clear()
                    optimizer.zero_grad()
                    loss = nn.CrossEntropyLoss()(model(x), y)
                    forward = list(asked)
                    loss.backward()
                    pushed = asked[len(forward):]
                    optimizer.step()
                    if i > 0:
                        self.assertEqual([name.split(".")[0] for name in forward],
                                         ["0", "1", "1", "2", "2"])  # one came before
                        self.assertEqual(pushed[0], "all")
                        self.assertEqual(set(pushed[1:]), {f"push {n}" for n, _ in
                                                       model.named_parameters()})

    def test_weights_that_hooks_make_of_weights(self):
        class Normed(nn.Sequential):
            def __init__(self):
                torch.manual_seed(5)
                super().__init__(nn.utils.weight_norm(nn.Linear(6, 6)), nn.Linear(6, 2))

            def __deepcopy__(self, memo):
                return Normed()

        self.assert_same(*self.train(lambda m: torch.optim.SGD(m.parameters(), 0.1), Normed(),
                                     overlap=True, optimizer="{sgd: {learning_rate: 0.1}}"),
                         delta=1e-5)

    def test_copies_of_an_overlapping_model_and_its_use_after_leaving(self):
        model = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 2))
        with server(data=f"{{batch: {BATCH}}}") as at:
            run, loader, optimizer = self.joined(at, model, overlap=True)
            for _ in run.epochs(1):
                for i, (x, y) in enumerate(loader):
                    step(model, optimizer, x, y)
                    if i == 2:
                        best = copy.deepcopy(model)
                        kept = copy.deepcopy(model.state_dict())
                        best(x)
                    if i == 4:
                        run.leave()
                        break
                step(model, optimizer, x, y)
                break
        for name, value in best.state_dict().items():
            self.assertTrue(torch.equal(value, kept[name]), name)

    def test_gradients_that_change_after_they_left(self):
        def clip(model, run, loss):
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)

        def clip_values(model, run, loss):
            loss.backward()
            nn.utils.clip_grad_value_(model.parameters(), 0.01)

        def replace(model, run, loss):
            loss.backward()
            model.weight.grad = model.weight.grad * 2

        def again(model, run, loss):
            loss.backward(retain_graph=True)
            loss.backward()

        def unseen(model, run, loss):  # as GradScaler: autograd does not notice
            loss.backward()
            model.weight.grad.data.mul_(0.5)

        def one_of_many(model, run, loss):
            loss.backward()
            model.weight.grad.data[7777, 3] += 1

        def drop(model, run, loss):
            loss.backward()
            model.weight.grad = None

        def skip(model, run, loss):
            loss.backward()
            run.skip()

        for change in (clip, clip_values, replace, again, unseen, one_of_many, drop, skip):
            model = nn.Linear(6, 20000 if change is one_of_many else 2)
            with server(data=f"{{batch: {BATCH}}}", optimizer="{sgd: {learning_rate: 0.1}}") as at:
                run, loader, optimizer = self.joined(at, model, overlap=True)
                with self.assertRaisesRegex(psgd.StateError, "[Jj]oin without overlap=True"):
                    for _ in run.epochs(1):
                        for x, y in loader:
                            optimizer.zero_grad()
                            change(model, run, nn.CrossEntropyLoss()(model(x), y))
                            optimizer.step()
                run.leave(failed=True)

    def test_local_steps_and_overlap_exclude_each_other(self):
        with server(data=f"{{batch: {BATCH}}}", more="local: {steps: 3}") as at:
            with self.assertRaisesRegex(psgd.StateError, "join without it"):
                self.joined(at, nn.Linear(6, 2), overlap=True)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
