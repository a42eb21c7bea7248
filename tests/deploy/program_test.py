#!/usr/bin/env python3
"""The commands of the units and manifests for a PyTorch program: a server and two workers train. Systemd and
Kubernetes are not here, so paths, names and ports are replaced by those of the test. Exit code 77: there is no PyTorch."""

import contextlib
import importlib.util
import os
import pathlib
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from programs import BIN, DEPLOY, ROOT, SKIPPED, manifests_of_program

if importlib.util.find_spec("torch") is None:
    print("skipped: no PyTorch; apt-get install python3-torch")
    sys.exit(SKIPPED)

CONFIG = """
name: train
model: client
data: {batch: 64}
cluster: {shards: 2, workers: 2}
"""
PROGRAM = """
import torch
import psgd.torch

x = torch.arange(256.0).reshape(256, 1) / 256
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.5)
run = psgd.torch.join(model, optimizer)
data = torch.utils.data.TensorDataset(x, 2 * x)
loader = torch.utils.data.DataLoader(data, batch_size=64, sampler=run.sampler(data))
for epoch in run.epochs(3):
    for x, y in loader:
        loss = (model(x) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    run.log(loss=loss)
print("worker", run.worker, "is done")
"""


def free_ports(count):
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [str(each.getsockname()[1]) for each in sockets]


def settings(*files):
    """Of units; a later file's replace those of an earlier one. Environment adds up."""
    found, environment = {}, {}
    for file in files:
        for name, value in re.findall(r"^(\w+)=(.*)$", file.read_text(), re.MULTILINE):
            found[name] = value
            if name == "Environment":
                environment.update(word.split("=", 1) for word in shlex.split(value))
    return found["ExecStart"], environment


class ProgramTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="psgd-program-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.program, self.config = self.folder / "train.py", self.folder / "run.yaml"
        self.program.write_text(PROGRAM)
        self.control, self.http = free_ports(2)

    def start(self, words, environment):
        """psgd is not installed here."""
        log = open(self.folder / "log", "a", encoding="utf-8")
        self.addCleanup(log.close)
        process = subprocess.Popen(words, stdout=log, stderr=log, env={
            "PATH": f"{BIN}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "python"), "OMP_NUM_THREADS": "1",
            "PSGD_LIBRARY": str(BIN / "libpsgd.so"), **environment})
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def trains(self, server, workers):
        """Each: a command and its environment."""
        processes = [self.start(*each) for each in [server, *workers]]
        end = time.monotonic() + 60
        while None in (codes := [process.poll() for process in processes]) and time.monotonic() < end:
            if any(codes):
                break
            time.sleep(0.05)
        said = (self.folder / "log").read_text()
        self.assertEqual(codes, [0] * len(processes), said)
        self.assertEqual(sorted(re.findall("worker [01] is done", said)), ["worker 0 is done", "worker 1 is done"])

    def test_units(self):
        self.config.write_text(CONFIG)
        systemd = DEPLOY / "systemd"

        def command(line, instance, options):
            """As systemd makes it; the environment's options of the test follow."""
            for old, new in (("%S/psgd/%i", str(self.folder / "run")), ("/etc/psgd/%i.yaml", str(self.config)), ("%i", instance),
                             ("/usr/share/psgd/deploy", str(DEPLOY)), ("7070", self.control), ("7080", self.http), ("$$", "$")):
                line = line.replace(old, new)
            words = shlex.split(line)
            return [part for word in words for part in (options if word == "$PSGD_OPTIONS" else [word])]

        line, environment = settings(systemd / "ps-server@.service")
        server = command(line, "train", environment.pop("PSGD_OPTIONS").split()), environment
        line, environment = settings(systemd / "ps-worker@.service", systemd / "program.conf")
        workers = []
        for instance in ("1", "2"):
            of_this = {name: value.replace("%H", "host").replace("%i", instance).replace("7070", self.control)
                       for name, value in environment.items()}
            of_this["PSGD_PROGRAM"] = f"{sys.executable} {self.program}"  # as in /etc/psgd/worker-1.env
            workers.append((command(line, instance, []), of_this))
        del workers[1][1]["PSGD_PROGRAM"]
        lacks = self.start(*workers[1])
        self.assertEqual(lacks.wait(10), 2)  # RestartPreventExitStatus
        self.assertIn("PSGD_PROGRAM: is not set in /etc/psgd/worker-2.env", (self.folder / "log").read_text())
        workers[1][1]["PSGD_PROGRAM"] = workers[0][1]["PSGD_PROGRAM"]
        self.trains(server, workers)

    @unittest.skipUnless(shutil.which("kubectl") and importlib.util.find_spec("yaml"), "no kubectl or python3-yaml")
    def test_manifests(self):
        import yaml  # pylint: disable=import-outside-toplevel
        kinds = {each["kind"]: each for each in yaml.safe_load_all(manifests_of_program())}
        self.config.write_text(kinds["ConfigMap"]["data"]["run.yaml"].replace("workers: 4", "workers: 2"))

        def of_pod(kind, pod):
            container = kinds[kind]["spec"]["template"]["spec"]["containers"][0]
            environment = {each["name"]: each.get("value", pod) for each in container["env"]}

            def here(word):
                for old, new in (("$(POD_NAME)", pod), ("/usr/share/psgd/deploy", str(DEPLOY)), ("/runs/run", str(self.folder / "run")),
                                 ("/etc/psgd/run.yaml", str(self.config)), ("/srv/train.py", str(self.program)),
                                 ("psgd-server-0.psgd-server", "127.0.0.1"), ("7070", self.control), ("7080", self.http)):
                    word = word.replace(old, new)
                return sys.executable if word == "python3" else word

            return [here(word) for word in container["command"]], {name: here(value) for name, value in environment.items()}

        self.trains(of_pod("StatefulSet", "psgd-server-0"), [of_pod("Job", str(i)) for i in range(2)])


if __name__ == "__main__":
    unittest.main()
