"""Logistic regression in NumPy, through psgd.Client: python3 numpy_logistic.py --epochs 5

    ps-run examples/cluster.yaml --workers 2 -- python3 examples/numpy_logistic.py
"""

import argparse
import os

import numpy as np
import psgd


def generate(samples, seed):
    draw = np.random.default_rng(seed)
    x = draw.standard_normal((samples, 20), np.float32)
    y = x @ np.linspace(-2, 2, 20) + 0.5 + draw.logistic(size=samples) > 0
    return x, y.astype(np.float32)


def probability(weights, x):
    return 1 / (1 + np.exp(-(x @ weights["w"] + weights["b"])))


def step(weights, x, y):
    """One step of SGD, in place."""
    error = (probability(weights, x) - y) / len(x)
    weights["w"] -= arguments.lr * (x.T @ error)
    weights["b"] -= arguments.lr * error.sum()


def evaluate(weights, x, y):
    p = probability(weights, x)
    loss = -np.mean(np.log(np.where(y == 1, p, 1 - p)))
    return {"loss": float(loss), "accuracy": float(np.mean((p > 0.5) == y))}


def train_alone(weights):
    draw = np.random.default_rng(1)
    for epoch in range(arguments.epochs):
        for indices in draw.permutation(len(train[0])).reshape(-1, 64):
            step(weights, train[0][indices], train[1][indices])
        print(f"epoch {epoch + 1}:", evaluate(weights, *test))


def train_as_worker(weights):
    with psgd.Client() as run:
        for name, first in weights.items():
            run.add(name, first)
        run.commit(samples=len(train[0]), epochs=arguments.epochs)
        for share in run.shares():
            for indices in share:
                run.pull(weights)  # the weights arrive in these arrays
                step(weights, train[0][indices], train[1][indices])
                run.push(weights)
                run.end_step(samples=len(indices))
            run.pull(weights)
            if share.ends_epoch:
                run.report(share.epoch + 1, **evaluate(weights, *test))


parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=5)
parser.add_argument("--lr", type=float, default=0.1)
arguments = parser.parse_args()
train, test = generate(6400, 1), generate(1000, 2)
first_weights = {"w": np.zeros(20, np.float32), "b": np.zeros(1, np.float32)}
if os.environ.get("PSGD_SERVER"):  # ps-run says it
    train_as_worker(first_weights)
else:
    train_alone(first_weights)
