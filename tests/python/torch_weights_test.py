"""A file of weights that ps-ctl export writes fills the model of the program that trained them.

torch_weights_test.py BIN_FOLDER SOURCE_FOLDER
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset
except ImportError as error:
    print(f"no PyTorch for this Python: {error}")
    sys.exit(77)

import psgd.torch
from servers import server

BIN = pathlib.Path(sys.argv[1])


class Words(nn.Module):
    """As a small GPT: tied weights, a frozen part, and buffers that no run has."""

    def __init__(self, words=10):
        super().__init__()
        self.table = nn.Embedding(words, 4)
        self.norm = nn.BatchNorm1d(4)
        self.frozen = nn.Linear(4, 4).requires_grad_(False)
        self.head = nn.Linear(4, words, bias=False)
        self.head.weight = self.table.weight
        self.scale = nn.Parameter(torch.tensor(2.0))
        self.register_buffer("mask", torch.zeros(3))

    def forward(self, x):
        return self.head(self.frozen(self.norm(self.table(x)))) * self.scale


class Weights(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.file = pathlib.Path(cls.folder.name) / "weights.safetensors"
        data = TensorDataset(torch.arange(32) % 10, torch.arange(32) % 7)
        cls.trained = Words()
        optimizer = torch.optim.SGD([p for p in cls.trained.parameters() if p.requires_grad], 0.1)
        with server() as at:
            run = psgd.torch.join(cls.trained, optimizer, server=at)
            loader = DataLoader(data, batch_size=4, sampler=run.sampler(data))
            for _ in run.epochs(1):
                for x, y in loader:
                    optimizer.zero_grad()
                    nn.functional.cross_entropy(cls.trained(x), y).backward()
                    optimizer.step()
                subprocess.run([BIN / "ps-ctl", "export", "--server", at, "--out", cls.file],
                               check=True, capture_output=True)

    def test_a_tied_model_with_buffers_of_its_own(self):
        model = Words()
        model.mask += 5
        compiled = nn.Module()
        compiled._orig_mod = nn.DataParallel(model)  # torch.compile has this name for it
        psgd.torch.load_weights(compiled, self.file)
        self.assertIs(model.head.weight, model.table.weight)
        self.assertEqual(model.mask.tolist(), [5, 5, 5])
        for name, value in self.trained.state_dict().items():
            if name not in ("mask", "norm.num_batches_tracked"):
                self.assertTrue(torch.equal(model.state_dict()[name], value), name)

    def test_a_number_that_is_an_array_of_one_element_in_the_file(self):
        whole = self.file.read_bytes()
        size = int.from_bytes(whole[:8], "little")
        entries = json.loads(whole[8:8 + size])
        entries["scale"]["shape"] = [1]
        header = json.dumps(entries).encode()
        file = self.file.with_name("numbers.safetensors")
        file.write_bytes(len(header).to_bytes(8, "little") + header + whole[8 + size:])
        model = Words()
        psgd.torch.load_weights(model, file)
        self.assertEqual(model.scale.shape, ())
        self.assertEqual(model.scale.item(), self.trained.scale.item())

    def test_a_file_of_an_earlier_version_with_names_of_wrappers(self):
        whole = self.file.read_bytes()
        size = int.from_bytes(whole[:8], "little")
        entries = json.loads(whole[8:8 + size])
        for prefix in ("module.", "_orig_mod.module."):
            header = json.dumps({prefix + name: entry for name, entry in entries.items()
                                 if name != "__metadata__"}).encode()
            file = self.file.with_name("wrapped.safetensors")
            file.write_bytes(len(header).to_bytes(8, "little") + header + whole[8 + size:])
            for wrap in (nn.DataParallel, lambda inner: inner):
                model = Words()
                psgd.torch.load_weights(wrap(model), file)
                self.assertTrue(torch.equal(model.table.weight, self.trained.table.weight))
            own = nn.ModuleDict({"module": Words()})  # the name is the model's
            if prefix == "module.":
                psgd.torch.load_weights(own, file)

    def test_a_model_of_another_type(self):
        model = Words().to(torch.bfloat16)
        psgd.torch.load_weights(model, str(self.file))
        self.assertTrue(torch.equal(model.table.weight, self.trained.table.weight.bfloat16()))

    def test_another_model_is_refused_by_name_and_stays_as_it_is(self):
        def untie(model):
            model.head.weight = nn.Parameter(torch.zeros(10, 4))

        def more(model):
            model.more = nn.BatchNorm1d(2)

        def fewer(model):
            del model.frozen

        for words, change, text in (
                (11, lambda _: None, r"table.weight is \[10, 4\] in the file, and \[11, 4\] in the model"),
                (10, untie, "not in the file: head.weight"),
                (10, more, "not in the file: more.weight, more.bias, more.running_mean, more.running_var"),
                (10, fewer, "not in the model: frozen.weight, frozen.bias. Make the model as")):
            model = Words(words)
            change(model)
            before = model.norm.running_mean.clone()
            with self.assertRaisesRegex(psgd.InvalidError, text):
                psgd.torch.load_weights(model, self.file)
            self.assertTrue(torch.equal(model.norm.running_mean, before))

    def test_what_is_no_file_of_weights(self):
        whole = self.file.read_bytes()
        other = pathlib.Path(self.folder.name) / "other"
        size = int.from_bytes(whole[:8], "little")
        half = json.loads(whole[8:8 + size])
        half["table.weight"]["dtype"] = "F16"
        header = json.dumps(half).encode()
        for data in (b"", whole[:4], whole[:100], whole[:-8], b"x" * 100,
                     (2).to_bytes(8, "little") + b"[]", (8).to_bytes(8, "little") + b'{"a": 1}1234',
                     len(header).to_bytes(8, "little") + header + whole[8 + size:]):
            other.write_bytes(data)
            with self.assertRaisesRegex(psgd.InvalidError, "not a whole .safetensors file"):
                psgd.torch.load_weights(Words(), other)
        with self.assertRaises(FileNotFoundError):
            psgd.torch.load_weights(Words(), other.with_name("none"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
