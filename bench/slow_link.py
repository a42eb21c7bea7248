#!/usr/bin/python3
"""Training over slow links: psgd with several codecs, and PyTorch DDP over gloo, on the same network.

    sudo bench/slow_link.py                                  # both networks, every link, every way
    sudo bench/slow_link.py --nets mlp --links 100mbit --only 'psgd dgc'
    sudo bench/slow_link.py --nets vgg11 --links 100mbit,1gbit,unlimited --json > rows.json
    sudo bench/slow_link.py --torch --nets resnet18          # PyTorch computes on both sides
    sudo bench/slow_link.py --nets mlp --links 'unlimited,10mbit 50ms' --seconds 60 \\
        --only 'psgd 128 local' --only 'DDP powersgd'        # 50 ms more in each link, one way
    sudo bench/slow_link.py --nets mlp --links 'unlimited,10mbit 50ms' --seconds 120 --servers workers \\
        --only 'psgd 512 local' --only 'DDP powersgd'        # whether local steps hide such a link

Hosts of scripts/netns.sh: ps-server on the first, a worker with one thread on each of the other two (or
--workers); DDP has a process on each of those. With --servers workers each of them has a ps-server too, and
the first host has nothing. All train the same network on generated images in batches of 32 a worker (or
--batch): ps-worker has it as ONNX, and with --torch PyTorch programs are psgd's workers. Printed are milliseconds a step (psgd's mean, DDP's median), images a second of all
together, and megabytes a step that each worker sends and receives, headers included, from when training has settled.
psgd's time is the slope of records that come once a second: with local steps measure for a minute.
Needs root (network namespaces), Debian's python3-torch and python3-onnx.
"""
import argparse
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
NETNS = str(ROOT / "scripts" / "netns.sh")

SPARSE = ["compression.dense_below=0"]
# For the wide layers. The other layers travel as few elements, as after a warm-up. With one shard
# the inputs travel once.
FACTORS = ["compression={push: {dgc: {density: 0.001, momentum: 0, warmup: 0}}, pull: delta, dense_below: 0, rules: WIDE}",
           "cluster.shards=1"]
BYTES = [FACTORS[0].replace("WIDE", "WIDE_INT8"), FACTORS[1]]
AHEAD = ["consistency={staleness: 1, pull_ahead: true}"]
WIDE = {"mlp": ["1.weight", "3.weight"], "vgg11": ["22.weight", "24.weight"],
        "alexnet": ["14.weight", "16.weight"], "resnet18": []}
BITS = "compression={push: {qsgd: {bits: 4}}, pull: {delta: {codec: {qsgd: {bits: 4}}}}}"
PSGD = {  # what is compared: keys of the config
    "none": [],
    "fp16": ["compression.push=fp16", "compression.pull=fp16"],
    "onebit, fp16 down": ["compression.push=onebit", "compression.pull=fp16"],
    "topk 1 %, delta down": ["compression.push={topk: {density: 0.01}}", "compression.pull=delta"] + SPARSE,
    "dgc 0.1 %, delta down": ["compression.push={dgc: {density: 0.001, warmup: 0}}", "compression.pull=delta"] + SPARSE,
    "factors, delta down": ["compression.push=factors", "compression.pull=delta"],
    "factors fp16 + dgc, delta down": FACTORS,
    "factors fp16 + dgc, delta down, a step ahead": FACTORS + AHEAD,
    "factors int8 + dgc, delta down": BYTES,
    "factors int8 + dgc, delta down, a step ahead": BYTES + AHEAD,
    "powersgd 4, topk down": ["compression.push=powersgd",
                              "compression.pull={delta: {codec: {topk: {density: 0.01}}}}"],
    "128 local steps, 4 bits": ["optimizer=worker", "local={steps: 128}", BITS],
    "128 local steps, 4 bits, hidden": ["optimizer=worker", "local={steps: 128, fragments: 4, delay: 24, mix: 0.5}", BITS],
    "512 local steps, 2 bits, hidden": ["optimizer=worker", "local={steps: 512, fragments: 4, delay: 96, mix: 0.5}",
                                        BITS.replace("bits: 4", "bits: 2, rounding: nearest")],
}
DDP = ["none", "fp16", "powersgd 2"]
# Of an epoch. An evaluation pulls all weights whole, which takes a minute at 10 Mbit/s, and local steps are to be
# measured without it.
SAMPLES = 1 << 20


def network(name):
    """A PyTorch module and the shape of its images."""
    from torch import nn

    if name == "mlp":  # 20 M weights, nearly all in two wide layers
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 4096), nn.ReLU(), nn.Linear(4096, 4096),
                             nn.ReLU(), nn.Linear(4096, 10)), (1, 28, 28)
    if name == "resnet18":  # for images of 32x32: 11 M weights
        blocks = [(64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)]
        body = [nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
        channels = 64
        for width, stride in blocks:
            body.append(residual(channels, width, stride))
            channels = width
        return nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10)), (3, 32, 32)
    # For images of 32x32, with two wide layers at the end: VGG-11 of 28 M weights, and one like AlexNet
    # of 36 M.
    plans = {"vgg11": ([64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0], 512),
             "alexnet": ([64, 0, 192, 0, 384, 256, 256, 0], 4096)}
    plan, features = plans[name]
    layers, channels = [], 3
    for width in plan:
        if width == 0:
            layers.append(nn.MaxPool2d(2))
            continue
        layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
        channels = width
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(features, 4096), nn.ReLU(), nn.Linear(4096, 4096),
                         nn.ReLU(), nn.Linear(4096, 10)), (3, 32, 32)


def residual(channels, width, stride):
    """A basic block of a ResNet."""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(channels, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
                nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width))
            self.way = nn.Sequential() if stride == 1 and channels == width else nn.Sequential(
                nn.Conv2d(channels, width, 1, stride, bias=False), nn.BatchNorm2d(width))

        def forward(self, x):
            return torch.relu(self.body(x) + self.way(x))

    return Block()


def run_torch_worker(name, batch):
    """A PyTorch program as a worker of psgd's run, which it finds by its environment."""
    import torch
    from torch.utils.data import DataLoader
    sys.path.insert(0, str(ROOT / "python"))
    import psgd.torch

    torch.set_num_threads(1)
    model, shape = network(name)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)  # of which the shards do the step
    images, labels = torch.rand(batch, *shape), torch.randint(10, (batch,))
    run = psgd.torch.join(model, optimizer, overlap=True)
    data = range(SAMPLES)
    loader = DataLoader(data, batch, sampler=run.sampler(data), collate_fn=lambda _: (images, labels))
    for _ in run.epochs():
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()


def run_ddp_rank(name, how, ranks, batch, steps, rank):
    """One process of DDP: the first prints the seconds of each step, and what it sent and received by
    the end of the step."""
    import torch
    import torch.distributed as dist
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    torch.set_num_threads(1)
    torch.manual_seed(rank)
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    model, shape = network(name)
    # With several buckets gloo mixes up the messages of PowerSGD's hook (PyTorch 1.13).
    one_bucket = {"bucket_cap_mb": 1024} if how.startswith("powersgd") else {}
    if one_bucket:
        dist._DEFAULT_FIRST_BUCKET_BYTES = 1 << 30
    model = torch.nn.parallel.DistributedDataParallel(model, **one_bucket)
    if how == "fp16":
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif how.startswith("powersgd"):
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=int(how.split()[1]),
                                            start_powerSGD_iter=2)
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    images, labels = torch.rand(batch, *shape), torch.randint(10, (batch,))
    for step in range(steps):
        start = time.perf_counter()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
        if rank == 0:
            print(time.perf_counter() - start, *traffic(pathlib.Path("/proc/net/dev").read_text()),
                  flush=True)
    dist.barrier()


def traffic(devices):
    """Bytes that a host has sent and received, from its /proc/net/dev."""
    fields = next(line for line in devices.splitlines() if "eth0" in line).split(":")[1].split()
    return int(fields[8]), int(fields[0])


def transferred(host):
    return traffic(subprocess.run([NETNS, "run", str(host), "cat", "/proc/net/dev"], check=True,
                                  capture_output=True, text=True).stdout)


def ddp(name, how, workers, batch, seconds):
    """Median seconds a step, and the bytes a step that one process sends and receives."""
    warmup = 3  # PowerSGD begins after the second step
    steps = warmup + 2
    # OpenBLAS has its own threads, as many as cores, whatever number PyTorch was told.
    environment = dict(os.environ, MASTER_ADDR="10.77.0.2", MASTER_PORT="29500",
                       GLOO_SOCKET_IFNAME="eth0", OPENBLAS_NUM_THREADS="1")
    while True:
        command = [sys.executable, __file__, "--ddp", name, how, str(workers), str(batch), str(steps)]
        ranks = [subprocess.Popen([NETNS, "run", str(2 + rank)] + command + [str(rank)], env=environment,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
                 for rank in range(workers)]
        output = [process.communicate()[0] for process in ranks][0]
        rows = [line.split() for line in output.splitlines()]
        if len(rows) < steps:
            raise RuntimeError(f"DDP with {how} ended after {len(rows)} of {steps} steps")
        times = [float(row[0]) for row in rows[warmup:]]
        if sum(times) >= seconds:
            sent, received = ((int(rows[-1][i]) - int(rows[warmup - 1][i])) / len(times) for i in (1, 2))
            return statistics.median(times), sent, received
        steps = warmup + 1 + int(1.3 * seconds / min(times))


def serve(host, arguments, options):
    """ps-server on a host."""
    return subprocess.Popen([NETNS, "run", str(host), f"{options.bin}/ps-server", "--bind", f"10.77.0.{host}",
                             "--insecure", "--quiet"] + arguments,
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def steps_of_clock(sets):
    """A worker's steps from exchange to exchange."""
    local = " ".join(each for each in sets if each.startswith("local="))
    steps, fragments = (re.search(rf"{key}: (\d+)", local) for key in ("steps", "fragments"))
    return (int(steps[1]) if steps else 1) // (int(fragments[1]) if fragments else 1)


def progress(run):
    try:
        lines = (run / "metrics.jsonl").read_text().splitlines()
    except OSError:
        return []
    records = [json.loads(line) for line in lines if line.endswith("}")]
    return [r for r in records if r["kind"] == "progress" and r["steps"] > 0]


def psgd(name, sets, seconds, options, folder):
    """As ddp."""
    if options.torch:
        return psgd_run(sets, seconds, options, folder, f"""model: client
data: {{batch: {options.batch}}}
""", [sys.executable, __file__, "--torch-worker", name, str(options.batch)])
    for word, values in (("WIDE_INT8", "int8"), ("WIDE", "fp16")):
        rules = [f"{{match: '{layer}', push: {{factors: {{values: {values}}}}}}}" for layer in WIDE[name]]
        sets = [each.replace(word, f"[{', '.join(rules)}]") for each in sets]
    model, shape = network(name)
    path = folder / f"{name}.onnx"
    if not path.exists():
        import torch
        torch.onnx.export(model, torch.rand(1, *shape), str(path), input_names=["input"],
                          dynamic_axes={"input": {0: "batch"}})
    return psgd_run(sets, seconds, options, folder, f"""model: {{onnx: {path}}}
data: {{format: synthetic, batch: {options.batch}, eval_batch: 32,
       synthetic: {{shape: [{shape[0]}, {shape[1]}, {shape[2]}], classes: 10, train_samples: {SAMPLES}, test_samples: 64}}}}
""", [f"{options.bin}/ps-worker", "--cpu", "--threads", "1", "--quiet"])


def psgd_run(sets, seconds, options, folder, model_and_data, worker):
    run = folder / "run"
    hosts = range(2, 2 + options.workers)
    subprocess.run(["rm", "-rf", str(run)] + [str(folder / f"server-{host}") for host in hosts], check=True)
    config = folder / "config.yaml"
    config.write_text(f"""name: slow-link
{model_and_data}train: {{epochs: 100}}
optimizer: {{sgd: {{learning_rate: 0.01}}}}
consistency: {{staleness: {options.staleness}}}
cluster: {{transport: {options.transport}, shards: {options.workers}, workers: {options.workers}, servers: {options.workers if options.servers == "workers" else 1}, deadline: 300s, resend: 120s}}
""")
    first = 2 if options.servers == "workers" else 1
    beside = ["--beside-worker"] if options.servers == "workers" else []
    address = f"10.77.0.{first}:7070"
    servers = [serve(first, ["--config", str(config), "--run-dir", str(run), "--port", "7070"] + beside
                     + [word for each in sets for word in ("--set", each)], options)]
    workers = []
    environment = dict(os.environ, PSGD_SERVER=address, PSGD_LIBRARY=f"{options.bin}/libpsgd.so",
                       OPENBLAS_NUM_THREADS="1")
    for host in hosts:
        arguments = [] if options.torch else ["--server", address]
        if options.servers == "workers" and host > 2 and options.torch:
            servers.append(serve(host, ["--join", address, "--run-dir", str(folder / f"server-{host}"),
                                        "--port", "7070"] + beside, options))
        elif options.servers == "workers" and host > 2:
            arguments += ["--with-server", str(folder / f"server-{host}"), "--insecure"]
        workers.append(subprocess.Popen(
            [NETNS, "run", str(host)] + worker + arguments, env=environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
    try:
        points, latest = [], 0  # seconds and clock
        while True:
            time.sleep(0.2)
            if any(process.poll() is not None for process in servers + workers):
                for process in servers + workers:
                    process.kill()
                raise RuntimeError("psgd ended early:\n" + "".join(
                    process.communicate()[1] for process in servers + workers))
            # The first record of each clock. Records come once a second, so the line through all of them
            # says more than the first and the last one.
            last = next((r for r in progress(run) if r["clock"] > latest), None)
            if last is None:
                continue
            latest = last["clock"]
            # Two exchanges of each worker pull all weights and fill every residual.
            if last["clock"] < 3:
                continue
            if not points:
                before = transferred(2)
            points.append((last["seconds"], last["clock"]))
            took, clocks = (points[-1][i] - points[0][i] for i in (0, 1))
            if clocks >= 2 and took >= seconds:
                steps = steps_of_clock(sets)
                sent, received = ((now - then) / clocks for now, then in zip(transferred(2), before))
                slope = statistics.linear_regression(*zip(*points)).slope
                return 1 / slope / steps, sent / steps, received / steps
    finally:
        for process in workers + servers:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
        for process in workers + servers:
            process.wait()
        for host in hosts:  # the servers beside the workers
            prefix = os.environ.get("PSGD_NETNS", "psgd")
            pids = subprocess.run(["ip", "netns", "pids", f"{prefix}-{host}"], capture_output=True, text=True)
            for pid in pids.stdout.split():
                os.kill(int(pid), signal.SIGKILL)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--nets", default="mlp,vgg11", help="mlp, vgg11, alexnet, resnet18")
    parser.add_argument("--links", default="100mbit,1gbit,unlimited", help="rates, also with a delay: '10mbit 50ms'")
    parser.add_argument("--only", action="append", help="ways whose name has this in it, as 'psgd' or 'fp16'; repeatable")
    parser.add_argument("--seconds", type=float, default=15, help="to measure each for, at least")
    parser.add_argument("--staleness", default="0", help="of psgd; DDP has none")
    parser.add_argument("--servers", default="one", choices=["one", "workers"],
                        help="of psgd: one on a host of its own, or one beside each worker")
    parser.add_argument("--torch", action="store_true", help="PyTorch programs are psgd's workers")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=32, help="images a worker and step")
    parser.add_argument("--transport", default="auto", help="of psgd")
    parser.add_argument("--bin", default=str(ROOT / "build" / "release" / "bin"))
    parser.add_argument("--json", action="store_true", help="a JSON object a row")
    options = parser.parse_args()
    ways = [("psgd", way) for way in PSGD] + [("DDP", way) for way in DDP]
    ways = [(system, way) for system, way in ways if any(only in f"{system} {way}" for only in options.only or [""])]
    if options.servers == "workers":  # a single shard cannot be on several servers
        ways = [(system, way) for system, way in ways
                if system == "DDP" or "cluster.shards=1" not in PSGD[way]]
    if options.torch:  # fragments and delays are ps-worker's
        ways = [(system, way) for system, way in ways if "hidden" not in way]
    hosts = str(1 + options.workers)
    if subprocess.run([NETNS, "up", hosts], capture_output=True).returncode != 0:
        sys.exit("skipped: this machine does not let us make network namespaces (root, or CAP_NET_ADMIN in a "
                 "container, and iproute2 are needed)")
    try:
        with tempfile.TemporaryDirectory() as folder:
            compare(ways, options, pathlib.Path(folder))
    finally:
        subprocess.run([NETNS, "down"], check=True)


def compare(ways, options, folder):
    """Prints a row for each network, link and way."""
    unlimited = {}
    for name in options.nets.split(","):
        # The unlimited link comes first, because the others are printed as multiples of it.
        for link in sorted(options.links.split(","), key=lambda link: link != "unlimited"):
            up = subprocess.run([NETNS, "up", str(1 + options.workers)] + ([] if link == "unlimited" else link.split()),
                                stderr=subprocess.PIPE, text=True)
            if up.returncode != 0:
                sys.exit(f"no link of {link}: {up.stderr.strip().splitlines()[-1]}" +
                         ("; a delay needs the kernel's netem queue (module sch_netem) or TUN" if " " in link else ""))
            for system, way in ways:
                if system == "DDP":
                    step, sent, received = ddp(name, way, options.workers, options.batch, options.seconds)
                else:
                    step, sent, received = psgd(name, PSGD[way], options.seconds, options, folder)
                if link == "unlimited":
                    unlimited[name, system, way] = step
                alone = unlimited.get((name, system, way))
                row = {"net": name, "link": link, "system": system, "way": way,
                       "ms_per_step": step * 1000, "images_per_second": options.workers * options.batch / step,
                       "mb_sent_per_step": sent / 1e6, "mb_received_per_step": received / 1e6,
                       "times_unlimited": step / alone if alone else None}
                if options.json:
                    print(json.dumps(row), flush=True)
                    continue
                times = f"{row['times_unlimited']:7.2f}x" if alone else "       -"
                print(f"{name:6} {link:11} {system:5} {way:44} {row['ms_per_step']:9.1f} ms "
                      f"{row['images_per_second']:8.1f} img/s  up {row['mb_sent_per_step']:8.3f} MB  "
                      f"down {row['mb_received_per_step']:8.3f} MB {times}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] == "--ddp":
        run_ddp_rank(sys.argv[2], sys.argv[3], *(int(word) for word in sys.argv[4:]))
    elif len(sys.argv) > 1 and sys.argv[1] == "--torch-worker":
        run_torch_worker(sys.argv[2], int(sys.argv[3]))
    else:
        main()
