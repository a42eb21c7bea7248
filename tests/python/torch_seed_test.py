"""Seeds and numbers of workers: repeated seeds differ in their first weights, one seed repeats, and
worker N of the run is ps-run's worker-N.

torch_seed_test.py BIN_FOLDER SOURCE_FOLDER
"""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest
import warnings
from unittest import mock

try:
    import torch
    from torch import nn
except ImportError as error:
    print(f"no PyTorch for this Python: {error}")
    sys.exit(77)

import psgd
import psgd.torch
from servers import server

BIN = pathlib.Path(sys.argv[1])
CONFIG = """
name: seeds
seed: 3
model: client
data: {batch: 4}
consistency: {staleness: 0}
cluster: {shards: 1, workers: 2, deadline: 30s}
"""
SCRIPT = '''
import json, os, sys, time
import torch
from torch.utils.data import DataLoader, TensorDataset
import psgd.torch

seed = psgd.torch.seed()
model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 2))
first = model[0].weight.tolist()
name = os.environ["PSGD_NAME"]
time.sleep(0.5 if name == "worker-0" else 0)  # the other one joins before
optimizer = torch.optim.SGD(model.parameters(), 0.1)
run = psgd.torch.join(model, optimizer)
drawn = torch.rand(3).tolist()
draw = torch.Generator().manual_seed(3)
data = TensorDataset(torch.randn(32, 6, generator=draw))
loader = DataLoader(data, 4, sampler=run.sampler(data))
for _ in run.epochs(1):
    for x, in loader:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
json.dump({"seed": seed, "first": first, "drawn": drawn, "worker": run.worker, "name": name,
           "last": model[0].weight.tolist()}, open(f"{sys.argv[1]}/{name}.json", "w"))
'''


class Seeds(unittest.TestCase):
    def setUp(self):
        self.addCleanup(setattr, psgd.torch, "_seeded", None)
        environment = mock.patch.dict(os.environ)
        environment.start()
        self.addCleanup(environment.stop)
        os.environ.pop("PSGD_SEED", None)

    def run_script(self, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder)
            (path / "config.yaml").write_text(CONFIG)
            (path / "train.py").write_text(SCRIPT)
            done = subprocess.run(
                [BIN / "ps-run", path / "config.yaml", "--run-dir", path / "run", "--quiet",
                 "--threads", "1", *arguments, "--", sys.executable, "-B", path / "train.py", folder],
                capture_output=True, text=True, timeout=120, check=False)
            logs = [log.read_text() for log in path.rglob("worker.log")]
            self.assertEqual(done.returncode, 0, done.stderr + "\n".join(logs))
            return [json.loads((path / f"worker-{i}.json").read_text()) for i in range(2)]

    def test_one_seed_repeats_and_others_differ(self):
        once, again, other = (self.run_script(), self.run_script(),
                              self.run_script("--set", "seed=4"))
        self.assertEqual(once, again)
        self.assertEqual([worker["seed"] for worker in once + other], [3, 3, 4, 4])
        self.assertEqual(once[0]["first"], once[1]["first"])
        self.assertNotEqual(once[0]["first"], other[0]["first"])
        self.assertNotEqual(once[0]["drawn"], once[1]["drawn"])
        self.assertEqual(once[0]["last"], once[1]["last"])
        # The number is that of the process, whichever joins first.
        self.assertEqual([worker["worker"] for worker in once + other], [0, 1, 0, 1])

    def test_alone(self):
        def draws():
            return torch.rand(1).item(), random.random()

        self.assertEqual(psgd.torch.seed(5), 5)
        first = draws()
        self.assertEqual(psgd.torch.seed(5), 5)
        self.assertEqual(draws(), first)
        psgd.torch.seed()
        self.assertNotEqual(draws(), first)
        self.assertEqual(psgd.torch.Alone().worker, 0)

    def join(self):
        """The first number that a worker draws after its join."""
        model = nn.Linear(6, 2)
        with server(data="{batch: 4}", more="seed: 7") as at:
            run = psgd.torch.join(model, torch.optim.SGD(model.parameters(), 0.1), server=at)
            drawn = torch.rand(1).item()
            run.leave(failed=True)
            return drawn

    def test_a_join_says_when_the_seed_is_another(self):
        psgd.torch.seed()
        with self.assertWarnsRegex(UserWarning, "run's seed is 7, .* of seed 1: set PSGD_SEED=7"):
            drawn = self.join()
        os.environ["PSGD_SEED"] = "7"
        self.assertEqual(psgd.torch.seed(), 7)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertEqual(self.join(), drawn)

    def test_a_seed_after_the_join_comes_too_late(self):
        model = nn.Linear(6, 2)
        with server(data="{batch: 4}") as at:
            run = psgd.torch.join(model, torch.optim.SGD(model.parameters(), 0.1), server=at)
            drawn = torch.get_rng_state()
            with self.assertRaisesRegex(psgd.StateError, "call it before the model is made"):
                psgd.torch.seed()
            self.assertTrue(torch.equal(torch.get_rng_state(), drawn))
            run.leave(failed=True)
        self.assertEqual(psgd.torch.seed(5), 5)  # for the next run

    def test_a_join_without_a_seed_draws_on(self):
        torch.manual_seed(2)
        expected = torch.nn.Linear(6, 2), torch.rand(1).item()
        torch.manual_seed(2)
        self.assertEqual(self.join(), expected[1])

    def test_what_the_environment_must_not_say(self):
        os.environ["PSGD_SEED"] = "lucky"
        with self.assertRaisesRegex(psgd.InvalidError, "PSGD_SEED is 'lucky'"):
            psgd.torch.seed()
        os.environ["PSGD_WORKER"] = "-1"
        with self.assertRaisesRegex(psgd.InvalidError, "PSGD_WORKER is '-1'"):
            psgd.Client("127.0.0.1:1")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
