#!/usr/bin/python3
"""What codecs and local steps cost in accuracy: ResNet-20 on generated images in CIFAR-10's format, two workers.

    bench/codec_order.py                                # eight codecs, one seed: some 15 minutes on two cores
    bench/codec_order.py --only 'none,onebit' --seeds 1,2,3
    bench/codec_order.py --epochs 20 --strength 62 --test 4000   # images that are hard to tell apart
    bench/codec_order.py --only 'none,onebit,onebit 1024,onebit 256,onebit 64' --epochs 10
    bench/codec_order.py --only 'none,8 local steps' --epochs 20 --strength 62 --test 4000 --seeds 1,2,3
    bench/codec_order.py --json > rows.json

Each run is ps-run's, of the build that this tree has (--bin for another), on the same images: textures,
two to a class, at any place, mirrored or not, behind a texture that belongs to no class, and noise.
Printed are the test accuracy, what that is below `none`, and how much smaller pushes and pulls are. Bytes are
those of the whole run, headers included. With local steps, workers use the same optimizer, the outer one has
momentum, and exchanges have 4 bits a weight.
"""
import argparse
import json
import math
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIDE = 32
CLASSES = 10
BOTH = 160  # what texture and background reach together; noise takes the rest of a byte
CODECS = {  # keys of the config
    "none": [],
    "fp16": ["compression.push=fp16"],
    "int8": ["compression.push=int8"],
    "ternary": ["compression.push=ternary"],
    "onebit": ["compression.push=onebit"],
    "topk 1 %": ["compression.push={topk: {density: 0.01}}"],
    # The codec has its own momentum and warm-up.
    "dgc 0.1 %": ["compression.push={dgc: {density: 0.001, momentum: 0.9, warmup: 200}}",
                  "optimizer.sgd.momentum=0"],
    "powersgd 4": ["compression.push={powersgd: {rank: 4}}"],
}
MORE = {f"onebit {block}": [f"compression.push={{onebit: {{block: {block}}}}}"] for block in (1024, 256, 64)}
MORE |= {f"{steps} local steps": [
    f"local.steps={steps}", "local.optimizer={sgd: {learning_rate: 0.1, momentum: 0.9, weight_decay: 1e-4}}",
    "local.schedule={warmup: 0.5 epochs, cosine: {}}", "schedule=constant",
    "optimizer={sgd: {learning_rate: 0.7, momentum: 0.5, nesterov: true}}",
    "compression={push: {qsgd: {bits: 4}}, pull: {delta: {codec: {qsgd: {bits: 4}}}}}"] for steps in (8, 10, 25, 50, 100)}

CONFIG = """name: codec-order
seed: 1
model: {{zoo: resnet20}}
data: {{format: cifar10, path: {data}, batch: 32, augment: {{crop_padding: 4, flip: true}}}}
train: {{epochs: {epochs}}}
optimizer: {{sgd: {{learning_rate: 0.1, momentum: 0.9, weight_decay: 1e-4}}}}
schedule: {{warmup: 0.5 epochs, cosine: {{}}}}
consistency: {{staleness: 0}}
cluster: {{shards: 2, workers: 2}}
durability: {{checkpoint: {epochs} epochs}}
"""


def texture(rng, top):
    """Rows of a texture that repeats at its edges, a channel after the other, values up to `top`."""
    channels = []
    for _ in range(3):
        waves = [(rng.randint(-4, 4), rng.randint(-4, 4), rng.uniform(0, 2 * math.pi)) for _ in range(4)]
        values = [[sum(math.cos(2 * math.pi * (a * x + b * y) / SIDE + c) for a, b, c in waves)
                   for x in range(SIDE)] for y in range(SIDE)]
        low, high = min(map(min, values)), max(map(max, values))
        scale = top / max(high - low, 1e-9)
        channels.append([bytes(int((v - low) * scale) for v in row) for row in values])
    return channels


def moved(rng, channels):
    """The texture from another place on, mirrored or not, as one number of a byte a pixel."""
    dx, dy, mirror = rng.randrange(SIDE), rng.randrange(SIDE), rng.random() < 0.5
    rows = []
    for rows_of_channel in channels:
        for y in range(SIDE):
            row = rows_of_channel[(y + dy) % SIDE]
            row = row[dx:] + row[:dx]
            rows.append(row[::-1] if mirror else row)
    return int.from_bytes(b"".join(rows), "little")


def write_images(path, count, rng, signs, backgrounds):
    pixels = 3 * SIDE * SIDE
    quiet = int.from_bytes(b"\x3f" * pixels, "little")  # noise of 0 to 63
    with open(path, "wb") as out:
        for i in range(count):
            label = i % CLASSES
            # No byte of the three images exceeds its share, so no byte carries into the next.
            image = moved(rng, rng.choice(signs[label])) + moved(rng, rng.choice(backgrounds))
            image += int.from_bytes(rng.randbytes(pixels), "little") & quiet
            out.write(bytes([label]) + image.to_bytes(pixels, "little"))


def make_data(folder, train, test, strength):
    rng = random.Random(1)
    signs = [[texture(rng, strength) for _ in range(2)] for _ in range(CLASSES)]
    backgrounds = [texture(rng, BOTH - strength) for _ in range(16)]
    for part in range(1, 6):
        write_images(folder / f"data_batch_{part}.bin", train // 5, rng, signs, backgrounds)
    write_images(folder / "test_batch.bin", test, rng, signs, backgrounds)


def run(arguments, folder, codec, settings, seed):
    run_dir = folder / f"{codec.replace(' ', '-').replace('%', 'percent')}-{seed}"
    command = [arguments.bin + "/ps-run", str(folder / "config.yaml"), "--run-dir", str(run_dir), "--quiet",
               "--threads", str(arguments.threads), "--set", f"seed={seed}"]
    if arguments.gpu:
        command += ["--gpu", arguments.gpu, "--workers", "2"]
    for setting in settings:
        command += ["--set", setting]
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode != 0:
        sys.exit(f"{codec}: ps-run ended with {ended.returncode}:\n{ended.stderr}")
    return json.loads((run_dir / "summary.json").read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="codecs, with commas between them; also " + ", ".join(MORE))
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--train", type=int, default=8000, help="images to train on")
    parser.add_argument("--test", type=int, default=2000)
    parser.add_argument("--strength", type=int, default=80, choices=range(1, BOTH), metavar=f"1..{BOTH - 1}",
                        help=f"of a class's texture, of {BOTH} that it has with what is behind it")
    parser.add_argument("--threads", type=int, default=1, help="of each worker")
    parser.add_argument("--gpu", help="train on these GPUs, as ps-run's --gpu")
    parser.add_argument("--bin", default=str(ROOT / "build" / "release" / "bin"))
    parser.add_argument("--json", action="store_true", help="a JSON object a codec")
    arguments = parser.parse_args()
    known = {**CODECS, **MORE}
    codecs = [name.strip() for name in arguments.only.split(",")] if arguments.only else list(CODECS)
    for codec in codecs:
        if codec not in known:
            parser.error(f"there is no codec '{codec}' here; there are: {', '.join(known)}")
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    with tempfile.TemporaryDirectory(prefix="psgd-codec-order-") as scratch:
        folder = pathlib.Path(scratch)
        make_data(folder, arguments.train, arguments.test, arguments.strength)
        (folder / "config.yaml").write_text(CONFIG.format(data=folder, epochs=arguments.epochs))
        dense = None
        if not arguments.json:
            print("| codec | test accuracy, % | below none | pushes smaller by | pulls smaller by | seconds |"
                  "\n|---|---|---|---|---|---|")
        for codec in codecs:
            runs = [run(arguments, folder, codec, known[codec], seed) for seed in seeds]
            accuracy = statistics.mean(100 * summary["test_accuracy"] for summary in runs)
            if codec == "none":
                dense = accuracy
            smaller = statistics.mean(s["bytes_pushed_dense"] / s["bytes_pushed"] for s in runs)
            pulls = statistics.mean(s["bytes_pulled_dense"] / s["bytes_pulled"] for s in runs)
            seconds = statistics.mean(summary["wall_seconds"] for summary in runs)
            row = {"bench": "codec_order", "case": codec, "test_accuracy": round(accuracy, 2),
                   "below_none": None if dense is None else round(dense - accuracy, 2),
                   "smaller_by": round(smaller, 1), "pulls_smaller_by": round(pulls, 1), "seconds": round(seconds, 1), "seeds": seeds,
                   "accuracies": [round(100 * summary["test_accuracy"], 2) for summary in runs]}
            if arguments.json:
                print(json.dumps(row), flush=True)
            else:
                below = "" if dense is None else f"{dense - accuracy:.2f}"
                print(f"| `{codec}` | {accuracy:.2f} | {below} | {smaller:.1f}x | {pulls:.1f}x | {seconds:.0f} |", flush=True)


if __name__ == "__main__":
    main()
