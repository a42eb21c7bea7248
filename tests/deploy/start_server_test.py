#!/usr/bin/env python3
"""deploy/start-server.sh, with the same words each time: a run that is killed, drained and finished."""

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest
import urllib.request

from programs import BIN, DEPLOY

CONFIG = """
name: started
model: {zoo: mlp, hidden: [16]}
data: {format: synthetic, batch: 32, synthetic: {train_samples: 2048, test_samples: 256, shape: [1, 8, 8], classes: 10, noise: 0.5}}
train: {epochs: EPOCHS}
optimizer: {sgd: {learning_rate: 0.02}}
cluster: {shards: 1, workers: 1, segment: 16}
durability: {acknowledge: ACKNOWLEDGE, checkpoint: 1 epoch}
"""


class StartServerTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="psgd-start-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.run_dir = self.folder / "run"

    def config(self, epochs, acknowledge="journal"):
        file = self.folder / "config.yaml"
        file.write_text(CONFIG.replace("EPOCHS", str(epochs)).replace("ACKNOWLEDGE", acknowledge))
        return file

    def spawn(self, *words):
        log = open(self.folder / "log", "a", encoding="utf-8")
        self.addCleanup(log.close)
        environment = dict(os.environ, PATH=f"{BIN}:{os.environ['PATH']}")
        process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=log, text=True, env=environment)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        # A shell that waits for a server must get SIGTERM, so that it ends the server.
        self.addCleanup(process.terminate if "--crash-only" in words else process.kill)
        return process

    def start(self, config, *words, options=()):
        """The server, and where it is once it is ready."""
        server = self.spawn(DEPLOY / "start-server.sh", *words, self.run_dir, config, "--bind", "127.0.0.1", "--port=0", "--json", "--quiet", *options)
        line = server.stdout.readline()
        return server, json.loads(line) if line else None

    def worker(self, at):
        return self.spawn(BIN / "ps-worker", "--cpu", "--quiet", "--server", at["control"])

    def await_status(self, at, reached):
        """What the server says once `reached` holds of it."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            said = subprocess.run([BIN / "ps-ctl", "status", "--server", at["control"], "--json"], capture_output=True, text=True, check=False)
            status = json.loads(said.stdout) if said.returncode == 0 else None
            if status is not None and reached(status):
                return status
            time.sleep(0.05)
        self.fail((self.folder / "log").read_text())

    def await_steps(self, at, more=100):
        """Until it went so far on from where it is now, which it says."""
        begun = int(self.await_status(at, lambda status: True)["clock"])
        self.await_status(at, lambda status: int(status["clock"]) > begun + more)
        return begun

    def went_on(self, at):
        self.assertGreater(self.await_steps(at), 0)
        self.assertNotIn("starts anew", self.log())

    def summary(self):
        return json.loads((self.run_dir / "summary.json").read_text())

    def kill(self, server):
        server.kill()
        server.wait()

    def log(self):
        return (self.folder / "log").read_text()

    def test_goes_on_whatever_ended_it(self):
        config = self.config(epochs=100000)
        server, at = self.start(config)
        worker = self.worker(at)
        self.await_steps(at)
        self.kill(server)
        server, again = self.start(config)  # from its journal, where it was
        self.assertEqual(again["control"], at["control"])
        self.went_on(at)
        server.send_signal(signal.SIGTERM)
        self.assertEqual((server.wait(60), worker.wait(60)), (3, 0), self.log())
        self.assertEqual(self.summary()["status"], "interrupted")
        server, at = self.start(config)  # from its checkpoint
        self.kill(server)  # nobody has come yet: there is nothing in its journal
        server, at = self.start(config)  # from the same checkpoint
        worker = self.worker(at)
        self.went_on(at)
        self.kill(server)
        server, again = self.start(config)  # and from the journal of what came after
        self.went_on(again)
        server.send_signal(signal.SIGTERM)
        self.assertEqual((server.wait(60), worker.wait(60)), (3, 0), self.log())

    def test_crash_only_it_comes_back_to_the_same_workers(self):
        config = self.config(epochs=100000)
        server, at = self.start(config, "--crash-only")
        worker = self.worker(at)
        self.await_steps(at)
        server.send_signal(signal.SIGTERM)
        self.assertEqual(server.wait(60), 128 + signal.SIGTERM)
        self.assertFalse((self.run_dir / "summary.json").exists())
        server, again = self.start(config, "--crash-only")
        self.assertEqual(again["control"], at["control"])
        self.went_on(again)
        self.assertIsNone(worker.poll())

    def test_without_a_journal_it_goes_on_from_a_checkpoint(self):
        config = self.config(epochs=100000, acknowledge="memory")
        server, at = self.start(config)
        self.worker(at)
        # The checkpoint is written while training continues.
        self.await_status(at, lambda status: status["checkpoints"])
        self.kill(server)
        server, at = self.start(config)
        self.worker(at)
        self.went_on(at)

    def test_before_the_first_checkpoint_it_starts_anew(self):
        for acknowledge in "memory", "journal":
            config = self.config(epochs=100000, acknowledge=acknowledge)
            server, at = self.start(config)
            if acknowledge == "memory":
                # While the server lives, no other server takes its directory.
                other, nothing = self.start(config)
                self.assertEqual((other.wait(60), nothing), (1, None))
                self.assertIn("does its run still go on", self.log())
                self.assertIsNone(server.poll())
            self.kill(server)
            server, at = self.start(config)
            self.assertIn("starts anew", self.log())
            server.send_signal(signal.SIGTERM)
            self.assertEqual(server.wait(60), 3)
            server, at = self.start(config)
            self.worker(at)
            self.await_steps(at)
            self.kill(server)
            self.run_dir.rename(self.folder / acknowledge)
        self.assertEqual(sorted(folder.name for folder in self.folder.glob("run.before-*")), [f"run.before-{i}" for i in range(1, 5)])

    def test_it_goes_on_though_it_died_before_training_began(self):
        """The shards have images then, and the run's record has no plan."""
        config = self.config(epochs=100000)
        dies = ["--failpoint", "image-recorded"]
        server, at = self.start(config, options=dies)
        self.worker(at)
        self.assertEqual(server.wait(60), -signal.SIGKILL)
        server, at = self.start(config)
        self.assertIn("starts anew", self.log())
        worker = self.worker(at)
        self.await_steps(at)
        server.send_signal(signal.SIGTERM)
        self.assertEqual((server.wait(60), worker.wait(60)), (3, 0), self.log())
        server, _ = self.start(config, options=dies)  # from its checkpoint
        self.assertEqual(server.wait(60), -signal.SIGKILL)
        server, at = self.start(config)  # from the same checkpoint
        self.worker(at)
        self.assertGreater(self.await_steps(at), 0)

    def test_a_finished_run_is_not_repeated(self):
        config = self.config(epochs=2)
        server, at = self.start(config)
        worker = self.worker(at)
        self.assertEqual((server.wait(60), worker.wait(60)), (0, 0), (self.folder / "log").read_text())
        before = self.summary()
        server, at = self.start(config)
        self.assertEqual((server.wait(60), at), (0, None))
        self.assertIn("has finished", (self.folder / "log").read_text())
        self.assertEqual(self.summary(), before)
        # The pages of a finished run are still served.
        pages = self.spawn(DEPLOY / "start-server.sh", "--show-finished", 0, self.run_dir, config)
        address = pages.stdout.readline().split("http://")[1].split("/")[0].replace("0.0.0.0", "127.0.0.1")
        with urllib.request.urlopen(f"http://{address}/", timeout=30) as page:
            self.assertIn(b"<title>", page.read())

    def test_what_is_missing_is_said(self):
        ended = subprocess.run([DEPLOY / "start-server.sh", self.run_dir], capture_output=True, text=True, check=False)
        self.assertEqual(ended.returncode, 2)
        self.assertIn("RUN_DIR CONFIG.yaml", ended.stderr)


if __name__ == "__main__":
    unittest.main()
