"""A network in JAX, through psgd.Client: python3 jax_mlp.py --epochs 5

    ps-run examples/cluster.yaml --workers 2 -- python3 examples/jax_mlp.py

JAX's arrays are never written to: the weights arrive in NumPy's, and JAX's are pushed.
"""

import argparse
import os

import jax
import jax.numpy as jnp
import numpy as np
import psgd

SIDES = [16, 64, 64, 4]


def first_weights(seed):
    draw = np.random.default_rng(seed)
    weights = {}
    for i, (inputs, outputs) in enumerate(zip(SIDES, SIDES[1:])):
        weights[f"{i}.w"] = (draw.standard_normal((inputs, outputs)) * inputs**-0.5)
        weights[f"{i}.b"] = np.zeros(outputs)
    return {name: value.astype(np.float32) for name, value in weights.items()}


def generate(samples, seed):
    x = np.random.default_rng(seed).standard_normal((samples, SIDES[0]), np.float32)
    return x, 2 * (x[:, 0] * x[:, 1] > 0) + (x[:, 2] > 0)


def outputs(weights, x):
    last = len(SIDES) - 2
    for i in range(last):
        x = jax.nn.relu(x @ weights[f"{i}.w"] + weights[f"{i}.b"])
    return x @ weights[f"{last}.w"] + weights[f"{last}.b"]


def loss_of(weights, x, y):
    return -jnp.take_along_axis(jax.nn.log_softmax(outputs(weights, x)), y[:, None], 1).mean()


@jax.jit
def step(weights, x, y):
    gradients = jax.grad(loss_of)(weights, x, y)
    return {name: weights[name] - arguments.lr * gradients[name] for name in weights}


def evaluate(weights, x, y):
    return {"loss": float(loss_of(weights, x, y)),
            "accuracy": float((outputs(weights, x).argmax(1) == y).mean())}


def train_alone(weights):
    draw = np.random.default_rng(1)
    for epoch in range(arguments.epochs):
        for indices in draw.permutation(len(train[0])).reshape(-1, 64):
            weights = step(weights, train[0][indices], train[1][indices])
        print(f"epoch {epoch + 1}:", evaluate(weights, *test))


def train_as_worker(weights):
    with psgd.Client(device=f"jax {jax.__version__}") as run:
        for name, first in weights.items():
            run.add(name, first)
        run.commit(samples=len(train[0]), epochs=arguments.epochs)
        for share in run.shares():
            for indices in share:
                run.pull(weights)
                run.push(step(weights, train[0][indices], train[1][indices]))
                run.end_step(samples=len(indices))
            run.pull(weights)
            if share.ends_epoch:
                run.report(share.epoch + 1, **evaluate(weights, *test))


parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=5)
parser.add_argument("--lr", type=float, default=0.3)
arguments = parser.parse_args()
train, test = generate(6400, 1), generate(1000, 2)
if os.environ.get("PSGD_SERVER"):  # ps-run says it
    train_as_worker(first_weights(int(os.environ.get("PSGD_SEED", 1))))
else:
    train_alone(first_weights(1))
