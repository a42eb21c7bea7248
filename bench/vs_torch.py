#!/usr/bin/python3
"""Training steps of psgd's engine and of PyTorch, on the same cores, one after the other.

    bench/vs_torch.py                          # lenet5, resnet18, resnet50, gpt on one core
    bench/vs_torch.py --threads 2 --only gpt --rounds 5
    bench/vs_torch.py --bin build/release/bin

Needs Debian's python3-torch and python3-torchvision. A step is forward, loss and backward on one batch
that stays the same; no optimizer. Each round runs both, in turn, so that what else the machine does
meets both; printed are medians over the rounds and the range of the ratio.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "tests", "golden"))

CASES = {  # name: (arguments of ps-bench step, batch)
    "lenet5": (["--model", "lenet5"], 64),
    "resnet18": (["--model", "resnet18", "--image", "32"], 128),
    "resnet50": (["--model", "resnet50", "--image", "224"], 8),
    "gpt": (["--model", "gpt", "--tokens", "128", "--layers", "6", "--width", "256"], 8),
}


def psgd(program, name, threads):
    arguments, batch = CASES[name]
    command = [program, "step", *arguments, "--batch", str(batch), "--threads", str(threads), "--json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return batch * 1000 / json.loads(done.stdout.splitlines()[-1])["ms_per_step_median"]


def torch_step(name):
    """A closure that makes one step."""
    import torch
    import torchvision
    from torch.nn import functional as F
    import make_networks as networks

    batch = CASES[name][1]
    if name == "gpt":
        model = networks.Gpt(length=128, vocabulary=256, width=256, heads=4, layers=6)
        inputs = torch.randint(256, (batch, 128))
        labels = torch.randint(256, (batch * 128,))
    else:
        size, channels, classes = {"lenet5": (28, 1, 10), "resnet18": (32, 3, 1000),
                                   "resnet50": (224, 3, 1000)}[name]
        model = networks.Lenet5() if name == "lenet5" else getattr(torchvision.models, name)()
        inputs = torch.rand(batch, channels, size, size)
        labels = torch.randint(classes, (batch,))
        if name != "lenet5":  # the layout that PyTorch is faster with
            model = model.to(memory_format=torch.channels_last)
            inputs = inputs.contiguous(memory_format=torch.channels_last)
    model.train()

    def step():
        model.zero_grad(set_to_none=True)
        logits = model(inputs)
        F.cross_entropy(logits.flatten(0, -2), labels).backward()

    return step


def torch(name, threads):
    """In a process of its own, as psgd's; at least a second of steps after two."""
    done = subprocess.run([sys.executable, __file__, "--child", name, "--threads", str(threads)],
                          check=True, capture_output=True, text=True)
    return float(done.stdout)


def child(name, threads):
    import torch
    torch.set_num_threads(threads)
    step = torch_step(name)
    step()
    step()
    times = []
    while sum(times) < 1 or len(times) < 5:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    print(CASES[name][1] / statistics.median(times))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=os.path.join(os.path.dirname(__file__), "..", "build",
                                                      "release", "bin"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=CASES, action="append")
    parser.add_argument("--child", choices=CASES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        return child(arguments.child, arguments.threads)
    program = os.path.join(arguments.bin, "ps-bench")
    print(f"{'':10} {'psgd':>10} {'PyTorch':>10}  samples/s, ratio (range of {arguments.rounds})")
    for name in arguments.only or CASES:
        ours, theirs = [], []
        for _ in range(arguments.rounds):
            ours.append(psgd(program, name, arguments.threads))
            theirs.append(torch(name, arguments.threads))
        ratios = [a / b for a, b in zip(ours, theirs)]
        print(f"{name:10} {statistics.median(ours):10.1f} {statistics.median(theirs):10.1f}  "
              f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})", flush=True)


if __name__ == "__main__":
    main()
