"""A worker of the tests that pushes arrays: from the host's memory, or from that of a GPU, which is here
an emulated one whose memory is the host's.

device_worker.py EPOCHS [gpu]
"""

import array
import ctypes
import sys

import psgd
from psgd import _library

ELEMENTS, SAMPLES = 200, 32
DEVICE = 3


def train(run, epochs, on_gpu, gradients=False):
    """The matrix in each step, and where it is coded."""
    seen = []
    first = (ctypes.c_float * ELEMENTS)(*[1 + i % 7 for i in range(ELEMENTS)])
    memory, base = (ctypes.c_float * ELEMENTS)(), (ctypes.c_float * ELEMENTS)()  # of the GPU
    got = array.array("f", [0] * ELEMENTS)
    where = ctypes.addressof(memory)
    run.add_memory("matrix", [20, 10], ctypes.addressof(first), decay=True)
    run.add("bias", array.array("f", [0]))
    if on_gpu:
        run.use_device("matrix", DEVICE)
    run.commit(samples=SAMPLES, epochs=epochs)
    place = run.place("matrix")
    for share in run.shares():
        for indices in share:
            run.pull({"matrix": got})
            seen.append(got.tobytes())
            for i in range(ELEMENTS):
                change = ((i * 37 + sum(indices) * 101) % 211) / 64 - 1.5
                memory[i] = change if gradients else got[i] - 0.25 * change
                base[i] = got[i]
            if place == _library.ON_HOST:
                run.push_memory("matrix", where, ELEMENTS, gradient=gradients)
            else:
                run.push_device_memory("matrix", where, ctypes.addressof(base), ELEMENTS, 0,
                                       gradient=gradients)
            run.end_step()
        run.wait()
    return seen, place


def main():
    on_gpu = sys.argv[2:] == ["gpu"]
    with psgd.Client() as run:
        _, place = train(run, int(sys.argv[1]), on_gpu)
        assert (place != _library.ON_HOST) == on_gpu


if __name__ == "__main__":
    main()
