#!/usr/bin/env python3
"""How well ps-sim predicts real runs of this machine.

    bench/sim_accuracy.py [--config FILE] [--workers 1,2,4] [--rounds 3] [--calm 0.1] [--bound 0.15]
                          [--bin build/release/bin] [--json]

A round runs ps-run with each number of workers, a thread each, one after the other; calibrates ps-sim from the
run with the first number; and predicts the others, and that one again. A round in which other processes had
more than --calm of the processors is done again, since both speeds would be theirs. Prints medians over the
rounds, with ranges. With --bound the exit code is 1 when the median of predicted / measured is further
from 1 for any number of workers.
"""

import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

CONFIG = """name: sim-accuracy
model: {zoo: lenet5}
data: {format: synthetic, synthetic: {train_samples: 16384, test_samples: 256, shape: [1, 28, 28]}, batch: 64}
train: {epochs: 1}
optimizer: {sgd: {learning_rate: 0.01}}
consistency: {staleness: 4}
compression: {push: {topk: {density: 0.01}}}
cluster: {shards: 4, workers: 1}
"""


TICKS = os.sysconf("SC_CLK_TCK")
WAIT = 5  # seconds, before a round is tried again
TRIES = 100


def busy_seconds():
    """Of all processors, since the machine started: user, nice, system, interrupts, stolen."""
    fields = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    return sum(int(fields[i]) for i in (0, 1, 2, 5, 6, 7)) / TICKS


def own_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Others:
    """The share of the processors that other processes had."""

    def __init__(self):
        self.start = time.monotonic(), busy_seconds(), own_seconds()

    def share(self):
        now = time.monotonic(), busy_seconds(), own_seconds()
        passed, busy, own = (b - a for a, b in zip(self.start, now))
        return (busy - own) / (passed * os.cpu_count())


def run(command):
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if ended.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {ended.returncode}\n{ended.stderr}")
    return ended.stdout


def measure(bin_dir, config, workers, folder, calm):
    """None: the machine had other work."""
    folder.mkdir()
    measured = {}
    for n in workers:
        others = Others()
        out = run([f"{bin_dir}/ps-run", str(config), "--workers", str(n), "--threads", "1", "--run-dir",
                   str(folder / str(n)), "--json", "--quiet"])
        measured[n] = json.loads(out)
        if others.share() > calm:
            print(f"others had {100 * others.share():.0f} % of the processors: the round counts for nothing",
                  file=sys.stderr)
            return None
    out = run([f"{bin_dir}/ps-sim", str(config), "--calibrate", str(folder / str(workers[0])), "--workers",
               ",".join(map(str, workers)), "--json", "--quiet"])
    predicted = {row["workers"]: row for row in map(json.loads, out.splitlines())}
    return {n: (measured[n], predicted[n]) for n in workers}


def measure_calmly(bin_dir, config, workers, folder, calm):
    for attempt in range(TRIES):
        others = Others()
        time.sleep(WAIT if attempt else 1)
        if others.share() > calm:
            continue
        result = measure(bin_dir, config, workers, folder / str(attempt), calm)
        if result is not None:
            return result
    sys.exit(f"the machine was never calm enough in {TRIES} tries; raise --calm, or come back later")


def spread(values):
    return [statistics.median(values), min(values), max(values)]


def row_of(n, rounds):
    def over(of):
        return spread([of(*result[n]) for result in rounds])

    return {
        "bench": "sim-accuracy", "workers": n, "rounds": len(rounds),
        "measured": over(lambda m, p: m["samples_per_second"]),
        "predicted": over(lambda m, p: p["run_samples_per_second"]),
        "ratio": over(lambda m, p: p["run_samples_per_second"] / m["samples_per_second"]),
        "staleness_measured": over(lambda m, p: m["staleness"]["mean"]),
        "staleness_predicted": over(lambda m, p: p["staleness_mean"]),
        "push_staleness_measured": over(lambda m, p: m["push_staleness"]["mean"]),
        "push_staleness_predicted": over(lambda m, p: p["push_staleness_mean"]),
        "bytes_ratio": over(lambda m, p: (p["bytes_pushed"] + p["bytes_pulled"]) /
                            (m["bytes_pushed"] + m["bytes_pulled"])),
    }


def print_table(rows, off):
    print("workers  measured samples/s      predicted               ratio                of pushes: staleness       of pulls")
    for row in rows:
        print("{:7d}  {:6.0f} ({:.0f} to {:.0f})  {:6.0f} ({:.0f} to {:.0f})  {:.3f} ({:.3f} to {:.3f})  {:.2f} ({:.2f} to {:.2f}) / {:.2f}  {:.2f} ({:.2f} to {:.2f}) / {:.2f}".format(
            row["workers"], *row["measured"], *row["predicted"], *row["ratio"],
            *row["push_staleness_measured"], row["push_staleness_predicted"][0],
            *row["staleness_measured"], row["staleness_predicted"][0]))
    print(f"worst median: {100 * off:.1f} % off")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config")
    parser.add_argument("--workers", default="1,2,4")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--calm", type=float, default=0.1)
    parser.add_argument("--bound", type=float)
    parser.add_argument("--bin", default="build/release/bin")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    workers = [int(n) for n in given.workers.split(",")]

    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        config = pathlib.Path(given.config) if given.config else folder / "config.yaml"
        if not given.config:
            config.write_text(CONFIG)
        rounds = []
        for i in range(given.rounds):
            (folder / f"round-{i}").mkdir()
            rounds.append(measure_calmly(given.bin, config, workers, folder / f"round-{i}", given.calm))
    rows = [row_of(n, rounds) for n in workers]
    worst = max(rows, key=lambda row: abs(row["ratio"][0] - 1))
    off = abs(worst["ratio"][0] - 1)
    if given.json:
        for row in rows:
            print(json.dumps(row))
    else:
        print_table(rows, off)
    if given.bound is not None and off > given.bound:
        sys.exit(f"the prediction for {worst['workers']} workers is {100 * off:.1f} % off, more than --bound allows"
                 f" ({100 * given.bound:g} %)")


if __name__ == "__main__":
    main()
