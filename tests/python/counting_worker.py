"""A worker that counts: a step adds 1 to the weight of each of its samples, so that the weights of
the run say how often each sample was trained. Needs nothing but Python.

counting_worker.py [--epochs N] [--pause SECONDS] [--rate RATE] [--log FILE] [--after SECONDS]
                   [--dies STEPS] [--until FILE]
"""

import argparse
import array
import os
import signal
import time

import psgd

SAMPLES = 96


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--pause", type=float, default=0, help="seconds of a step")
    parser.add_argument("--rate", type=float, default=0, help="reported as loss")
    parser.add_argument("--log", help="gets a line for each step")
    parser.add_argument("--after", type=float, default=0, help="seconds of work after the run")
    parser.add_argument("--dies", type=int, help="worker 1 is killed in the step after so many")
    parser.add_argument("--until", help="worker 1 stands still in its sixth step until this exists")
    options = parser.parse_args()
    log = open(options.log, "a", buffering=1) if options.log else None
    counts = array.array("f", bytes(4 * SAMPLES))
    steps = 0
    with psgd.Client() as run:
        run.add("counts", counts)
        run.commit(samples=SAMPLES, epochs=options.epochs)
        for share in run.shares():
            for indices in share:
                run.pull({"counts": counts})
                for index in indices:
                    counts[index] += 1
                while options.until and steps == 5 and run.worker == 1:
                    if os.path.exists(options.until):
                        break
                    time.sleep(0.05)
                run.push({"counts": counts})
                if steps == options.dies and run.worker == 1:
                    print("dies", *indices, file=log)
                    os.kill(os.getpid(), signal.SIGKILL)
                steps += 1
                run.end_step(samples=len(indices), loss_sum=options.rate * len(indices))
                if log:
                    print(share.epoch, *indices, file=log)
                time.sleep(options.pause)
            run.pull({"counts": counts})
            if share.ends_epoch:
                run.report(share.epoch + 1, loss=options.rate, accuracy=1 - options.rate,
                           samples=SAMPLES)
    time.sleep(options.after)
    if log:
        print("done", file=log)


if __name__ == "__main__":
    main()
