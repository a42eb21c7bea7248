#!/usr/bin/python3
"""What kills cost a run: its speed, its acknowledged pushes, and its test losses, against runs without kills.

    tests/soak/kill_curves.py                                # three seeds, ten minutes each way: over an hour
    tests/soak/kill_curves.py --minutes 1 --seeds 1,2        # a look

kill_soak trains with local steps on three servers with two copies of each shard, and kills a worker and a
server at once every 20 seconds. It trains as long without kills, with the same seeds. Printed are
  goodput      batches that count, a second, as a share of the undisturbed runs'
  lost, twice  acknowledged pushes that are in no journal, and pushes that are there twice
  losses       how far the mean of the test losses is from the undisturbed runs' mean, epoch by epoch, and
               the undisturbed runs' range
Needs Debian's etcd-server.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# The classes overlap, so that the loss does not end at 0. The test set is large, so that seeds differ little.
SETS = ["local.steps=8", "local.optimizer={sgd: {learning_rate: 0.001, momentum: 0.9}}", "optimizer=worker",
        "consistency={staleness: 0, quorum: 2, grace: 500ms}", "data.synthetic.noise=4",
        "data.synthetic.test_samples=4096", "data.eval_batch=1024"]


def soak(arguments, seed, kills):
    """kill_soak's report."""
    seconds = int(arguments.minutes * 60)
    command = [arguments.soak, "--copies=2", f"--seed={seed}"]
    if kills:
        # The first kill comes when the run has trained for a while. The last ends the run.
        command += ["--pairs", f"--undisturbed={arguments.every}", f"--every={arguments.every}",
                    f"--kills={max(1, seconds // arguments.every)}"]
    else:
        command += ["--kills=0", f"--undisturbed={seconds}"]
    command += [f"--set={each}" for each in [*SETS, f"seed={seed}", *arguments.set]]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if ended.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with {ended.returncode}: {ended.stdout}")
    return json.loads(ended.stdout)


def curve(report):
    """Test loss by epoch."""
    losses = report["losses"]["undisturbed"] + report["losses"]["under_kills"]
    return {row["epoch"]: row["loss"] for row in losses}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10, help="of each run")
    parser.add_argument("--every", type=int, default=20, help="seconds between two kills")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--set", action="append", default=[], help="KEY=VALUE of the config; repeatable")
    parser.add_argument("--soak", default=str(ROOT / "build" / "release" / "tests" / "bin" / "kill_soak"))
    arguments = parser.parse_args()
    killed, undisturbed = [], []
    for seed in arguments.seeds.split(","):
        undisturbed.append(soak(arguments, seed, kills=False))
        report = soak(arguments, seed, kills=True)
        killed.append(report)
        goodput = report["batches_per_second"]["under_kills"] / undisturbed[-1]["batches_per_second"]["undisturbed"]
        print(f"seed {seed}: {report['servers_killed']} servers and {report['workers_killed']} workers killed, "
              f"goodput {goodput:.1%}, {report['pushes_acknowledged']} pushes acknowledged, "
              f"{report['acknowledged_and_lost']} lost, {report['applied_twice']} twice", flush=True)
    speeds = [statistics.mean(report["batches_per_second"][way] for report in reports)
              for reports, way in ((killed, "under_kills"), (undisturbed, "undisturbed"))]
    print(f"goodput {speeds[0] / speeds[1]:.1%}, lost {sum(report['acknowledged_and_lost'] for report in killed)}, "
          f"twice {sum(report['applied_twice'] for report in killed)}")
    curves = [[curve(report) for report in reports] for reports in (killed, undisturbed)]
    epochs = sorted(set.intersection(*(set(each) for each in curves[0] + curves[1])))
    if not epochs:
        sys.exit("no epoch ended in all runs: give them more --minutes")
    rows = []  # epoch, means under kills and undisturbed, range undisturbed
    for epoch in epochs:
        losses = [[each[epoch] for each in way] for way in curves]
        rows.append((epoch, statistics.mean(losses[0]), statistics.mean(losses[1]), min(losses[1]), max(losses[1])))
    print("\n| epoch | loss under kills | undisturbed | range undisturbed |\n|---|---|---|---|")
    for epoch, under, without, least, most in rows[::max(1, len(rows) // 10)]:
        print(f"| {epoch:g} | {under:.4f} | {without:.4f} | {least:.4f} to {most:.4f} |")
    inside = sum(least <= under <= most for _, under, _, least, most in rows)
    far = max(rows, key=lambda row: abs(row[1] - row[2]))
    print(f"\nthe mean under kills lies within the undisturbed runs' range in {inside} of {len(rows)} epochs; on average "
          f"it is {statistics.mean(row[1] - row[2] for row in rows):+.4f} from their mean, at most "
          f"{far[1] - far[2]:+.4f} (epoch {far[0]:g}), and their range is "
          f"{statistics.mean(row[4] - row[3] for row in rows):.4f} wide on average")


if __name__ == "__main__":
    main()
