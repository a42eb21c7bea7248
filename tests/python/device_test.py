"""Programs whose tensors are coded on a GPU, here the emulated one of tests/fakes/queued_device, whose
memory is the host's and whose streams work as late as they may: with the real server, the run gets the
same bits as from programs on the host.

device_test.py BIN_FOLDER SOURCE_FOLDER
"""

import array
import contextlib
import ctypes
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

try:
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset
except ImportError as error:
    print(f"no PyTorch for this Python: {error}")
    sys.exit(77)

import device_worker
import psgd
import psgd.torch
from psgd import _library, _torch_tensor
from servers import server

BIN = pathlib.Path(sys.argv[1])
PLUGIN = BIN.parent / "tests/queued_device/libpsgd_cudnn.so"
WORKER = pathlib.Path(__file__).with_name("device_worker.py")
CONFIG = """
name: device
model: client
data: {batch: 4}
train: {epochs: 2}
cluster: {shards: 2, workers: 1, deadline: 30s}
"""
CODECS = ["none", "int8", "onebit", "ternary", "{topk: {density: 0.05}}"]
SGD = "{sgd: {learning_rate: 0.1, weight_decay: 0.01}}"
BATCH = 4


def compression(push):
    return f"compression: {{push: {push}, dense_below: 1, rules: [{{match: '*bias', push: none}}]}}"


def setUpModule():
    """The plugin is found beside the library."""
    kept = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(kept.cleanup)
    folder = pathlib.Path(kept.name)
    library = pathlib.Path(os.environ["PSGD_LIBRARY"]).resolve()
    (folder / "libpsgd_cudnn.so").symlink_to(PLUGIN.resolve(strict=True))
    (folder / "libpsgd.so").symlink_to(library)
    (folder / "lib").symlink_to(library.parent / "lib")  # what a wheel's library needs
    os.environ["PSGD_LIBRARY"] = str(folder / "libpsgd.so")


class OfArrays(unittest.TestCase):
    """The C interface."""

    def train(self, push, gradients, on_gpu):
        with server(optimizer=SGD if gradients else "worker", more=compression(push)) as at, \
                psgd.Client(at) as run:
            return device_worker.train(run, 2, on_gpu, gradients)

    def test_the_run_gets_the_bits_of_the_host(self):
        for push in CODECS:
            for gradients in (False, True):
                with self.subTest(push=push, gradients=gradients):
                    here, on_host = self.train(push, gradients, on_gpu=False)
                    there, place = self.train(push, gradients, on_gpu=True)
                    self.assertEqual(on_host, _library.ON_HOST)
                    self.assertEqual(place, _library.ON_HOST if push == "none"
                                     else _library.ON_DEVICE_WITH_BASE)
                    self.assertEqual(len(here), 2 * device_worker.SAMPLES // BATCH)
                    self.assertEqual(there, here)

    def test_the_threads_device_stays(self):
        """Only the codecs' calls make their device the thread's."""
        plugin = ctypes.CDLL(str(PLUGIN))
        before = plugin.psgd_queued_thread_device()
        self.assertNotEqual(before, device_worker.DEVICE)
        _, place = self.train("onebit", False, on_gpu=True)
        self.assertNotEqual(place, _library.ON_HOST)
        self.assertEqual(plugin.psgd_queued_thread_device(), before)

    def test_a_run_that_stops_goes_on_with_what_was_left_out(self):
        weights = set()
        for parts in ([(4, "")], [(4, "gpu")], [(2, "gpu"), (4, "gpu")], [(2, "gpu"), (4, "")]):
            with self.subTest(parts=parts), tempfile.TemporaryDirectory() as folder:
                run = pathlib.Path(folder) / "run"
                (run.parent / "config.yaml").write_text(CONFIG + compression(CODECS[-1]))
                for epochs, place in parts:
                    how = (["--resume", run, "--set", f"train.epochs={epochs}"] if run.exists() else
                           [run.parent / "config.yaml", "--run-dir", run])
                    subprocess.run([BIN / "ps-run", *how, "--quiet", "--", sys.executable, "-B", WORKER,
                                    str(epochs), place], check=True, timeout=120,
                                   stdout=subprocess.DEVNULL)
                weights.add((run / "weights.safetensors").read_bytes())
        self.assertEqual(len(weights), 1)

    def test_wrong_calls(self):
        values, base = (ctypes.c_float * 2)(1, 2), (ctypes.c_float * 2)(1, 2)
        where = ctypes.addressof(values)
        with server(more=compression("onebit")) as at, psgd.Client(at) as run:
            for name in ("w", "bias"):
                run.add(name, array.array("f", [1, 2]))
                run.use_device(name, 0)
            run.commit(samples=8, epochs=1)
            run.next_share()
            run.wait()
            for text, call, *arguments in (
                    ("w is coded on a GPU", run.push_memory, "w", where, 2),
                    ("bias is coded on the host", run.push_device_memory, "bias", where, where, 2, 0),
                    ("the base of w is a null pointer", run.push_device_memory, "w", where, 0, 2, 0)):
                with self.assertRaisesRegex(psgd.InvalidError, text):
                    call(*arguments)
            values[1] = float("nan")
            run.push_device_memory("w", where, ctypes.addressof(base), 2, 0)
            with self.assertRaisesRegex(psgd.DivergedError, "w is not finite: element 1 is nan"):
                run.end_step()


class HostStaging:
    """In place of Staging, for tensors that lie on the host and pass for those of a GPU."""

    def __init__(self, device):
        self._waiting = []

    def send(self, values, push):
        self._waiting.append((values.to(torch.float32).contiguous().clone(), push))

    def flush(self):
        for values, push in self._waiting:
            push(values)
        self._waiting.clear()

    def bring(self, get, into):
        host = torch.empty(into.shape)
        get(host)
        with torch.no_grad():
            into.copy_(host)

    def stream(self):
        return 0


def network(kind):
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(6, 20), nn.BatchNorm1d(20), nn.Tanh(), nn.Linear(20, 2))
    if kind == "bf16":
        model = nn.Sequential(nn.Linear(6, 20), nn.Tanh(), nn.Linear(20, 2)).to(torch.bfloat16)
    if kind == "transposed":  # not in C order
        model[0].weight.data = model[0].weight.data.t().contiguous().t()
    return model


def points(kind):
    draw = torch.Generator().manual_seed(3)
    x = torch.randn(32, 6, generator=draw)
    return TensorDataset(x.to(torch.bfloat16) if kind == "bf16" else x, (x.sum(1) > 0).long())


class OfPyTorch(unittest.TestCase):
    def train(self, on_gpu, push, kind="fp32", optimizer="worker", device_codecs=True,
              after_backward=lambda model: None, **named):
        """The model after a run, and what the worker logged."""
        model, data = network(kind), points(kind)
        sgd = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        with contextlib.ExitStack() as stack:
            if on_gpu:
                stack.enter_context(mock.patch.object(_torch_tensor, "is_on_gpu", lambda _: True))
                stack.enter_context(mock.patch.object(_torch_tensor, "Staging", HostStaging))
            log = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory())) / "worker.log"
            at = stack.enter_context(server(optimizer=optimizer, more=compression(push)))
            run = psgd.torch.join(model, sgd, server=at, log_file=str(log),
                                  device_codecs=device_codecs, **named)
            loader = DataLoader(data, batch_size=BATCH, sampler=run.sampler(data))
            for _ in run.epochs(2):
                for x, y in loader:
                    loss = nn.CrossEntropyLoss()(model(x).float(), y)
                    sgd.zero_grad()
                    loss.backward()
                    after_backward(model)
                    sgd.step()
            return model.state_dict(), log.read_text()

    def assert_same_bits(self, there, here):
        for name, values in here.items():
            self.assertTrue(torch.equal(there[name], values), name)

    def test_the_run_gets_the_bits_of_the_host(self):
        for push in ("none", "onebit", CODECS[-1]):
            for optimizer in ("worker", SGD):
                with self.subTest(push=push, optimizer=optimizer):
                    here, _ = self.train(False, push, optimizer=optimizer, mask_momentum=False
                                         if optimizer == "worker" else None)
                    there, log = self.train(True, push, optimizer=optimizer, mask_momentum=False
                                            if optimizer == "worker" else None)
                    self.assert_same_bits(there, here)
                    self.assertEqual("coded on CUDA device 0: 0.weight, 1.weight, 3.weight" in log,
                                     push != "none")
                    self.assertIn("because no codec shortens it (none)", log)

    def test_tensors_of_other_types_and_orders(self):
        for kind in ("bf16", "transposed"):
            for optimizer in ("worker", SGD):
                with self.subTest(kind=kind, optimizer=optimizer):
                    here, _ = self.train(False, "onebit", kind, optimizer)
                    there, log = self.train(True, "onebit", kind, optimizer)
                    self.assert_same_bits(there, here)
                    self.assertIn("coded on CUDA device 0: 0.weight", log)

    def test_momentum_of_what_was_sent(self):
        push = "{topk: {density: 0.05}}"
        here, _ = self.train(False, push, mask_momentum=True)
        there, log = self.train(True, push, mask_momentum=True)
        self.assert_same_bits(there, here)
        self.assertIn("coded on CUDA device 0", log)
        kept, _ = self.train(False, push, mask_momentum=False)
        self.assertFalse(torch.equal(kept["0.weight"], here["0.weight"]))

    def test_gradients_that_leave_during_the_backward_pass(self):
        here, _ = self.train(False, "int8", optimizer=SGD)
        there, log = self.train(True, "int8", optimizer=SGD, overlap=True)
        self.assert_same_bits(there, here)
        self.assertIn("coded on CUDA device 0", log)

    def test_weight_decay_is_that_of_the_runs_weights(self):
        """Whatever the program does to its own between the backward pass and the step."""
        def fill(model):
            model[0].weight.data.fill_(7)

        def replace(model):
            model[0].weight.data = torch.full_like(model[0].weight, 7)

        here, _ = self.train(False, "int8", optimizer=SGD)
        for change in (fill, replace):
            for overlap in (False, True):
                with self.subTest(change=change.__name__, overlap=overlap):
                    there, log = self.train(True, "int8", optimizer=SGD, after_backward=change,
                                            overlap=overlap)
                    self.assert_same_bits(there, here)
                    self.assertIn("coded on CUDA device 0: 0.weight", log)

    def test_too_little_memory_says_what_to_do(self):
        tensor = _torch_tensor.Tensor("0.weight", nn.Linear(6, 20), "weight", statistic=False)
        client = mock.Mock()
        client.place.return_value = _library.ON_DEVICE_WITH_BASE
        with mock.patch.object(torch, "empty", side_effect=torch.cuda.OutOfMemoryError("full")), \
                self.assertRaisesRegex(psgd.Error, "weights of 0.weight.*device_codecs=False"):
            tensor.find_place(client)

    def test_without_the_devices_codecs(self):
        here, _ = self.train(False, "onebit")
        there, log = self.train(True, "onebit", device_codecs=False)
        self.assert_same_bits(there, here)
        self.assertNotIn("CUDA", log)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
