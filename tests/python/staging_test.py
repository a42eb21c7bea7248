"""Copies between a GPU and psgd, on emulated streams that do nothing before somebody waits for them.

staging_test.py
"""

import contextlib
import sys
import unittest

try:
    import torch
except ImportError as error:
    print(f"no PyTorch for this Python: {error}")
    sys.exit(77)

from psgd import _staging


class Stream:
    """Operations in order; each is carried out once somebody waits for it or for a later one."""

    def __init__(self, device=None):
        self.operations, self.done = [], 0

    def add(self, operation):
        self.operations.append(operation)

    def wait_stream(self, other):
        until = len(other.operations)
        self.add(lambda: other.run(until))

    def run(self, until):
        while self.done < until:
            self.done += 1
            self.operations[self.done - 1]()


class Cuda:
    """What psgd uses of torch.cuda."""

    Stream = Stream

    def __init__(self):
        self.program = self.active = Stream()
        cuda = self

        class Event:
            def record(self, stream):
                self.stream, self.at = stream, len(stream.operations)

            def query(self):
                return self.stream.done >= self.at

            def synchronize(self):
                self.stream.run(self.at)

        self.Event = Event

        class Tensor:
            """On the GPU or in pinned memory."""

            def __init__(self, values):
                self.values, self.shape, self.users = list(values), (len(values),), []

            def numel(self):
                return len(self.values)

            def element_size(self):
                return 4

            def copy_(self, other, non_blocking=False):
                assert non_blocking
                cuda.active.add(lambda: self.values.__setitem__(slice(None), other.values))

            def fill(self, value):
                cuda.active.add(lambda: self.values.__setitem__(slice(None),
                                                                [value] * len(self.values)))

            def record_stream(self, stream):
                self.users.append(stream)

        self.Tensor = Tensor

    def current_stream(self, device):
        return self.program

    @contextlib.contextmanager
    def stream(self, stream):
        self.active = stream
        yield
        self.active = self.program


class StagingTest(unittest.TestCase):
    def setUp(self):
        self.cuda = Cuda()
        self.staging = _staging.Staging(torch.device("cpu"), self.cuda)
        self.staging._pinned = lambda like: self.cuda.Tensor([None] * like.numel())
        self.pushed = []

    def send(self, tensor, name):
        self.staging.send(tensor, lambda host: self.pushed.append((name, list(host.values))))

    def test_pushes_come_in_order_with_what_the_program_had_made(self):
        tensors = [self.cuda.Tensor([0, 0]) for _ in range(3)]
        for i, tensor in enumerate(tensors):
            tensor.fill(i + 1)
            self.send(tensor, i)
        self.assertEqual(self.pushed, [])  # nobody has waited
        self.staging.flush()
        self.assertEqual(self.pushed, [(0, [1, 1]), (1, [2, 2]), (2, [3, 3])])
        self.assertTrue(all(tensor.users for tensor in tensors))

    def test_it_names_the_programs_stream(self):
        self.cuda.program.cuda_stream = 140
        self.assertEqual(self.staging.stream(), 140)

    def test_copies_that_are_done_are_pushed_without_waiting(self):
        first, second = self.cuda.Tensor([5]), self.cuda.Tensor([6])
        self.send(first, "first")
        self.staging._stream.run(len(self.staging._stream.operations))
        self.send(second, "second")
        self.assertEqual(self.pushed, [("first", [5])])
        self.staging.flush()
        self.assertEqual(self.pushed, [("first", [5]), ("second", [6])])

    def test_few_bytes_are_on_their_way(self):
        big = self.cuda.Tensor([7])
        big.element_size = lambda: _staging.MOST_BYTES
        self.staging._pinned = lambda like: big
        self.send(self.cuda.Tensor([1]), "first")
        self.send(self.cuda.Tensor([2]), "second")
        self.assertEqual([name for name, _ in self.pushed], ["first"])

    def test_weights_arrive_after_the_program_read_the_old_ones(self):
        for stream in ("program", "staging"):  # which is the faster one
            self.setUp()
            weights, read = self.cuda.Tensor([1]), []

            def look():
                read.append(list(weights.values))

            self.cuda.program.add(look)
            self.staging.bring(lambda host: host.values.__setitem__(slice(None), [9]), weights)
            self.cuda.program.add(look)
            streams = [self.cuda.program, self.staging._stream]
            for one in streams if stream == "program" else reversed(streams):
                one.run(len(one.operations))
            self.assertEqual(read, [[1], [9]])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
