"""Mixed precision with PyTorch's own autocast and GradScaler: the run's weights are those of a program
that trains alone.

torch_amp_test.py BIN_FOLDER SOURCE_FOLDER
"""

import copy
import math
import sys
import unittest

from torch_training import BATCH, SAMPLES, Kept, points  # first: exits without PyTorch

import torch
from torch import nn

import psgd.torch
from servers import server

STEPS = SAMPLES // BATCH
SHARDS = {"optimizer": "{sgd: {learning_rate: 0.1}}"}


def loss_of(model, x, y):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        hidden = model(x)
        assert hidden.dtype == torch.bfloat16
        return nn.functional.cross_entropy(hidden.float(), y)


class MixedPrecision(unittest.TestCase):
    def train(self, step_of, overlap=False, **how):
        """Calls step_of(model, optimizer, number, x, y) in a run, then alone on the same batches."""
        torch.manual_seed(5)
        model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
        alone = copy.deepcopy(model)
        with server(data=f"{{batch: {BATCH}}}", **how) as at:
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            run = psgd.torch.join(model, optimizer, server=at, overlap=overlap)
            kept = Kept(run, points())
            step = step_of()
            for _ in run.epochs(1):
                for number, (x, y) in enumerate(kept):
                    step(model, optimizer, number, x, y)
        self.assertEqual(run.timings()["steps"], STEPS)
        self.assertEqual(len(kept.batches), STEPS)
        optimizer = torch.optim.SGD(alone.parameters(), 0.1)
        step = step_of()
        first = copy.deepcopy(alone)
        for number, (x, y) in enumerate(kept.batches):
            step(alone, optimizer, number, x, y)
        for one, other, began in zip(model.parameters(), alone.parameters(), first.parameters()):
            self.assertLess((one - other).abs().max().item(), 1e-6)
            self.assertGreater((one - began).abs().max().item(), 1e-3)

    def test_autocast(self):
        def step_of():
            def step(model, optimizer, _, x, y):
                loss = loss_of(model, x, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            return step

        for how in ({}, SHARDS, {"overlap": True}, {"overlap": True, **SHARDS}):
            with self.subTest(how):
                self.train(step_of, **how)

    def test_a_fused_optimizer_has_no_part_of_the_step_on_the_shards(self):
        """GradScaler says so by an argument in PyTorch 1, and by attributes in PyTorch 2."""
        model = nn.Linear(6, 2)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        with server(data=f"{{batch: {BATCH}}}", **SHARDS) as at:
            run = psgd.torch.join(model, optimizer, server=at)
            with self.assertRaisesRegex(psgd.StateError, "without fused=True"):
                optimizer.step(grad_scaler=object())
            optimizer.grad_scale = optimizer.found_inf = torch.zeros(1)
            with self.assertRaisesRegex(psgd.StateError, "without fused=True"):
                optimizer.step()
            run.leave()

    @unittest.skipUnless(hasattr(torch.amp, "GradScaler"), "GradScaler for CPUs came with PyTorch 2.3")
    def test_a_scaler_skips_a_step(self):
        scalers = []

        def step_of(clips):
            scaler = torch.amp.GradScaler("cpu", init_scale=1024)
            scalers.append(scaler)

            def step(model, optimizer, number, x, y):
                loss = loss_of(model, x, y) * (math.inf if number == 3 else 1)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                if clips:
                    scaler.unscale_(optimizer)
                    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                scaler.step(optimizer)
                scaler.update()
            return step

        for how in ({}, SHARDS):
            for clips in (False, True):
                with self.subTest(how, clips=clips):
                    self.train(lambda: step_of(clips), **how)
        self.assertEqual([scaler.get_scale() for scaler in scalers], [512] * len(scalers))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
