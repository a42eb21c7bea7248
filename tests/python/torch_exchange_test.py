"""What a step of a PyTorch worker sends and brings: rows, elements that a codec chooses, and nothing
of what stays as it is.

torch_exchange_test.py BIN_FOLDER SOURCE_FOLDER
"""

import copy
import sys
import unittest
import warnings
from unittest import mock

from torch_training import BATCH, SAMPLES, Training, step  # first: exits without PyTorch

import torch
from torch import nn

import psgd
import psgd.torch
from servers import server


class Exchange(Training):
    def test_rows_of_embeddings(self):
        class Words(nn.Module):
            def __init__(self):
                super().__init__()
                torch.manual_seed(5)
                self.table = nn.Embedding(20000, 8, sparse=True)
                self.last = nn.Linear(8, 2)

            def forward(self, x):
                return self.last(self.table((x * 1000).long().abs() % 20000).mean(1))

        def adam(model):
            return torch.optim.SparseAdam(model.table.parameters(), 0.01)

        def sgd(model):
            return torch.optim.SGD(model.parameters(), 0.1)

        def dropping(model):  # as a hook after the step may
            optimizer = sgd(model)
            original = optimizer.step
            optimizer.step = lambda *_: (original(), optimizer.zero_grad(set_to_none=True))
            return optimizer

        shards = {"optimizer": "{sgd: {learning_rate: 0.1}}"}
        for make, how in ((sgd, {}), (sgd, shards), (adam, {}), (dropping, {}),
                          (lambda m: torch.optim.SGD(m.parameters(), 0.1, momentum=0.9), {}),
                          (sgd, {"more": "compression: {push: fp16}"}),
                          (sgd, {"overlap": True}), (sgd, {"overlap": True, **shards})):
            model = Words()
            if make is adam:
                model.last.requires_grad_(False)
            pushed = []
            push = psgd.Client.push_rows_memory

            def counted(client, name, rows, count, *arguments):
                pushed.append(count)
                push(client, name, rows, count, *arguments)

            psgd.Client.push_rows_memory = counted
            try:
                trained, alone = self.train(make, model, **how)
            finally:
                psgd.Client.push_rows_memory = push
            self.assert_same(trained, alone, delta=1e-3 if "more" in how else 1e-6)
            if make is sgd or make is adam:
                self.assertEqual(len(pushed), 2 * SAMPLES // BATCH)
                self.assertLessEqual(max(pushed), 6 * BATCH)
            else:  # momentum moves rows of earlier steps, and without a gradient none are known
                self.assertEqual(pushed, [])

    def test_codecs_of_rows_take_the_whole_table_unless_a_rule_leaves_it_out(self):
        """As of a table whose gradients are dense; with a rule its rows travel."""
        class Words(nn.Module):
            def __init__(self, sparse):
                super().__init__()
                torch.manual_seed(5)
                self.table = nn.Embedding(2000, 8, sparse=sparse)
                self.last = nn.Linear(8, 2)

            def forward(self, x):
                words = self.table((x * 1000).long().abs() % 2000)
                # Rows of one sample have no equal gradients, among which topk could choose.
                return self.last((words * torch.linspace(0.5, 1.5, 6)[:, None]).mean(1))

        def train(codec, sparse, rules=""):
            model = Words(sparse)
            push = f"compression: {{push: {codec}, dense_below: 64{rules}}}"
            with server(data=f"{{batch: {BATCH}}}", more=push,
                        optimizer="{sgd: {learning_rate: 0.1}}") as at:
                with warnings.catch_warnings(record=True) as notes:
                    warnings.simplefilter("always")
                    run, loader, optimizer = self.joined(at, model)
                rule = 'rules: [{match: "table.weight", push: none}]'
                leads = [note for note in notes if rule in str(note.message)]
                self.assertEqual(len(leads), sparse and "topk" in codec and not rules)
                for _ in run.epochs(2):
                    for x, y in loader:
                        step(model, optimizer, x, y)
            return model, run.timings()["bytes_pushed"]

        for codec in ("{topk: {density: 0.01}}", "fp16", "int8", "blocks"):
            rows, _ = train(codec, sparse=True)
            dense, _ = train(codec, sparse=False)
            with self.subTest(codec):
                # The order of sums in a gradient may change what a codec rounds or chooses.
                moved = (dense.table.weight - Words(False).table.weight).abs().max().item()
                self.assert_same(rows, dense, delta=moved / 20)
        ruled, pushed = train("onebit", sparse=True, rules=', rules: [{match: "table.*", push: none}]')
        exact, _ = train("none", sparse=True)
        first = Words(True).table.weight
        touched = (exact.table.weight != first).any(1)
        self.assertLess(int(touched.sum()), 400)
        self.assertTrue(torch.equal((ruled.table.weight != first).any(1), touched))
        rows = 2 * SAMPLES * 6  # at most, each of 32 bytes and its indices
        self.assertLess(pushed, rows * 50 + 2 * SAMPLES // BATCH * 500)

    def test_momentum_forgets_what_topk_sent(self):
        """As DGC does, of one worker: what was sent is what changed on the shards."""
        for push, masked in (("{topk: {density: 0.05}}", True), ("onebit", False), ("none", False)):
            torch.manual_seed(5)
            model = nn.Linear(6, 50)
            more = f"compression: {{push: {push}, dense_below: 500}}"
            with server(data=f"{{batch: {BATCH}}}", more=more) as at:
                optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
                run, loader, _ = self.joined(at, model, optimizer, mask_momentum=True)
                for _ in run.epochs(1):
                    for x, y in loader:
                        before = {p: p.detach().clone() for p in model.parameters()}
                        step(model, optimizer, x, y)
                        momentum = optimizer.state[model.weight]["momentum_buffer"]
                        changed = model.weight != before[model.weight]
                        if masked:
                            self.assertEqual(int(changed.sum()), 15)
                            self.assertTrue(torch.equal(momentum == 0, changed))
                        else:
                            self.assertGreater(int((momentum != 0).sum()), 200)
                        # A small tensor has no codec.
                        bias = optimizer.state[model.bias]["momentum_buffer"]
                        self.assertGreater(int((bias != 0).sum()), 40)

    def test_momentum_that_nothing_masks(self):
        """mask_momentum=True may stay in a script whose run has no such codec or no momentum here."""
        topk = "compression: {push: {topk: {density: 0.05}}, dense_below: 8}"
        for momentum, how in ((0.9, {}), (0.9, {"optimizer": "{sgd: {learning_rate: 0.1}}", "more": topk}),
                              (0.9, {"more": topk + "\nlocal: {steps: 3}"}), (0, {"more": topk})):
            asked = mock.Mock(side_effect=psgd.Client.get_sent_memory)
            with self.subTest(how), server(data=f"{{batch: {BATCH}}}", **how) as at, \
                    mock.patch.object(psgd.Client, "get_sent_memory", asked):
                model = nn.Linear(6, 2)
                optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=momentum)
                run, loader, _ = self.joined(at, model, optimizer, mask_momentum=True)
                for _ in run.epochs(1):
                    for x, y in loader:
                        step(model, optimizer, x, y)
            self.assertEqual(asked.call_count, 0)

    def test_a_note_leads_to_momentum_that_forgets(self):
        """Of worker 0, where a tensor's codec leaves out elements and the optimizer has momentum."""
        push = "compression: {push: {topk: {density: 0.05}}, dense_below: 500}"

        def notes(more=push, momentum=0.9, outputs=50, workers=1, optimizer="worker", **how):
            with server(data=f"{{batch: {BATCH}}}", more=more, workers=workers,
                        optimizer=optimizer) as at, warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                models = [nn.Linear(6, outputs) for _ in range(workers)]
                runs = [psgd.torch.join(model, torch.optim.SGD(model.parameters(), 0.1, momentum),
                                        server=at, **how) for model in models]
                for run in runs:
                    run.leave(failed=True)
                return [note for note in caught if "mask_momentum=True" in str(note.message)]

        (note,) = notes(workers=2)
        self.assertEqual(note.filename, __file__)
        for how in ({"mask_momentum": True}, {"mask_momentum": False}, {"momentum": 0},
                    {"outputs": 2}, {"more": "compression: {push: onebit, dense_below: 500}"},
                    {"more": push + "\nlocal: {steps: 4}"},
                    {"optimizer": "{sgd: {learning_rate: 0.1}}"}):
            with self.subTest(how):
                self.assertEqual(notes(**how), [])

    def test_what_is_frozen_travels_once(self):
        for how in ({}, {"optimizer": "{sgd: {learning_rate: 0.1, momentum: 0.9}}"},
                    {"more": "compression: {pull: fp16}"}, {"overlap": True}):
            overlap = how.pop("overlap", False)
            model = nn.Sequential(nn.Linear(6, 300), nn.Linear(300, 300), nn.Linear(300, 2))
            model[1].requires_grad_(False)
            kept = copy.deepcopy(model[1])
            frozen = 4 * 300 * 300
            trained = 4 * sum(p.numel() for p in model.parameters() if p.requires_grad)
            with server(data=f"{{batch: {BATCH}}}", **how) as at:
                run, loader, optimizer = self.joined(at, model, overlap=overlap)
                pulled = []
                for epoch in run.epochs(3):
                    if epoch == 2:
                        self.assertLess(pulled[-1], frozen + (len(pulled) + 4) * (trained + 1000))
                        model[1].requires_grad_(True)
                        optimizer.add_param_group({"params": list(model[1].parameters())})
                    for x, y in loader:
                        step(model, optimizer, x, y)
                        pulled.append(run.timings()["bytes_pulled"])
                    if epoch == 1:
                        self.assertLess((model[1].weight - kept.weight).abs().max().item(), 1e-4)
            self.assertGreater(pulled[0], frozen / 2)
            self.assertGreater(pulled[-1] - pulled[-4], frozen)  # it changes now
            self.assertGreater((model[1].weight - kept.weight).abs().max().item(), 1e-3)

    def test_buffers_that_are_no_statistics_stay_local(self):
        model = nn.Linear(6, 2)
        model.register_buffer("mask", torch.full((2, 2), float("-inf")))
        model.register_buffer("table", torch.zeros(3))
        model.register_buffer("usage", torch.zeros(2))
        with server(data=f"{{batch: {BATCH}}}") as at:
            with self.assertRaisesRegex(psgd.InvalidError, "no buffer is called use"):
                self.joined(at, model, statistics=["use"])
            run, loader, optimizer = self.joined(at, model, statistics=["usage"])
            self.assertEqual([t.name for t in run._exchange._tensors], ["weight", "bias", "usage"])
            for _ in run.epochs(1):
                for x, y in loader:
                    step(model, optimizer, x, y)
                    model.table, model.usage = model.table + 1, model.usage + 2
                    run.skip()
                    break
            run.leave()
        self.assertEqual(model.table.tolist(), [1, 1, 1])
        self.assertEqual(model.usage.tolist(), [2, 2])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
