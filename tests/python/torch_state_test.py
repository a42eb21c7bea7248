"""What a worker keeps in checkpoints: a run that stops and is resumed ends with the weights, bit for
bit, of one that never stopped.

torch_state_test.py BIN_FOLDER SOURCE_FOLDER
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

try:
    import torch
except ImportError as error:
    print(f"no PyTorch for this Python: {error}")
    sys.exit(77)

from psgd._torch_state import State
from servers import children, is_in_sync

BIN, SOURCE = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
HERE = pathlib.Path(__file__).parent
CONFIG = """
name: torch-state
model: client
data: {{batch: 8}}
train: {{epochs: {epochs}}}
consistency: {{staleness: 0}}
cluster: {{shards: {shards}, workers: {workers}, deadline: 30s}}
"""
EPOCHS = 6


class RandomNumbers(unittest.TestCase):
    """Of GPUs, which are not here: torch.cuda is another one."""

    def setUp(self):
        self.model = torch.nn.Linear(2, 2)
        # PyTorch 2 imports parts that need the true torch.cuda with the first optimizer.
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1)
        self.numbers = [torch.arange(16, dtype=torch.uint8) + i for i in range(2)]
        self.cuda = mock.Mock()
        self.cuda.get_rng_state_all.return_value = self.numbers
        self.cuda.is_available.return_value = True
        self.cuda.device_count.return_value = 2
        replaced = mock.patch.object(torch, "cuda", self.cuda)
        replaced.start()
        self.addCleanup(replaced.stop)

    def state(self):
        return State(self.model, self.optimizer, worker=0)

    def save(self):
        return bytes(self.state().save(travels=set(), within_epoch=False))

    def test_come_back(self):
        self.state().load(self.save())
        (restored,), _ = self.cuda.set_rng_state_all.call_args
        self.assertEqual([one.tolist() for one in restored],
                         [one.tolist() for one in self.numbers])

    def test_of_another_number_of_gpus_begin_anew(self):
        saved = self.save()
        for there in (1, 0):
            self.cuda.device_count.return_value = there
            self.cuda.is_available.return_value = there > 0
            with self.assertWarnsRegex(UserWarning, f"of 2 GPUs, and this worker sees {there}"):
                self.state().load(saved)
        self.cuda.set_rng_state_all.assert_not_called()

    def test_are_not_there_before_a_gpu_is_used(self):
        self.cuda.is_initialized.return_value = False
        self.state().load(self.save())
        self.cuda.get_rng_state_all.assert_not_called()
        self.cuda.set_rng_state_all.assert_not_called()


class Runs(unittest.TestCase):
    def run_to(self, folder, epochs, *arguments, shards=2, workers=1, **environment):
        """Runs, or resumes the run of the folder, until so many epochs are done."""
        folder = pathlib.Path(folder)
        script = ["--", sys.executable, str(HERE / "torch_state_worker.py"), str(folder),
                  str(epochs)]
        if (folder / "run").exists():
            command = ["--resume", folder / "run", "--set", f"train.epochs={epochs}", *arguments]
        else:
            (folder / "config.yaml").write_text(
                CONFIG.format(epochs=epochs, shards=shards, workers=workers))
            command = [folder / "config.yaml", "--run-dir", folder / "run", *arguments]
        with open(folder / "errors", "w", encoding="utf-8") as errors:
            return subprocess.Popen(
                [BIN / "ps-run", *command, "--threads", "1", *script],
                env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **environment},
                stdout=subprocess.DEVNULL, stderr=errors)

    def said(self, folder):
        return (pathlib.Path(folder) / "errors").read_text()

    def finish(self, process, folder, code=0):
        process.wait(timeout=120)
        logs = [path.read_text() for path in pathlib.Path(folder).rglob("worker.log")]
        self.assertEqual(process.returncode, code, self.said(folder) + "\n".join(logs))

    def train(self, folder, epochs, *arguments, **how):
        self.finish(self.run_to(folder, epochs, *arguments, **how), folder)

    def last(self, folder, worker=0):
        return torch.load(f"{folder}/worker-{worker}.pt")

    def assert_same(self, one, other):
        self.assertEqual(set(one), set(other))
        for name, value in one.items():
            self.assertTrue(torch.equal(value, other[name]), name)

    @classmethod
    def setUpClass(cls):
        cls.straight = tempfile.TemporaryDirectory()
        cls().train(cls.straight.name, EPOCHS)

    @classmethod
    def tearDownClass(cls):
        cls.straight.cleanup()

    def test_a_run_that_goes_further_than_it_was_to(self):
        with tempfile.TemporaryDirectory() as folder:
            for epochs in (2, 3, EPOCHS):
                self.train(folder, epochs)
            self.assert_same(self.last(folder), self.last(self.straight.name))
            kept = pathlib.Path(folder) / "run/summary.json"
            summary = json.loads(kept.read_text())
            self.assertGreater(summary["wall_seconds"], 1.5 * summary["seconds_since_resume"])
            self.assertEqual(summary["steps"], 10 * EPOCHS)
            before = kept.read_text()
            self.train(folder, EPOCHS)
            self.assertIn("nothing was left to train: its summary is as before", self.said(folder))
            self.assertEqual(kept.read_text(), before)

    def wait_until(self, done, run, folder):
        while not done():
            self.assertIsNone(run.poll(), self.said(folder))
            time.sleep(0.02)

    def wait_for_steps(self, count, run, folder):
        steps = pathlib.Path(folder) / "steps"
        self.wait_until(lambda: steps.exists() and steps.stat().st_size >= count, run, folder)

    def stop(self, folder, **environment):
        """Asks a run to end in its third epoch."""
        run = self.run_to(folder, EPOCHS, SLOW="0.02", **environment)
        self.wait_for_steps(25, run, folder)
        run.send_signal(signal.SIGINT)
        self.finish(run, folder, code=3)
        self.assertLess((pathlib.Path(folder) / "steps").stat().st_size, 10 * EPOCHS)

    def assert_sound(self, folder):
        verified = subprocess.run([BIN / "ps-ctl", "verify", pathlib.Path(folder) / "run"],
                                  capture_output=True, text=True, check=False)
        self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)
        self.assertIn("sound", verified.stdout)

    def test_a_run_that_was_asked_to_end_within_an_epoch(self):
        with tempfile.TemporaryDirectory() as folder:
            self.stop(folder)
            self.train(folder, EPOCHS)
            self.assert_same(self.last(folder), self.last(self.straight.name))

    def test_likewise_while_its_loader_is_ahead(self):
        with tempfile.TemporaryDirectory() as folder:
            self.stop(folder, AHEAD="2")
            self.train(folder, EPOCHS, AHEAD="2")
            # No step is lost, and none is counted twice: neither of the run nor of the program.
            self.assertEqual(self.last(folder)["steps"].item(), 10 * EPOCHS)
            self.assertEqual(self.last(folder)["workers"].tolist(), [0] * EPOCHS)
            self.assertEqual(self.last(folder)["rate"], self.last(self.straight.name)["rate"])

    def test_a_large_state_on_another_number_of_shards(self):
        with tempfile.TemporaryDirectory() as folder:
            self.train(folder, 2, LARGE="40")
            start = time.monotonic()
            self.train(folder, EPOCHS, "--set", "cluster.shards=3", LARGE="40")
            print(f"resumed with 40 MB of state in {time.monotonic() - start:.1f} s, all told")
            self.assert_same(self.last(folder), self.last(self.straight.name))

    def test_a_server_that_recovers_from_its_journal(self):
        journal = ["--set", "durability.acknowledge=journal"]
        with tempfile.TemporaryDirectory() as folder:
            run = self.run_to(folder, 3, *journal, SLOW="0.02", LARGE="5")
            for steps in (8, 18):
                self.wait_for_steps(steps, run, folder)
                os.kill(children(run.pid, "ps-server")[0], signal.SIGKILL)
            self.finish(run, folder)
            self.assertEqual(self.said(folder).count("is back"), 2)
            self.assert_sound(folder)
            # It began before the checkpoint's state was loaded, and recovers afterwards.
            run = self.run_to(folder, EPOCHS, SLOW="0.02", LARGE="5")
            self.wait_for_steps(38, run, folder)
            os.kill(children(run.pid, "ps-server")[0], signal.SIGKILL)
            self.finish(run, folder)
            self.assert_sound(folder)
            self.assert_same(self.last(folder), self.last(self.straight.name))

    @unittest.skipUnless(shutil.which("etcd"), "no etcd: install etcd-server")
    def test_copies_on_two_servers_of_which_one_dies(self):
        copies = ["--set", "cluster.servers=2", "--set", "cluster.copies=2",
                  "--set", "cluster.lease=20s", "--set", "durability.acknowledge=journal"]
        with tempfile.TemporaryDirectory() as folder:
            self.train(folder, 1, *copies, LARGE="5")
            run = self.run_to(folder, 4, LARGE="5", SLOW="0.1")
            self.wait_until(lambda: is_in_sync(self.said(folder), "torch-state"), run, folder)
            self.wait_for_steps(15, run, folder)
            os.kill(children(run.pid, "ps-server")[0], signal.SIGKILL)
            self.finish(run, folder)
            self.assertIn("leads the run", self.said(folder))
            self.assert_sound(folder)
            self.train(folder, EPOCHS, LARGE="5")
            self.assert_same(self.last(folder), self.last(self.straight.name))

    def test_each_worker_gets_its_own_and_a_new_one_that_of_the_first(self):
        with tempfile.TemporaryDirectory() as folder:
            self.train(folder, 1, workers=2)
            self.train(folder, 2)
            own = [self.last(folder, worker)["workers"].tolist() for worker in range(2)]
            self.assertEqual(own, [[0, 0], [1, 1]])
            self.train(folder, 3, "--set", "cluster.workers=3", "--workers", "3")
            own = [self.last(folder, worker)["workers"].tolist() for worker in range(3)]
            self.assertEqual(own, [[0, 0, 0], [1, 1, 1], [0, 0, 2]])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
