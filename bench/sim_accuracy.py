#!/usr/bin/env python3
"""How well ps-sim predicts real runs of this machine.

    bench/sim_accuracy.py [--config FILE] [--workers 1,2,4] [--rounds 3] [--bin build/release/bin] [--json]

A round runs ps-run with each number of workers, a thread each, one after the other; calibrates ps-sim from the
run with the first number; and predicts the others, and that one again. Rounds are independent, so that what
else the machine does in between counts against the prediction. Prints medians over the rounds, with ranges.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

CONFIG = """name: sim-accuracy
model: {zoo: lenet5}
data: {format: synthetic, synthetic: {train_samples: 24576, test_samples: 256, shape: [1, 28, 28]}, batch: 64}
train: {epochs: 2}
optimizer: {sgd: {learning_rate: 0.01}}
consistency: {staleness: 4}
compression: {push: {topk: {density: 0.01}}}
cluster: {shards: 4, workers: 1}
"""


def run(command):
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if ended.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {ended.returncode}\n{ended.stderr}")
    return ended.stdout


def measure(bin_dir, config, workers, folder):
    folder.mkdir()
    measured = {}
    for n in workers:
        out = run([f"{bin_dir}/ps-run", str(config), "--workers", str(n), "--threads", "1", "--run-dir",
                   str(folder / str(n)), "--json", "--quiet"])
        measured[n] = json.loads(out)
    out = run([f"{bin_dir}/ps-sim", str(config), "--calibrate", str(folder / str(workers[0])), "--workers",
               ",".join(map(str, workers)), "--json", "--quiet"])
    predicted = {row["workers"]: row for row in map(json.loads, out.splitlines())}
    return {n: (measured[n], predicted[n]) for n in workers}


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
        "bytes_ratio": over(lambda m, p: (p["bytes_pushed"] + p["bytes_pulled"]) /
                            (m["bytes_pushed"] + m["bytes_pulled"])),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config")
    parser.add_argument("--workers", default="1,2,4")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bin", default="build/release/bin")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    workers = [int(n) for n in given.workers.split(",")]

    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        config = pathlib.Path(given.config) if given.config else folder / "config.yaml"
        if not given.config:
            config.write_text(CONFIG)
        rounds = [measure(given.bin, config, workers, folder / f"round-{i}") for i in range(given.rounds)]
    rows = [row_of(n, rounds) for n in workers]
    if given.json:
        for row in rows:
            print(json.dumps(row))
        return
    print("workers  measured samples/s      predicted               ratio                staleness")
    for row in rows:
        print("{:7d}  {:6.0f} ({:.0f} to {:.0f})  {:6.0f} ({:.0f} to {:.0f})  {:.3f} ({:.3f} to {:.3f})  {:.2f} / {:.2f}".format(
            row["workers"], *row["measured"], *row["predicted"], *row["ratio"],
            row["staleness_measured"][0], row["staleness_predicted"][0]))
    worst = max(abs(row["ratio"][0] - 1) for row in rows)
    print(f"worst median: {100 * worst:.1f} % off")


if __name__ == "__main__":
    main()
