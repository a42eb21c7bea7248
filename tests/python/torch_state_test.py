"""What a worker keeps in checkpoints: a run that stops and is resumed ends with the weights, bit for
bit, of one that never stopped.

torch_state_test.py BIN_FOLDER SOURCE_FOLDER
"""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

try:
    import torch
except ImportError as error:
    print(f"no PyTorch for this Python: {error}")
    sys.exit(77)

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


class State(unittest.TestCase):
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
        return subprocess.Popen([BIN / "ps-run", *command, "--quiet", "--threads", "1", *script],
                                env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **environment},
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def finish(self, process, folder, code=0):
        said = process.communicate(timeout=120)[1]
        logs = [path.read_text() for path in pathlib.Path(folder).rglob("worker.log")]
        self.assertEqual(process.returncode, code, said + "\n".join(logs))
        return said

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

    def stop(self, folder, **environment):
        """Asks a run to end in its third epoch."""
        run = self.run_to(folder, EPOCHS, SLOW="0.02", **environment)
        steps = pathlib.Path(folder) / "steps"
        while run.poll() is None and (not steps.exists() or steps.stat().st_size < 25):
            time.sleep(0.01)
        run.send_signal(signal.SIGINT)
        self.finish(run, folder, code=3)
        self.assertLess(steps.stat().st_size, 10 * EPOCHS)

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
