"""A model whose tensors change their names after the join: an exception names them.

torch_layout_test.py BIN_FOLDER SOURCE_FOLDER
"""

import sys
import unittest

from torch_training import BATCH, SAMPLES, points, step  # first: exits without PyTorch

import torch
from torch import nn
from torch.utils.data import DataLoader

import psgd.torch
from servers import server


def add_to_optimizer(model, optimizer):
    optimizer.add_param_group({"params": list(model.parameters())})


class Layout(unittest.TestCase):
    def train(self, change):
        """One epoch of a network of two layers, which `change` changes after a step."""
        model = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 2))
        model.register_module("norm", nn.BatchNorm1d(2, affine=False))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        with server(data=f"{{batch: {BATCH}}}") as at:
            run = psgd.torch.join(model, optimizer, server=at)
            loader = DataLoader(points(), batch_size=BATCH, sampler=run.sampler(points()))
            try:
                for _ in run.epochs(1):
                    for i, (x, y) in enumerate(loader):
                        if i == 1:
                            change(model, optimizer)
                        step(model, optimizer, x, y)
            finally:
                run.leave(failed=True)
        return run.timings()["steps"]

    def fails(self, text, change):
        with self.subTest(text), self.assertRaisesRegex(
                psgd.InvalidError, text + ".*join after the model is complete"):
            self.train(change)

    def test_what_is_added(self):
        def in_a_group(model, optimizer):
            model.head = nn.Linear(2, 2)
            add_to_optimizer(model.head, optimizer)

        def in_no_group(model, _):
            model.head = nn.Linear(2, 2)

        def parameter(model, _):
            model[0].scale = nn.Parameter(torch.ones(1))

        self.fails("head.weight, head.bias: added", in_a_group)
        self.fails("head.weight, head.bias: added", in_no_group)
        self.fails("0.scale: added", parameter)

    def test_what_is_renamed(self):
        def module(model, _):
            model.new = model._modules.pop("1")
            model.norm = model._modules.pop("norm")  # which is the last one

        def parameter(model, _):
            first = model[0]
            first.w = first._parameters.pop("weight")
            first.forward = lambda x: nn.functional.linear(x, first.w, first.bias)

        def wrapped(model, _):
            model[0] = nn.Sequential(model[0])

        def statistic(model, _):
            model.last = model._modules.pop("norm")

        self.fails("1.weight is called new.weight now", module)
        self.fails("0.weight is called 0.w now", parameter)
        self.fails("0.weight is called 0.0.weight now", wrapped)
        self.fails("norm.running_mean is called last.running_mean now", statistic)

    def test_what_is_replaced_or_removed(self):
        def replaced(model, optimizer):
            model[1] = nn.Linear(6, 2)
            add_to_optimizer(model[1], optimizer)

        def removed(model, _):
            del model.norm

        self.fails("1.weight is of another module", replaced)
        self.fails("norm.running_mean is not in the model any more", removed)

    def test_parameters_that_the_optimizer_has_and_the_model_has_not(self):
        def another(model, optimizer):
            add_to_optimizer(nn.Linear(3, 2), optimizer)

        def replaced(model, _):
            model[1].weight = nn.Parameter(torch.zeros(2, 6))

        for change, text in ((another, r"not of this model: one of shape \[2, 3\], one of shape \[2\];"),
                             (replaced, "not of this model: 1.weight;")):
            with self.assertRaisesRegex(psgd.InvalidError, text):
                self.train(change)

    def test_what_may_change(self):
        def frozen_part(model, _):
            model.teacher = nn.Linear(2, 2).requires_grad_(False)

        def activation(model, _):
            model.norm = nn.Sequential(model.norm, nn.ReLU())
            model.norm = model.norm[0]

        def parameter(model, optimizer):
            model[1].weight = nn.Parameter(torch.zeros(2, 6))
            optimizer.param_groups[0]["params"] = list(model.parameters())
            optimizer.state.clear()

        for change in (frozen_part, activation, parameter):
            self.assertEqual(self.train(change), SAMPLES // BATCH)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
