"""Real programs for the pages to show: a run that goes on, and recorded ones."""

import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time
import unittest

from devtools import Browser, find_chromium

BIN = pathlib.Path(os.environ.get("PSGD_BIN", "build/release/bin"))

CONFIG = """
name: shown
seed: 5
model: {zoo: mlp, hidden: [32]}
data: {format: synthetic, batch: 32, synthetic: {train_samples: 16384, test_samples: 512, shape: [1, 8, 8], classes: 10, noise: 4}}
train: {epochs: 100000}
optimizer: {sgd: {learning_rate: 0.02}}
consistency: {staleness: 3}
compression: {push: {topk: {density: 0.05}}, dense_below: 64}
cluster: {shards: 3, workers: 2, segment: 32}
durability: {acknowledge: journal, checkpoint: 5 epochs}
"""

PANELS = ["loss", "accuracy", "speed", "time", "staleness", "latency", "bytes", "residual", "rejected", "shards", "queue",
          "journal", "checkpoint", "live", "events"]

# The worst contrast between visible text and its background, by WCAG 2, with its text, and the
# page's lightness.
CONTRAST = """(() => {
  const rgba = (text) => { const n = text.match(/[0-9.]+/g).map(Number); return n.length < 4 ? [...n.slice(0, 3), 1] : n; };
  const over = (top, under) => under.map((c, i) => i < 3 ? top[i] * top[3] + c * (1 - top[3]) : 1);
  const ground = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) layers.push(rgba(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255, 1]);
  };
  const light = (c) => c.slice(0, 3).map((v) => v / 255).map((v) => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  let worst = {ratio: 99};
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const element = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || !element.checkVisibility() || ['SCRIPT', 'NOSCRIPT'].includes(element.tagName)) continue;
    if (element.classList.contains('skip')) continue;
    const behind = ground(element);
    const ink = over(rgba(getComputedStyle(element).color), behind);
    const [a, b] = [light(ink), light(behind)].sort((x, y) => y - x);
    const ratio = (a + .05) / (b + .05);
    if (ratio < worst.ratio) worst = {ratio, text: walk.currentNode.data.trim()};
  }
  return {...worst, paper: light(ground(document.body))};
})()"""


def run(*argv, **options):
    """What a program printed that did as it should."""
    ended = subprocess.run([str(word) for word in argv], capture_output=True, text=True, check=False, **options)
    assert ended.returncode == 0, f"{argv}: {ended.stdout}{ended.stderr}"
    return ended.stdout


def folder_of(test, name):
    """Of all tests of a class; it goes with the last of them."""
    folder = tempfile.TemporaryDirectory(prefix=f"psgd-{name}-")
    test.addClassCleanup(folder.cleanup)
    return pathlib.Path(folder.name)


class Program:
    """One of ours; ended, with all that it started, when it goes."""

    def __init__(self, *argv, ready=""):
        self.said = tempfile.TemporaryFile(mode="w+", prefix="psgd-said-")
        self.process = subprocess.Popen([str(BIN / argv[0]), *argv[1:]], stdout=self.said, stderr=subprocess.STDOUT,
                                        start_new_session=True)
        self.found = None

        def is_ready():
            ended = self.process.poll() is not None
            self.said.seek(0)
            text = self.said.read()
            self.found = re.search(ready, text)
            assert self.found or not ended, f"{argv}: {text}"
            return self.found

        wait_for(is_ready)

    def end(self):
        # The second SIGINT ends the program and its children at once.
        for number in (signal.SIGINT, signal.SIGINT, signal.SIGKILL):
            if self.process.poll() is not None:
                break
            self.process.send_signal(number)
            try:
                self.process.wait(3 if number == signal.SIGINT else None)
            except subprocess.TimeoutExpired:
                pass
        self.said.close()


class PagesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = Browser(find_chromium())
        cls.addClassCleanup(cls.browser.__exit__)
        cls.folder = folder_of(cls, "pages")

    @classmethod
    def start(cls, *argv, ready=""):
        program = Program(*argv, ready=ready)
        cls.addClassCleanup(program.end)
        return program

    @classmethod
    def start_run(cls, name, *more):
        started = cls.start("ps-run", cls.config(name), "--run-dir", str(cls.folder / name), "--http", "0", *more,
                            ready=r"dashboard: (http://[0-9.:]+/)")
        return started, started.found.group(1)

    @classmethod
    def config(cls, name):
        config = cls.folder / f"{name}.yaml"
        config.write_text(CONFIG.lstrip())
        return str(config)

    @classmethod
    def start_server(cls, name, workers, *more):
        return cls.start("ps-server", "--config", cls.config(name), "--port", "0", "--run-dir", str(cls.folder / name),
                         "--workers", str(workers), "--http", "0", *more,
                         ready=r"--server ([0-9.:]+)[\s\S]*dashboard: (https?://[0-9.:]+/)[\s\S]*run directory")

    @classmethod
    def start_cluster(cls, name, workers, *more):
        """A server and workers that leave the processor to the browser."""
        server = cls.start_server(name, workers, *more)
        for worker in range(workers):
            cls.start("ps-worker", "--cpu", "--server", server.found.group(1), "--name", f"worker-{worker}",
                      "--step-delay", f"{6 + 3 * worker}ms")
        return server, server.found.group(2)

    def assert_panels_have_data(self, page, panels=PANELS):
        """Each shows curves, cells or rows; what is out of sight is drawn once it is looked at."""
        for panel in panels:
            page.run(f"document.getElementById('panel-{panel}').scrollIntoView()")
            page.wait(f"""(() => {{
              const panel = document.getElementById('panel-{panel}');
              if (panel.querySelector('canvas')) return Number(panel.dataset.points) > 1;
              return panel.querySelector('.body').textContent.match(/[0-9]/) !== null &&
                     panel.querySelector('.empty') === null;
            }})()""", 90)
        page.run("scrollTo(0, 0)")

    def assert_values_change(self, page):
        """Without a reload."""
        page.run("window.sameDocument = true")
        before = page.run("document.querySelector('[data-figure=\"time\"] b').textContent")
        page.wait(f"document.querySelector('[data-figure=\"time\"] b').textContent !== {json.dumps(before)}")
        self.assertTrue(page.run("window.sameDocument"))
        self.assertEqual(page.run("document.getElementById('link').textContent"), "live")

    def assert_legible(self, page, dark):
        """In the theme that was asked for."""
        page.wait(f"(({CONTRAST}).paper < 0.5) === {json.dumps(dark)}")
        worst = page.run(CONTRAST)
        self.assertGreaterEqual(worst["ratio"], 4.5, f"dark: {dark}, {worst}")

    def assert_fits(self, page, width):
        page.wait(f"innerWidth === {width}")
        page.wait(f"document.documentElement.scrollWidth <= {width}")

    def assert_panels_are_wide_enough(self, page):
        narrowest = page.run("Math.min(...[...document.querySelectorAll('.panel')].map((p) => p.clientWidth))")
        self.assertGreaterEqual(narrowest, 300)


def wait_for(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("it never came to be")
        time.sleep(0.05)


def write_runs(root, count):
    """Recorded runs as ps-server leaves them, some of them broken in one way each."""
    for i in range(count):
        run = root / f"sweep-{i // 50}" / f"run-{i:03}"
        run.mkdir(parents=True)
        (run / "config.yaml").write_text(CONFIG.lstrip().replace("shown", f"run-{i:03}"))
        records = []
        for t in range(40):
            records.append({"kind": "progress", "seconds": t, "epoch": t / 8, "loss": 2 / (1 + t), "accuracy": 1 - 1 / (1 + t),
                            "samples_per_second": 1000 + i, "bytes_pushed": 1000 * t, "bytes_pushed_dense": 50000 * t,
                            "bytes_pulled": 50000 * t, "bytes_pulled_dense": 50000 * t, "residual_norm": 1 + i % 3,
                            "staleness_mean": 1.5, "workers": 2, "learning_rate": 0.02})
        records.append({"kind": "evaluation", "seconds": 39, "epoch": 5, "loss": 0.1, "accuracy": 0.9})
        (run / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
        (run / "summary.json").write_text(json.dumps({
            "name": f"run-{i:03}", "status": "finished", "test_accuracy": 0.8 + i / 10000, "test_loss": 0.1,
            "codec": ["topk", "onebit", "none"][i % 3], "workers": 2, "shards": 3, "epochs": 5.0, "wall_seconds": 40.0 + i,
            "samples_per_second": 1000.0 + i, "bytes_pushed": 40000, "bytes_pushed_dense": 2000000}))
    broken = root / "sweep-0"
    (broken / "run-001" / "summary.json").write_text('{"name": ')
    (broken / "run-002" / "summary.json").unlink()
    os.utime(broken / "run-002" / "metrics.jsonl", (1, 1))
    with open(broken / "run-003" / "metrics.jsonl", "a", encoding="utf-8") as file:
        file.write("no record\n")
    (broken / "run-004" / "config.yaml").unlink()
    (broken / "run-005" / "config.yaml").write_text("model: [\n")


def write_fifty_workers(run):
    """A run of fifty workers and eight shards, told of every second for a minute."""
    run.mkdir(parents=True)
    (run / "config.yaml").write_text(CONFIG.lstrip())
    latency = {f"{what}_{share}": value for what, value in (("push", 3.0), ("pull", 9.0)) for share in ("p50", "p99")}
    records = []

    def server(number, shards, state="live"):
        return {"id": number, "name": f"rack-{number}", "state": state, "leads": number == 1, "shards": shards,
                "copies": 2, "catching_up": 2 - number,
                "bytes": 1000000 * len(shards), "heard": 0.2}

    # The run began with one server. Another server joined, took four shards, gave one back and was
    # lost.
    servers = {1: [server(1, [0, 1, 2, 3]), server(2, [4, 5, 6, 7])],
               2: [server(1, [0, 1, 2, 3, 4]), server(2, [5, 6, 7], "away")]}
    for t in range(60):
        workers = [{"id": w, "name": f"host-{w}", "device": "cpu", "live": w != 7, "leaving": False, "note": "", "clock": 10 * t,
                    "samples_per_second": 500 + w + t % 5, "heard": 0.2, "input_stall": 0.01, "residual_norm": 1 + w / 50,
                    "staleness": [5 + w % 3, t, w, 2, 1], **latency} for w in range(50)]
        shards = [{"id": s, "slices": 4, "bytes": 1000000 + s, "pushes": 500 * t, "pulls": 500 * t, "duplicates": 0,
                   "waiting_pulls": 1, "queue_bytes": 1000 * (t % 7), "journal_bytes": 5000, "stalled": "", "slowest_clock": 10 * t,
                   "journal_p50": 0.1, "journal_p99": 0.4} for s in range(8)]
        records.append({"kind": "progress", "seconds": t, "epoch": t / 10, "loss": 2 / (1 + t), "accuracy": 1 - 1 / (1 + t),
                        "samples_per_second": 26000, "bytes_pushed": 1000 * t, "bytes_pushed_dense": 50000 * t,
                        "residual_norm": 8, "workers": 49, "learning_rate": 0.02})
        records.append({"kind": "detail", "seconds": t, "state": "training", "detail": "", "workers": workers, "shards": shards,
                        "waits_for": "waiting for server 2" if t >= 20 else "", "failed_checkpoint": "",
                        **({"servers": servers[min(t // 10, 2)]} if t >= 10 else {}),
                        "refused": {"non_finite": t}, "time": {"compute": 30, "wait": 12 + t % 5, "wire": 5, "apply": 3}, "queue_bytes": 8000, "journal_p50": 0.1, "journal_p99": 0.4,
                        "checkpoint": 1, "checkpoint_age": t, **latency})
    (run / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
