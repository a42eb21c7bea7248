#!/usr/bin/python3
"""What one slow worker of four costs: local steps that wait for it, and local steps that do not.

    scripts/english-text.py english.txt
    bench/slow_worker.py english.txt                  # some 15 minutes on two cores that do nothing else
    bench/slow_worker.py english.txt --seeds 1 --samples 16000

A GPT of 0.2 million weights reads English. Each step of a worker sleeps besides its little arithmetic, so four
workers share few cores as four machines would not; the slow worker sleeps four times longer. Printed are the test
loss and the tokens a second, from the first report to the last step.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
LENGTH = 32
CONFIG = """name: slow-worker
seed: {seed}
model: {{zoo: gpt, layers: 2, width: 64, heads: 4}}
data:
  format: text
  path: {text}
  text: {{length: {length}, test_fraction: 0.02}}
  tokens: bpe
  vocabulary: 1024
  batch: 4
  train_samples: {samples}
  test_samples: 2000
train: {{epochs: 1}}
local:
  optimizer: {{adamw: {{learning_rate: 0.003, weight_decay: 0.01}}}}
  schedule: {{warmup: 50 steps, cosine: {{floor: 0.1}}}}
cluster: {{shards: 2, workers: 4}}
durability: {{checkpoint: 1 epochs}}
"""
WAYS = {
    "synchronous": ["local.steps=16", "consistency.staleness=0",
                    "optimizer={sgd: {learning_rate: 0.7, momentum: 0.5, nesterov: true}}"],
    "asynchronous": ["local.steps=auto", "local.most=16", "consistency.staleness=unbounded", "cluster.segment=4",
                     "optimizer={delayed_nesterov: {learning_rate: 0.7, momentum: 0.5}}"],
}


def train(arguments, folder, way, seed):
    config = folder / "config.yaml"
    config.write_text(CONFIG.format(seed=seed, text=pathlib.Path(arguments.text).resolve(), length=LENGTH,
                                    samples=arguments.samples))
    run_dir = folder / f"{way}-{seed}"
    command = [arguments.bin + "/ps-server", "--config", str(config), "--port", "0", "--run-dir", str(run_dir), "--json"]
    for setting in WAYS[way]:
        command += ["--set", setting]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    ready = server.stdout.readline()
    if not ready:
        sys.exit(f"{way}: {server.stderr.read()}")
    address = json.loads(ready)["control"]
    workers = [subprocess.Popen(
        [arguments.bin + "/ps-worker", "--cpu", "--threads", "1", "--quiet", "--server", address, "--step-delay",
         f"{arguments.delay * (4 if i == 0 else 1)}ms"], stderr=subprocess.PIPE, text=True) for i in range(4)]
    _, error = server.communicate()
    for process in workers + [server]:
        if process.wait() != 0:
            sys.exit(f"{way}: ended with {process.returncode}: {error}")
    rows = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    steps = [row for row in rows if row["kind"] == "progress" and row["samples"] > 0]
    end = next(row for row in steps if row["samples"] == steps[-1]["samples"])
    # Tokens before the first report do not count. A sample of these reports is a token.
    rate = (end["samples"] - steps[0]["samples"]) / (end["seconds"] - steps[0]["seconds"])
    return json.loads((run_dir / "summary.json").read_text())["test_loss"], rate


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", help="what to read")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--samples", type=int, default=64000, help=f"of {LENGTH} tokens")
    parser.add_argument("--delay", type=int, default=15, help="milliseconds that a step sleeps")
    parser.add_argument("--bin", default=str(ROOT / "build" / "release" / "bin"))
    arguments = parser.parse_args()
    print("| way | test loss, seed by seed | tokens/s, seed by seed | tokens/s, median |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="psgd-slow-worker-") as scratch:
        for way in WAYS:
            runs = [train(arguments, pathlib.Path(scratch), way, int(seed)) for seed in arguments.seeds.split(",")]
            losses, rates = zip(*runs)
            print(f"| {way} | {', '.join(f'{loss:.4f}' for loss in losses)} | "
                  f"{', '.join(f'{rate:,.0f}' for rate in rates)} | {statistics.median(rates):,.0f} |", flush=True)


if __name__ == "__main__":
    main()
