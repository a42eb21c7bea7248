"""ps-run with two PyTorch workers: their weights are those of one process with batches of both.

torch_run_test.py BIN_FOLDER SOURCE_FOLDER
"""

import difflib
import gzip
import json
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
    from torch import nn
except ImportError as error:
    print(f"no PyTorch for this Python: {error}")
    sys.exit(77)

import torch_worker as worker

BIN, SOURCE = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
CONFIG = """
name: torch-test
model: client
data: {{batch: {batch}}}
consistency: {{staleness: {staleness}}}
compression: {{push: {push}, dense_below: 64}}
cluster: {{shards: 2, workers: 2, deadline: 30s}}
local: {{steps: {local}}}
"""
HERE = pathlib.Path(__file__).parent
SCRIPT = """
import os, signal, sys, time
import torch
from torch.utils.data import DataLoader, TensorDataset
import psgd.torch

torch.set_num_threads(1)
data = TensorDataset(torch.randn(512, 4))
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
run = psgd.torch.join(model, optimizer)
loader = DataLoader(data, 16, sampler=run.sampler(data))
for epoch in run.epochs(2):
    for batch, (x,) in enumerate(loader):
        if epoch == 1 and batch == 4:
            {how}
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
"""


class Run:
    """One run of ps-run, which must end in time."""

    def __init__(self, folder, command, staleness=0, push="none", local=1, quiet=True):
        self.folder = pathlib.Path(folder)
        config = self.folder / "config.yaml"
        config.write_text(CONFIG.format(batch=worker.BATCH, staleness=staleness, push=push,
                                        local=local))
        self.dir = self.folder / "run"
        self.done = subprocess.run(
            [BIN / "ps-run", config, "--run-dir", self.dir, *(["--quiet"] if quiet else []),
             "--threads", "1", "--", *command], capture_output=True, text=True, timeout=120,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})

    def weights(self):
        """Of weights.safetensors, by name."""
        data = (self.dir / "weights.safetensors").read_bytes()
        size = int.from_bytes(data[:8], "little")
        entries = json.loads(data[8:8 + size])
        return {name: torch.frombuffer(bytearray(data[8 + size + entry["data_offsets"][0]:
                                                      8 + size + entry["data_offsets"][1]]),
                                       dtype=torch.float32).reshape(entry["shape"])
                for name, entry in entries.items() if name != "__metadata__"}

    def log(self):
        texts = [f"{self.done.stderr}"]
        texts += [path.read_text() for path in sorted(self.dir.glob("worker-*/worker.log"))]
        return "\n".join(texts)

    def summary(self):
        return json.loads((self.dir / "summary.json").read_text())


class TorchRun(unittest.TestCase):
    def train(self, folder, epochs, **how):
        script = [sys.executable, str(HERE / "torch_worker.py"), folder, str(epochs)]
        run = Run(folder, script, **how)
        self.assertEqual(run.done.returncode, 0, run.log())
        return run, [torch.load(f"{folder}/worker-{i}.pt") for i in range(2)]

    def test_weights_are_those_of_one_process_with_both_batches(self):
        with tempfile.TemporaryDirectory() as folder:
            run, workers = self.train(folder, 2)
            self.assertEqual(len(workers[0]["seen"]), len(workers[1]["seen"]))
            for name, value in workers[0]["first"].items():
                self.assertTrue(torch.equal(value, workers[1]["first"][name]), name)
            # Each sample once an epoch.
            for epoch in range(2):
                dealt = [i for w in workers for e, batch in w["seen"] if e == epoch for i in batch]
                self.assertEqual(sorted(dealt), list(range(worker.SAMPLES)))

            data, model = worker.Points(), worker.network(0)
            model.load_state_dict(workers[0]["first"])
            optimizer = worker.optimizer_of(model)
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=worker.DECAY)
            before = 0
            for (epoch, one), (_, other) in zip(workers[0]["seen"], workers[1]["seen"]):
                if epoch != before:
                    scheduler.step()
                    before = epoch
                batch = one + other
                loss = nn.CrossEntropyLoss()(model(data.x[batch]), data.y[batch])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            for name, value in model.state_dict().items():
                for one in workers:
                    furthest = (one["last"][name] - value).abs().max().item()
                    self.assertLess(furthest, 1e-5, name)

            for name, value in run.weights().items():
                self.assertTrue(torch.equal(value, workers[0]["last"][name]), name)

            summary = run.summary()
            self.assertAlmostEqual(summary["test_accuracy"], workers[0]["accuracy"], places=5)
            metrics = (run.dir / "metrics.jsonl").read_text()
            self.assertIn("margin", metrics)
            self.assertEqual(workers[0]["timings"]["steps"], len(workers[0]["seen"]))

    def test_local_steps_end_with_the_mean_of_the_workers(self):
        steps = 5
        with tempfile.TemporaryDirectory() as folder:
            run, workers = self.train(folder, 1, local=steps)
            data = worker.Points()
            seen = [[batch for _, batch in w["seen"]] for w in workers]
            self.assertEqual(len(seen[0]), len(seen[1]))
            models = [worker.network(0) for _ in workers]
            optimizers = [worker.optimizer_of(model) for model in models]
            mean = workers[0]["first"]
            for begin in range(0, len(seen[0]), steps):
                for model, optimizer, batches in zip(models, optimizers, seen):
                    model.load_state_dict(mean)
                    for batch in batches[begin:begin + steps]:
                        loss = nn.CrossEntropyLoss()(model(data.x[batch]), data.y[batch])
                        optimizer.zero_grad()
                        loss.backward()
                        optimizer.step()
                states = [model.state_dict() for model in models]
                mean = {name: (states[0][name] + states[1][name]) / 2 for name in mean}
            for name, value in run.weights().items():
                self.assertLess((mean[name] - value).abs().max().item(), 1e-5, name)
            exchanges = -(-len(seen[0]) // steps)
            dense = sum(value.numel() * 4 for value in mean.values())
            self.assertLess(run.summary()["bytes_pushed"], 2 * exchanges * (dense + 2000))

    def test_what_its_programs_note_is_shown_and_kept(self):
        script = SCRIPT.format(how="pass").replace("optimizer.step()", "pass", 1)
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "train.py").write_text(script)
            run = Run(folder, [sys.executable, f"{folder}/train.py"], push="int8", quiet=False)
            self.assertEqual(run.done.returncode, 0, run.log())
            for note in ("codec int8 carries 0 of 2 tensors", "16 of 16 batches of an epoch made no step"):
                self.assertEqual(run.done.stderr.count(f"note: {note}"), 1, run.log())
                self.assertEqual(run.summary()["note"].count(note), 1)
            self.assertEqual(run.summary()["steps"], 0)

    def test_sparse_and_stale_updates_train_as_well(self):
        with tempfile.TemporaryDirectory() as folder:
            run, workers = self.train(folder, 16, staleness=2, push="{topk: {density: 0.1}}")
            self.assertGreater(workers[0]["accuracy"], 0.6)
            self.assertEqual(run.log().count("join(..., mask_momentum=True)"), 1)

    def test_the_samples_of_a_worker_that_dies_are_dealt_again(self):
        with tempfile.TemporaryDirectory() as folder:
            run = Run(folder, [sys.executable, str(HERE / "torch_worker.py"), folder, "1", "6"])
            self.assertEqual(run.done.returncode, 0, run.log())
            files = [pathlib.Path(folder) / f"worker-{i}.jsonl" for i in range(2)]
            seen = [[json.loads(line)[1] for line in file.read_text().splitlines()]
                    for file in files]
            self.assertEqual(len(seen[1]), 6)
            self.assertEqual({i for batches in seen for batch in batches for i in batch},
                             set(range(worker.SAMPLES)))
            self.assertGreaterEqual(len(seen[0]), worker.SAMPLES // worker.BATCH - 6)
            # The epoch came again, and its results are those of all samples.
            survivor = torch.load(f"{folder}/worker-0.pt")
            self.assertEqual(survivor["epochs"], [0, 0])
            self.assertAlmostEqual(run.summary()["test_accuracy"], survivor["accuracy"], places=5)
            self.assertAlmostEqual(run.summary()["test_loss"], survivor["loss"], places=5)

    def test_an_example(self):
        """It differs in few lines from the same program without psgd."""
        example = SOURCE / "examples/fashion_mnist.py"
        plain = (SOURCE / "examples/plain/fashion_mnist.py").read_text().splitlines()
        changes = list(difflib.ndiff(plain, example.read_text().splitlines()))
        for sign in "+-":
            self.assertLessEqual(sum(line.startswith(sign + " ") for line in changes), 8)
        with tempfile.TemporaryDirectory() as folder:
            for name, count in (("train", 640), ("t10k", 500)):
                pixels = bytes(count * 784)
                for what, skipped, data in (("images-idx3", 16, pixels), ("labels-idx1", 8, bytes(count))):
                    with gzip.open(f"{folder}/{name}-{what}-ubyte.gz", "wb", 1) as file:
                        file.write(bytes(skipped) + data)
            script = [sys.executable, "-B", example, "--epochs", "1", "--data", folder]
            alone = subprocess.run(script, capture_output=True, text=True, timeout=120)
            self.assertRegex(alone.stdout, r"epoch 1: loss 0\.0.*, accuracy 1\.0000", alone.stderr)
            done = subprocess.run(
                [BIN / "ps-run", SOURCE / "examples/cluster.yaml", "--run-dir", f"{folder}/run", "--",
                 *script], capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(pathlib.Path(folder, "run/summary.json").read_text())
                             ["test_accuracy"], 1)  # all are of one class

    def test_ctrl_c_stops_with_a_checkpoint(self):
        with tempfile.TemporaryDirectory() as folder:
            config = pathlib.Path(folder) / "config.yaml"
            config.write_text(CONFIG.format(batch=worker.BATCH, staleness=0, push="none", local=1))
            command = ["--", sys.executable, str(HERE / "torch_worker.py"), folder, "400"]
            run = subprocess.Popen(
                [BIN / "ps-run", config, "--run-dir", f"{folder}/run", "--quiet", *command],
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            seen = pathlib.Path(folder) / "worker-0.jsonl"
            while not seen.exists() and run.poll() is None:
                time.sleep(0.1)
            time.sleep(1)
            run.send_signal(signal.SIGINT)
            said = run.communicate(timeout=30)[1]
            self.assertEqual(run.returncode, 3, said)
            self.assertIn("ps-run --resume", said)
            done = len(seen.read_text().splitlines())
            self.assertLess(done, 400 * 16)

    def test_fewer_epochs_than_a_resumed_run_has_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder) / "script.py"
            command = [sys.executable, str(script)]
            stop = "os.kill(os.getppid(), signal.SIGINT) if run.worker == 0 else None; time.sleep(1)"
            script.write_text(SCRIPT.format(how=stop))
            run = Run(folder, command)
            self.assertEqual(run.done.returncode, 3, run.log())
            files = [run.dir / "config.yaml", run.dir / "summary.json"]
            before = [file.read_text() for file in files]
            script.write_text(SCRIPT.format(how="pass").replace("run.epochs(2)", "run.epochs(1)"))
            fewer = subprocess.run([BIN / "ps-run", "--resume", run.dir, "--", *command],
                                   capture_output=True, text=True, timeout=60)
            self.assertEqual(fewer.returncode, 1, fewer.stderr)
            self.assertIn("the run goes on in epoch 2, and run.epochs(1) ends before it; say more "
                          "epochs", fewer.stderr)
            self.assertEqual([file.read_text() for file in files], before)  # nothing was trained

    def test_a_script_that_fails_gives_its_exit_code(self):
        with tempfile.TemporaryDirectory() as folder:
            run = Run(folder, [sys.executable, "-c", "import sys; sys.exit(7)"])
            self.assertEqual(run.done.returncode, 7, run.log())

    def test_a_script_that_never_joins_is_told_apart(self):
        with tempfile.TemporaryDirectory() as folder:
            run = Run(folder, [sys.executable, "-c", "pass"])
            self.assertEqual(run.done.returncode, 1, run.log())
            self.assertIn("does the command join it", run.done.stderr)

    def end(self, how):
        """What ps-run says of a script that trains a while, and its exit code."""
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder) / "script.py"
            script.write_text(SCRIPT.format(how=how))
            run = Run(folder, [sys.executable, str(script)])
            return run.done.returncode, run.done.stderr, run.done.stdout

    def test_a_script_that_diverges_says_what_to_do(self):
        code, said, shown = self.end("model.weight.data.fill_(float('nan'))")
        self.assertEqual(code, 1, said)
        advice = "training diverged: lower the learning rate (of the program's optimizer)"
        self.assertIn(advice, said.splitlines()[-1])
        self.assertIn(advice, shown)
        for text in (said, shown):  # the newest checkpoint may have diverged
            self.assertNotIn("Go on from", text)
            self.assertNotIn("ps-run --resume /", text)
        self.assertIn("optimizer.step()", said)  # the traceback has the script's line
        self.assertNotIn("_library.call", said)

    def test_the_end_says_what_the_last_workers_said(self):
        code, said, _ = self.end("raise ValueError('it is Monday')")
        self.assertEqual(code, 1, said)
        self.assertRegex(said.splitlines()[-1],
                         "no worker is left; worker-. failed: ValueError: it is Monday. Go on from")
        _, said, _ = self.end("assert not batch")
        self.assertIn("failed: AssertionError. Go on from", said.splitlines()[-1])
        code, said, _ = self.end("sys.exit(3)")
        self.assertEqual(code, 3, said)
        self.assertIn("its program ended before the run did. Go on from", said.splitlines()[-1])
        code, said, _ = self.end("os.kill(os.getpid(), signal.SIGKILL)")
        self.assertEqual(code, 1, said)
        self.assertIn("was killed by signal 9", said.splitlines()[-1])

    def test_scripts_that_all_leave_stop_the_run(self):
        code, said, _ = self.end("run.leave(); break")
        self.assertEqual(code, 3, said)
        self.assertIn("all workers left the run before its end. Go on from", said.splitlines()[-1])
        self.assertNotIn("Traceback", said)
        self.assertNotIn("made no step", said)

    def test_parameters_without_elements_are_left_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder) / "script.py"
            script.write_text(SCRIPT.format(how="pass").replace(
                "torch.nn.Linear(4, 2)",
                "torch.nn.Linear(4, 2); model.none = torch.nn.Parameter(torch.zeros(0, 3))"))
            run = Run(folder, [sys.executable, str(script)])
            self.assertEqual(run.done.returncode, 0, run.log())
            self.assertEqual(sorted(run.weights()), ["bias", "weight"])

    def test_a_script_that_ends_early_is_told_apart(self):
        code, said, _ = self.end("sys.exit(0) if run.worker == 1 else time.sleep(3)")
        self.assertEqual(code, 0, said)
        self.assertIn("worker-1's program ended before the run did; the other workers go on", said)

    def test_ctrl_c_does_not_wait_for_scripts_that_have_not_joined(self):
        with tempfile.TemporaryDirectory() as folder:
            config = pathlib.Path(folder) / "config.yaml"
            config.write_text(CONFIG.format(batch=worker.BATCH, staleness=0, push="none", local=1))
            with subprocess.Popen(
                    [BIN / "ps-run", config, "--run-dir", f"{folder}/run", "--", sys.executable, "-c",
                     "import time; time.sleep(600)"],
                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as run:
                run.stderr.readline()
                while not pathlib.Path(f"{folder}/run/worker-1").exists() and run.poll() is None:
                    time.sleep(0.1)
                run.send_signal(signal.SIGINT)
                said = run.communicate(timeout=60)[1]
            self.assertEqual(run.returncode, 3, said)
            self.assertIn("Nothing was trained, so start anew", said)

    def test_an_exception_leaves_the_run_as_failed(self):
        with tempfile.TemporaryDirectory() as folder:
            code = ("import torch, psgd.torch; m = torch.nn.Linear(2, 2); "
                    "psgd.torch.join(m, torch.optim.SGD(m.parameters(), 0.1)); "
                    "raise ValueError('it is Monday')")
            run = Run(folder, [sys.executable, "-c", code])
            self.assertEqual(run.done.returncode, 1, run.log())
            self.assertIn("it is Monday", run.log())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
