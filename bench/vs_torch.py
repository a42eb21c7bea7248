#!/usr/bin/python3
"""Training steps of psgd's engine and of PyTorch, on the same cores or GPU, one after the other.

    bench/vs_torch.py                          # lenet5, resnet18, resnet50, gpt on one core
    bench/vs_torch.py --threads 2 --only gpt --rounds 5
    bench/vs_torch.py --bin build/release/bin
    bench/vs_torch.py --gpu 0                  # bf16 on a GPU, PyTorch 2 with autocast
    bench/vs_torch.py --gpu 0 --precision tf32

Needs PyTorch and torchvision: Debian's python3-torch and python3-torchvision, or with --gpu version 2 for
CUDA; there PyTorch has its fused attention, and runs as written and compiled by torch.compile, with a
ratio for each. A step is forward, loss and backward on one batch that stays the same; no optimizer. Both networks have as many parameters, running statistics counted,
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

CASES = {  # name: (arguments of ps-bench step, batch)
    "lenet5": (["--model", "lenet5"], 64),
    "resnet18": (["--model", "resnet18", "--image", "32"], 128),
    "resnet50": (["--model", "resnet50", "--image", "224"], 8),
    "gpt": (["--model", "gpt", "--tokens", "128", "--layers", "6", "--width", "256"], 8),
}
GPU_CASES = {
    "lenet5": (["--model", "lenet5"], 4096),
    "resnet18": (["--model", "resnet18", "--image", "32"], 1024),
    "resnet50": (["--model", "resnet50", "--image", "224"], 256),
    "gpt": (["--model", "gpt", "--tokens", "1024", "--layers", "6", "--width", "512"], 16),
    "vgg16": (["--model", "vgg16", "--image", "224"], 64),
}


def case_of(name, on_gpu):
    return (GPU_CASES if on_gpu else CASES)[name]


def number_after(option, arguments):
    return int(arguments[arguments.index(option) + 1])


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


def psgd(program, name, threads, gpu, precision):
    arguments, batch = case_of(name, gpu is not None)
    command = [program, "step", *arguments, "--batch", str(batch), "--threads", str(threads), "--json"]
    if gpu is not None:
        command += ["--engine", "cudnn", "--precision", precision]
    row = json.loads(output_of(command, gpu).splitlines()[-1])
    return batch * 1000 / row["ms_per_step_median"], int(row["parameters"])


def parameters_of(model):
    """As ps-bench counts them: weights, and the running statistics of normalisations."""
    statistics = [buffer for name, buffer in model.named_buffers()
                  if name.endswith(("running_mean", "running_var"))]
    return sum(tensor.numel() for tensor in [*model.parameters(), *statistics])


def fuse_attention(networks):
    """PyTorch's own attention in place of the plain one, which the golden numbers are made with."""
    from torch.nn import functional as F

    def forward(self, x):
        n, t, c = x.shape
        split = lambda y: y.reshape(n, t, self.heads, c // self.heads).transpose(1, 2)
        y = F.scaled_dot_product_attention(split(self.q_proj(x)), split(self.k_proj(x)),
                                           split(self.v_proj(x)), is_causal=True)
        return self.out_proj(y.transpose(1, 2).reshape(n, t, c))

    networks.Attention.forward = forward


def torch_step(name, device, compiled, precision):
    """A closure that makes one step, and how many parameters the network has."""
    import torch
    import torchvision
    from torch.nn import functional as F
    import torch_networks as networks

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.benchmark = True  # measures its engines, as psgd does
    arguments, batch = case_of(name, device == "cuda")
    if name == "gpt":
        if device == "cuda":
            fuse_attention(networks)
        tokens, width = number_after("--tokens", arguments), number_after("--width", arguments)
        model = networks.Gpt(length=tokens, vocabulary=256, width=width, heads=4,
                             layers=number_after("--layers", arguments))
        inputs = torch.randint(256, (batch, tokens))
        labels = torch.randint(256, (batch * tokens,))
    else:
        size, channels, classes = {"lenet5": (28, 1, 10), "resnet18": (32, 3, 10), "resnet50": (224, 3, 1000),
                                   "vgg16": (224, 3, 1000)}[name]  # as ps-bench step has them
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
        with torch.autocast(device, torch.bfloat16, enabled=precision == "bf16"):
            loss = F.cross_entropy(model(inputs).flatten(0, -2), labels)
        loss.backward()
        if device == "cuda":
            torch.cuda.synchronize()

    return step, parameters


def torch(name, threads, gpu, compiled, precision):
    """In a process of its own, as psgd's; at least a second of steps after three."""
    command = [sys.executable, __file__, "--child", name, "--threads", str(threads), "--precision", precision]
    command += [] if gpu is None else ["--gpu", str(gpu)]
    speed, parameters = output_of(command + (["--compiled"] if compiled else []), gpu).split()
    return float(speed), int(parameters)


def check_same_network(name, ours, theirs):
    if ours != theirs:
        sys.exit(f"vs_torch.py: {name} has {ours} parameters in psgd and {theirs} in PyTorch, so these are not "
                 f"the same network: give torch_step the classes and widths that ps-bench step has for "
                 f"{name}")


def child(name, threads, on_gpu, compiled, precision):
    import torch
    if on_gpu and not torch.cuda.is_available():
        sys.exit(f"PyTorch {torch.__version__} finds no GPU: it needs a build for CUDA, and a driver")
    torch.set_num_threads(threads)
    step, parameters = torch_step(name, "cuda" if on_gpu else "cpu", compiled, precision)
    for _ in range(3):
        step()
    times = []
    while sum(times) < 1 or len(times) < 5:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    print(case_of(name, on_gpu)[1] / statistics.median(times), parameters)


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
    parser.add_argument("--only", choices=GPU_CASES, action="append", help="vgg16 needs --gpu")
    parser.add_argument("--gpu", type=int, metavar="N", help="on this GPU")
    parser.add_argument("--precision", choices=["fp32", "tf32", "bf16"],
                        help="bf16 on a GPU; processors compute in fp32 alone")
    parser.add_argument("--child", choices=GPU_CASES, help=argparse.SUPPRESS)
    parser.add_argument("--compiled", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    on_gpu = arguments.gpu is not None
    precision = arguments.precision or ("bf16" if on_gpu else "fp32")
    if arguments.child:
        return child(arguments.child, arguments.threads, on_gpu, arguments.compiled, precision)
    cases = GPU_CASES if on_gpu else CASES
    if not on_gpu and (precision != "fp32" or not set(arguments.only or []) <= set(cases)):
        sys.exit("vs_torch.py: --precision and vgg16 are for GPUs; add --gpu 0")
    if not on_gpu:
        keep_to_cores(arguments.threads)
    program = os.path.join(arguments.bin, "ps-bench")
    peers = [("PyTorch", False)] + ([("compiled", True)] if on_gpu else [])
    columns = "".join(f" {peer:>10}  {'ratio (range)':19}" for peer, _ in peers)
    print(f"samples/s  {'psgd':>10}{columns} of {arguments.rounds} rounds, {precision}")
    for name in arguments.only or cases:
        ours, theirs = [], [[] for _ in peers]
        for _ in range(arguments.rounds):
            speed, parameters = psgd(program, name, arguments.threads, arguments.gpu, precision)
            ours.append(speed)
            for (_, compiled), speeds in zip(peers, theirs):
                speed, theirs_has = torch(name, arguments.threads, arguments.gpu, compiled, precision)
                check_same_network(name, parameters, theirs_has)
                speeds.append(speed)
        cells = "".join(f" {ratio_text(ours, speeds):>31}" for speeds in theirs)
        print(f"{name:10} {statistics.median(ours):10.1f}{cells}", flush=True)


if __name__ == "__main__":
    main()
