"""Programs as workers, in runs that lose a server or a worker, get a worker more, are stopped or secured. The
programs go on without a changed line, and nothing acknowledged is lost: each sample counts once an
epoch.

failures_test.py BIN_FOLDER SOURCE_FOLDER
"""

import array
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import counting_worker
from servers import children, is_in_sync

BIN, SOURCE = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
WORKER = pathlib.Path(__file__).parent / "counting_worker.py"
CONFIG = """
name: counting
model: client
data: {{batch: 4}}
consistency: {{staleness: {staleness}, reduction: sum}}
cluster: {{shards: 2, workers: 2, deadline: 30s, resend: 200ms{cluster}}}
durability: {{acknowledge: {acknowledge}}}
"""
DEADLINE = 60


class Run:
    """A ps-run of counting workers."""

    def __init__(self, folder, epochs, options=(), pause=0.05, staleness=0, acknowledge="memory",
                 cluster="", after=0, dies=-1, until=""):
        self.folder, self.epochs = pathlib.Path(folder), epochs
        config = self.folder / "config.yaml"
        config.write_text(CONFIG.format(staleness=staleness, acknowledge=acknowledge,
                                        cluster=cluster))
        self.dir, self.errors = self.folder / "run", self.folder / "errors"
        self.worker = [sys.executable, "-B", str(WORKER), "--epochs", str(epochs), "--pause",
                       str(pause), "--after", str(after), "--dies", str(dies),
                       "--until", str(until)]
        with open(self.errors, "w", encoding="utf-8") as errors:
            self.process = subprocess.Popen(
                [BIN / "ps-run", config, "--run-dir", self.dir, "--threads", "1", *options, "--",
                 *self.worker, "--log", self.folder / "steps"],
                stdout=subprocess.DEVNULL, stderr=errors)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def said(self):
        return self.errors.read_text()

    def steps(self, file="steps"):
        """Lines of the workers about their steps, so far."""
        path = self.folder / file
        return path.read_text().splitlines() if path.exists() else []

    def eventually(self, done):
        """Waits for `done`. False: the run ended before, or the deadline came."""
        end = time.monotonic() + DEADLINE
        while not done():
            if self.process.poll() is not None or time.monotonic() > end:
                return done()
            time.sleep(0.02)
        return True

    def trains(self, more=4):
        """Waits until the workers have done so many more steps."""
        target = len(self.steps()) + more
        return self.eventually(lambda: len(self.steps()) >= target)

    def servers(self):
        return children(self.process.pid, "ps-server")

    def address(self):
        return re.search("--server ([^ \n]+)", self.said()).group(1)

    def counts(self):
        data = (self.dir / "weights.safetensors").read_bytes()
        size = int.from_bytes(data[:8], "little")
        start, end = json.loads(data[8:8 + size])["counts"]["data_offsets"]
        return array.array("f", data[8 + size + start:8 + size + end]).tolist()


class Failures(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def assert_all_counted(self, run):
        code = run.process.wait(DEADLINE)
        logs = [path.read_text() for path in sorted(run.dir.glob("worker-*/worker.log"))]
        self.assertEqual(code, 0, "\n".join([run.said(), *logs]))
        self.assertEqual(run.counts(), [run.epochs] * counting_worker.SAMPLES, run.said())
        self.assertNotIn("worker-", run.said())  # ps-run names workers that failed

    def test_a_killed_server_goes_on_from_its_journal(self):
        for staleness in (0, 2):
            with self.subTest(staleness=staleness), tempfile.TemporaryDirectory() as folder, \
                    Run(folder, 4, staleness=staleness, acknowledge="journal") as run:
                for deaths in (1, 2):
                    self.assertTrue(run.trains(), run.said())
                    os.kill(run.servers()[0], signal.SIGKILL)
                    self.assertTrue(run.eventually(lambda: run.said().count("is back") == deaths),
                                    run.said())
                self.assert_all_counted(run)

    @unittest.skipUnless(shutil.which("etcd"), "no etcd: install etcd-server")
    def test_a_follower_is_promoted(self):
        with Run(self.folder, 8, acknowledge="journal",
                 cluster=", servers: 2, copies: 2, lease: 20s") as run:
            self.assertTrue(run.trains(), run.said())
            self.assertTrue(run.eventually(lambda: is_in_sync(run.said(), "counting")), run.said())
            os.kill(run.servers()[0], signal.SIGKILL)
            self.assertTrue(run.eventually(lambda: "leads the run" in run.said()), run.said())
            self.assert_all_counted(run)

    def test_a_killed_worker(self):
        """Its last steps come again, as nobody was told of them. Each step counts once, but the one
        that it was in: that is a whole step or none."""
        for staleness in (0, 2):
            with self.subTest(staleness=staleness), tempfile.TemporaryDirectory() as folder, \
                    Run(folder, 2, staleness=staleness, pause=0.02, dies=5) as run:
                self.assertEqual(run.process.wait(DEADLINE), 0, run.said())
                more, last = run.counts(), []
                for line in run.steps():
                    kind, *samples = line.split()
                    if kind == "dies":
                        last = [int(i) for i in samples]
                    for i in samples if kind in "01" else ():
                        more[int(i)] -= 1
                self.assertEqual(len(last), 4)
                self.assertIn([i for i, count in enumerate(more) if count != 0], ([], sorted(last)))
                self.assertLessEqual(set(more), {0, 1})
                self.assertGreaterEqual(min(run.counts()), 2)

    def test_people_hear_which_worker_the_others_wait_for(self):
        goes_on = pathlib.Path(self.folder) / "goes_on"
        with Run(self.folder, 1, pause=0, until=goes_on) as run:
            late = "waiting for worker 1 (worker-1), which has not pushed clock 6 for more than 10 s"
            self.assertTrue(run.eventually(lambda: late in run.said()), run.said())
            status = subprocess.run([BIN / "ps-ctl", "status", "--server", run.address()],
                                    capture_output=True, text=True, check=True).stdout
            self.assertIn(late, status)
            goes_on.touch()
            self.assertEqual(run.process.wait(DEADLINE), 0, run.said())
            self.assertEqual(run.said().count(late), 1, run.said())
            self.assertEqual(run.counts(), [1] * counting_worker.SAMPLES)

    def test_a_worker_joins_late(self):
        with Run(self.folder, 6, cluster=", segment: 4") as run:
            self.assertTrue(run.trains(), run.said())
            late = subprocess.run(
                [*run.worker, "--log", run.folder / "late"], capture_output=True, text=True,
                check=False, timeout=DEADLINE,
                env={**os.environ, "PSGD_SERVER": run.address(), "PSGD_NAME": "late"})
            self.assertEqual(late.returncode, 0, late.stderr)
            self.assertGreater(len(run.steps("late")), 0)
            self.assertIn("worker late joined", run.said())
            self.assert_all_counted(run)

    def test_the_command_after_ctrl_c_goes_on(self):
        with Run(self.folder, 10) as run:
            self.assertTrue(run.trains(30), run.said())
            run.process.send_signal(signal.SIGINT)
            self.assertEqual(run.process.wait(DEADLINE), 3, run.said())
            command = re.search(r"with: (ps-run --resume .*)", run.said()).group(1)
            with open(run.errors, "w", encoding="utf-8") as errors:
                run.process = subprocess.Popen(f"exec {BIN}/{command}", shell=True, stderr=errors,
                                               stdout=subprocess.DEVNULL)
            self.assert_all_counted(run)

    def test_a_program_may_work_on_after_the_run(self):
        with Run(self.folder, 1, pause=0, after=6) as run:
            self.assert_all_counted(run)
            self.assertEqual(run.steps().count("done"), 2, run.said())

    def test_a_worker_elsewhere_need_not_have_the_environment_of_ps_run(self):
        prefix = "env -i"  # as ssh starts a program
        if "PYTHONPATH" in os.environ:  # psgd is not installed
            prefix += f" PYTHONPATH={os.environ['PYTHONPATH']}"
        with Run(self.folder, 2, ["--worker-prefix", prefix], pause=0) as run:
            self.assert_all_counted(run)

    @unittest.skipUnless(shutil.which("openssl"), "no openssl")
    def test_a_secured_run(self):
        certificates = f"{self.folder}/certs"
        subprocess.run([SOURCE / "scripts/make-certs.sh", certificates], check=True,
                       capture_output=True)
        with Run(self.folder, 2, ["--tls-dir", certificates], pause=0) as run:
            self.assert_all_counted(run)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
