"""Arrays of PyTorch, NumPy and JAX, which psgd.Client takes through the buffer protocol or DLPack.

arrays_test.py BIN_FOLDER SOURCE_FOLDER
"""

import contextlib
import gc
import importlib.util
import sys
import unittest
import weakref

try:
    import numpy
    import torch
except ImportError as error:
    print(f"no PyTorch and NumPy for this Python: {error}")
    sys.exit(77)

import psgd
from servers import server


class OnlyDlpack:
    """An array that has no other way to its memory."""

    def __init__(self, array):
        self._array = array

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()

    def __dlpack__(self):
        return self._array.__dlpack__()

    @property
    def shape(self):
        return tuple(self._array.shape)


class OnGpu(OnlyDlpack):
    def __dlpack_device__(self):
        return 2, 0  # kDLCUDA


class Arrays(unittest.TestCase):
    @contextlib.contextmanager
    def run_with(self, first):
        with server() as at, psgd.Client(at) as run:
            run.add("w", first)
            run.commit(16, 1)
            run.next_share()
            yield run

    def exchange(self, first, into, pushed):
        """What comes back after steps that pull into an array and push another."""
        with self.run_with(first) as run:
            run.pull({"w": into})
            self.assertEqual(numpy.asarray(into).tolist(), [[1, 2, 3], [4, 5, 6]])
            run.push({"w": pushed})
            run.end_step()
            run.pull({"w": into})
            self.assertEqual(numpy.asarray(into).tolist(), [[2, 3, 4], [5, 6, 7]])

    def test_arrays_of_pytorch_and_numpy(self):
        first = [[1, 2, 3], [4, 5, 6]]
        one = numpy.array(first, numpy.float32)
        self.exchange(one, numpy.zeros((2, 3), numpy.float32), one + 1)
        one = torch.tensor(first, dtype=torch.float32)
        self.exchange(one, torch.zeros(2, 3), one + 1)
        # A row of another tensor, whose memory begins elsewhere.
        rows = torch.zeros(3, 2, 3)
        self.exchange(one, rows[1], (one + 1)[None])
        self.assertEqual(rows[[0, 2]].abs().max().item(), 0)
        self.exchange(one, torch.zeros(2, 1, 3).transpose(0, 1)[0], one + 1)

    def test_only_dlpack(self):
        into = torch.zeros(2)
        with self.run_with(OnlyDlpack(torch.tensor([1.0, 2]))) as run:
            run.pull({"w": OnlyDlpack(into)})
            self.assertEqual(into.tolist(), [1, 2])
            run.push({"w": OnlyDlpack(numpy.array([3, 4], numpy.float32))})
            run.end_step()
            run.pull({"w": into})
            self.assertEqual(into.tolist(), [3, 4])

    def test_an_array_is_given_back(self):
        with self.run_with(torch.zeros(2)) as run:
            array = numpy.zeros(2, numpy.float32)
            run.pull({"w": OnlyDlpack(array)})
            run.push({"w": OnlyDlpack(array)})
            gone = weakref.ref(array)
            del array
            gc.collect()
            self.assertIsNone(gone())

    def test_what_is_not_float32_on_the_host(self):
        weights = torch.zeros(2, 3)
        needs_gradient = torch.zeros(2, 3, requires_grad=True)
        with self.run_with(weights) as run:
            for array, text in (
                    (needs_gradient, "tensor.detach"),
                    (torch.zeros(2, 3, dtype=torch.bfloat16), "Tensor is not float32 in C order"),
                    (weights.double(), "not float32 in C order"),
                    (weights.int(), "not float32 in C order"),
                    (torch.zeros(3, 2).t(), "not float32 in C order"),
                    (weights.to_sparse(), "does not give its memory"),
                    (torch.zeros(2, 3, device="meta"), "this Tensor "),
                    (numpy.zeros((2, 3)), "format 'd'"),
                    (numpy.zeros((3, 2), numpy.float32).T, "not in C order"),
                    (numpy.zeros(6, "datetime64[s]"), "does not give its memory"),
                    (OnGpu(weights), "is on a device.*push_device_memory"),
                    ([0.0] * 6, "list is no array")):
                for call in (run.pull, run.push):
                    with self.subTest(text, call=call), self.assertRaisesRegex(psgd.InvalidError, text):
                        call({"w": array})
            run.pull({"w": needs_gradient.detach()})
            run.push({"w": needs_gradient.detach()})

    @unittest.skipUnless(importlib.util.find_spec("jax"), "no JAX here")
    def test_arrays_of_jax(self):
        import jax.numpy as jnp
        first = jnp.array([1, 2], jnp.float32)
        into = numpy.zeros(2, numpy.float32)
        with self.run_with(first) as run:
            run.pull({"w": into})
            with self.assertRaisesRegex(psgd.InvalidError, "read-only"):
                run.pull({"w": first})
            with self.assertRaisesRegex(psgd.InvalidError, "float32"):
                run.push({"w": first.astype(jnp.bfloat16)})
            run.push({"w": first + 1})
            run.end_step()
            run.pull({"w": into})
            self.assertEqual(into.tolist(), [2, 3])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
