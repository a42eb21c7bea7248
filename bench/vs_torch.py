#!/usr/bin/python3
"""Training steps of psgd's engine and of PyTorch, on the same cores or GPU, one after the other.

    bench/vs_torch.py                          # lenet5, resnet18, resnet50, gpt on one core
    bench/vs_torch.py --threads 2 --only gpt --rounds 5
    bench/vs_torch.py --bin build/release/bin
    bench/vs_torch.py --gpu 0                  # bf16 on a GPU, PyTorch 2 with autocast

Needs PyTorch and torchvision: Debian's python3-torch and python3-torchvision, or with --gpu version 2 for
CUDA; there PyTorch runs as written and compiled by torch.compile, with a ratio for each. A step is forward, loss and backward on one batch
that stays the same; no optimizer. Both networks have as many parameters, running statistics counted,
or the script ends with an error. Each round runs both, in turn, so that what else the machine does
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

CASES = {  # name: (arguments of ps-bench step, batch on processors, batch on a GPU)
    "lenet5": (["--model", "lenet5"], 64, 4096),
    "resnet18": (["--model", "resnet18", "--image", "32"], 128, 1024),
    "resnet50": (["--model", "resnet50", "--image", "224"], 8, 256),
    "gpt": (["--model", "gpt", "--tokens", "128", "--layers", "6", "--width", "256"], 8, 256),
}


def batch_of(name, on_gpu):
    return CASES[name][2 if on_gpu else 1]


def keep_to_cores(threads):
    """Both run on the same cores and on no more: an OpenBLAS with threads of its own takes as many as the
    process may run on, whatever number PyTorch was told."""
    allowed = sorted(os.sched_getaffinity(0))
    if threads > len(allowed):
        sys.exit(f"vs_torch.py: --threads {threads}, but this process may run on {len(allowed)} cores")
    os.sched_setaffinity(0, allowed[-threads:])


def output_of(command, gpu):
    """What the command prints; it sees one GPU at most."""
    environment = dict(os.environ)
    if gpu is not None:
        environment["CUDA_VISIBLE_DEVICES"] = str(gpu)
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"vs_torch.py: failed, see above: {' '.join(command)}")
    return done.stdout


def psgd(program, name, threads, gpu):
    batch = batch_of(name, gpu is not None)
    command = [program, "step", *CASES[name][0], "--batch", str(batch), "--threads", str(threads), "--json"]
    if gpu is not None:
        command += ["--engine", "cudnn", "--precision", "bf16"]
    row = json.loads(output_of(command, gpu).splitlines()[-1])
    return batch * 1000 / row["ms_per_step_median"], int(row["parameters"])


def parameters_of(model):
    """As ps-bench counts them: weights, and the running statistics of normalisations."""
    statistics = [buffer for name, buffer in model.named_buffers()
                  if name.endswith(("running_mean", "running_var"))]
    return sum(tensor.numel() for tensor in [*model.parameters(), *statistics])


def torch_step(name, device, compiled):
    """A closure that makes one step, and how many parameters the network has."""
    import torch
    import torchvision
    from torch.nn import functional as F
    import torch_networks as networks

    batch = batch_of(name, device == "cuda")
    if name == "gpt":
        model = networks.Gpt(length=128, vocabulary=256, width=256, heads=4, layers=6)
        inputs = torch.randint(256, (batch, 128))
        labels = torch.randint(256, (batch * 128,))
    else:
        size, channels, classes = {"lenet5": (28, 1, 10), "resnet18": (32, 3, 10),
                                   "resnet50": (224, 3, 1000)}[name]  # as ps-bench step has them
        model = (networks.Lenet5() if name == "lenet5"
                 else getattr(torchvision.models, name)(num_classes=classes))
        inputs = torch.rand(batch, channels, size, size)
        labels = torch.randint(classes, (batch,))
        if name != "lenet5":  # the layout that PyTorch is faster with
            model = model.to(memory_format=torch.channels_last)
            inputs = inputs.contiguous(memory_format=torch.channels_last)
    parameters = parameters_of(model)
    model, inputs, labels = model.train().to(device), inputs.to(device), labels.to(device)
    if compiled:
        model = torch.compile(model)

    def step():
        model.zero_grad(set_to_none=True)
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            loss = F.cross_entropy(model(inputs).flatten(0, -2), labels)
        loss.backward()
        if device == "cuda":
            torch.cuda.synchronize()

    return step, parameters


def torch(name, threads, gpu, compiled=False):
    """In a process of its own, as psgd's; at least a second of steps after three."""
    command = [sys.executable, __file__, "--child", name, "--threads", str(threads)]
    command += [] if gpu is None else ["--gpu", str(gpu)]
    speed, parameters = output_of(command + (["--compiled"] if compiled else []), gpu).split()
    return float(speed), int(parameters)


def check_same_network(name, ours, theirs):
    if ours != theirs:
        sys.exit(f"vs_torch.py: {name} has {ours} parameters in psgd and {theirs} in PyTorch, so these are not "
                 f"the same network: give torch_step the classes and widths that ps-bench step has for "
                 f"{' '.join(CASES[name][0])}")


def child(name, threads, on_gpu, compiled):
    import torch
    if on_gpu and not torch.cuda.is_available():
        sys.exit(f"PyTorch {torch.__version__} finds no GPU: it needs a build for CUDA, and a driver")
    torch.set_num_threads(threads)
    step, parameters = torch_step(name, "cuda" if on_gpu else "cpu", compiled)
    for _ in range(3):
        step()
    times = []
    while sum(times) < 1 or len(times) < 5:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    print(batch_of(name, on_gpu) / statistics.median(times), parameters)


def ratio_text(ours, theirs):
    ratios = [a / b for a, b in zip(ours, theirs)]
    return (f"{statistics.median(theirs):10.1f}  {statistics.median(ratios):.2f} "
            f"({min(ratios):.2f} to {max(ratios):.2f})")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=os.path.join(os.path.dirname(__file__), "..", "build",
                                                      "release", "bin"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=CASES, action="append")
    parser.add_argument("--gpu", type=int, metavar="N", help="on this GPU, in bf16")
    parser.add_argument("--child", choices=CASES, help=argparse.SUPPRESS)
    parser.add_argument("--compiled", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        return child(arguments.child, arguments.threads, arguments.gpu is not None,
                     arguments.compiled)
    if arguments.gpu is None:
        keep_to_cores(arguments.threads)
    program = os.path.join(arguments.bin, "ps-bench")
    peers = [("PyTorch", False)] + ([("compiled", True)] if arguments.gpu is not None else [])
    columns = "".join(f" {peer:>10}  {'ratio (range)':19}" for peer, _ in peers)
    print(f"samples/s  {'psgd':>10}{columns} of {arguments.rounds} rounds")
    for name in arguments.only or CASES:
        ours, theirs = [], [[] for _ in peers]
        for _ in range(arguments.rounds):
            speed, parameters = psgd(program, name, arguments.threads, arguments.gpu)
            ours.append(speed)
            for (_, compiled), speeds in zip(peers, theirs):
                speed, theirs_has = torch(name, arguments.threads, arguments.gpu, compiled)
                check_same_network(name, parameters, theirs_has)
                speeds.append(speed)
        cells = "".join(f" {ratio_text(ours, speeds):>31}" for speeds in theirs)
        print(f"{name:10} {statistics.median(ours):10.1f}{cells}", flush=True)


if __name__ == "__main__":
    main()
