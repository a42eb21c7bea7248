"""Steps of one PyTorch worker: whatever is in the model, the run's weights are those of a program
that trains alone.

torch_steps_test.py BIN_FOLDER SOURCE_FOLDER
"""

import contextlib
import copy
import gc
import io
import math
import os
import signal
import sys
import threading
import time
import traceback
import unittest
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

try:
    import torch
    from torch import nn
    from torch.utils.checkpoint import checkpoint
    from torch.utils.data import DataLoader, IterableDataset, TensorDataset
except ImportError as error:
    print(f"no PyTorch for this Python: {error}")
    sys.exit(77)

import psgd
import psgd.torch
from servers import server

SAMPLES, BATCH = 32, 4


def points():
    draw = torch.Generator().manual_seed(3)
    x = torch.randn(SAMPLES, 6, generator=draw)
    return TensorDataset(x, (x.sum(1) > 0).long())


class Tied(nn.Module):
    """Tied, frozen and unused weights, and running statistics."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.first = nn.Linear(6, 6)
        self.again = nn.Linear(6, 6, bias=False)  # the norm would take it out again
        self.again.weight = self.first.weight
        self.norm = nn.BatchNorm1d(6)
        self.frozen = nn.Linear(6, 6)
        self.frozen.weight.requires_grad_(False)
        self.unused = nn.Linear(2, 2)
        self.last = nn.Linear(6, 2)

    def forward(self, x):
        return self.last(self.frozen(self.norm(self.again(torch.tanh(self.first(x))))))


class Attention(nn.Module):
    """Weights that a module uses without calling the module that has them, and a module called late
    whose weights are used early.
    """

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.head = nn.Linear(6, 6, bias=False)
        self.input = nn.Linear(6, 6, bias=False)
        self.input.weight = self.head.weight
        self.norm = nn.BatchNorm1d(6)
        self.attention = nn.MultiheadAttention(6, 2)
        self.last = nn.Linear(6, 2)

    def forward(self, x):
        hidden = self.norm(self.input(x))
        return self.last(self.head(self.attention(hidden, hidden, hidden)[0]))


class Checkpointed(nn.Sequential):
    """Its backward pass computes the forward pass again."""

    def __init__(self):
        torch.manual_seed(5)
        super().__init__(nn.Linear(6, 6), nn.Sequential(nn.Tanh(), nn.Linear(6, 6)), nn.Linear(6, 2))

    def forward(self, x):
        return self[2](checkpoint(self[1], self[0](x), use_reentrant=False))


class Kept:
    """A sampler's run that notes which batches it dealt."""

    def __init__(self, run, data):
        self.run, self.batches = run, []
        self.loader = DataLoader(data, batch_size=BATCH, sampler=run.sampler(data))

    def __iter__(self):
        for x, y in self.loader:
            self.batches.append((x.clone(), y.clone()))
            yield x, y


def step(model, optimizer, x, y):
    loss = nn.CrossEntropyLoss()(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


class Steps(unittest.TestCase):
    def assert_same(self, model, alone, delta=1e-6):
        for (name, one), (_, other) in zip(model.state_dict().items(), alone.state_dict().items()):
            self.assertLess((one.float() - other.float()).abs().max().item(), delta, name)

    def train(self, make_optimizer, model=None, overlap=False, step=step, **how):
        """Trains within a run, then alone on the same batches; returns both models."""
        model = model or Tied()
        alone = copy.deepcopy(model)
        with server(data=f"{{batch: {BATCH}}}", **how) as at:
            optimizer = make_optimizer(model)
            run = psgd.torch.join(model, optimizer, server=at, overlap=overlap)
            kept = Kept(run, points())
            for _ in run.epochs(2):
                for x, y in kept:
                    step(model, optimizer, x, y)
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    run.log(accuracy=0.5, loss=torch.ones((), requires_grad=True))
        self.assertEqual(len(kept.batches), 2 * SAMPLES // BATCH)
        self.assertEqual(run.timings()["steps"], len(kept.batches))
        optimizer = make_optimizer(alone)
        for x, y in kept.batches:
            step(alone, optimizer, x, y)
        return model, alone

    def test_any_optimizer_with_groups(self):
        def adam(model):
            return torch.optim.AdamW([
                {"params": [p for n, p in model.named_parameters() if "bias" not in n]},
                {"params": [p for n, p in model.named_parameters() if "bias" in n], "lr": 0.1}])

        self.assert_same(*self.train(adam), delta=1e-5)

    def test_closures(self):
        def with_closure(model, optimizer, x, y):
            def closure():
                optimizer.zero_grad()
                loss = nn.CrossEntropyLoss()(model(x), y)
                loss.backward()
                return loss

            self.assertGreater(optimizer.step(closure).item(), 0)

        def sgd(model):
            return torch.optim.SGD(model.parameters(), 0.1)

        self.assert_same(*self.train(sgd, step=with_closure))
        self.assert_same(*self.train(sgd, step=with_closure,
                                     optimizer="{sgd: {learning_rate: 0.1}}"))
        # Its steps are long where a gradient has hardly changed, so no batch norm and a small rate.
        self.assert_same(*self.train(lambda m: torch.optim.LBFGS(m.parameters(), 0.1, max_iter=3),
                                     nn.Linear(6, 2), step=with_closure), delta=1e-4)

    def test_an_optimizer_of_the_shards(self):
        self.assert_same(*self.train(lambda m: torch.optim.SGD(m.parameters(), 0.1, momentum=0.9),
                                     optimizer="{sgd: {learning_rate: 0.1, momentum: 0.9}}"))

    def test_local_steps_go_on_with_the_programs_own_weights(self):
        def adam(model):
            return torch.optim.AdamW(model.parameters(), 0.01)

        for steps in (3, 8, 100):  # of an epoch of 8
            local = f"local: {{steps: {steps}}}"
            self.assert_same(*self.train(adam, more=local), delta=1e-5)
            # An outer optimizer that takes the mean as it is.
            self.assert_same(*self.train(adam, more=local, optimizer="{sgd: {learning_rate: 1}}"),
                             delta=1e-5)

    def test_local_steps_and_overlap_exclude_each_other(self):
        with server(data=f"{{batch: {BATCH}}}", more="local: {steps: 3}") as at:
            with self.assertRaisesRegex(psgd.StateError, "join without it"):
                self.joined(at, nn.Linear(6, 2), overlap=True)

    def test_passes_that_overlap_with_the_network(self):
        def sgd(model):
            return torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)

        for model in (Tied(), Attention(), Checkpointed()):
            self.assert_same(*self.train(sgd, copy.deepcopy(model), overlap=True), delta=1e-5)
            self.assert_same(*self.train(sgd, copy.deepcopy(model), overlap=True,
                                         optimizer="{sgd: {learning_rate: 0.1, momentum: 0.9}}"),
                             delta=1e-5)

    def test_overlapping_passes_begin_before_all_weights_are_here(self):
        model = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 2))
        with server(data=f"{{batch: {BATCH}}}", optimizer="{sgd: {learning_rate: 0.1}}") as at:
            run, loader, optimizer = self.joined(at, model, overlap=True)
            asked = []
            wait, wait_for, push = run.client.wait, run.client.wait_for, run.client.push_memory
            run.client.wait = lambda: (asked.append("all"), wait())
            run.client.wait_for = lambda name: (asked.append(name), wait_for(name))
            run.client.push_memory = lambda name, *how, **named: (
                asked.append(f"push {name}"), push(name, *how, **named))
            for _ in run.epochs(1):
                for i, (x, y) in enumerate(loader):
                    if i == 3:
                        model[0]._is_replica = True  # as DataParallel's copies have it
                        with self.assertRaisesRegex(psgd.StateError, "join the DataParallel model"):
                            model(x)
                        del model[0]._is_replica
                    asked.clear()
                    optimizer.zero_grad()
                    loss = nn.CrossEntropyLoss()(model(x), y)
                    forward = list(asked)
                    loss.backward()
                    pushed = asked[len(forward):]
                    optimizer.step()
                    if i > 0:
                        self.assertEqual([name.split(".")[0] for name in forward],
                                         ["0", "1", "1", "2", "2"])  # one came before
                        self.assertEqual(pushed[0], "all")
                        self.assertEqual(set(pushed[1:]), {f"push {n}" for n, _ in
                                                       model.named_parameters()})

    def test_weights_that_hooks_make_of_weights(self):
        class Normed(nn.Sequential):
            def __init__(self):
                torch.manual_seed(5)
                super().__init__(nn.utils.weight_norm(nn.Linear(6, 6)), nn.Linear(6, 2))

            def __deepcopy__(self, memo):
                return Normed()

        self.assert_same(*self.train(lambda m: torch.optim.SGD(m.parameters(), 0.1), Normed(),
                                     overlap=True, optimizer="{sgd: {learning_rate: 0.1}}"),
                         delta=1e-5)

    def test_copies_of_an_overlapping_model_and_its_use_after_leaving(self):
        model = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 2))
        with server(data=f"{{batch: {BATCH}}}") as at:
            run, loader, optimizer = self.joined(at, model, overlap=True)
            for _ in run.epochs(1):
                for i, (x, y) in enumerate(loader):
                    step(model, optimizer, x, y)
                    if i == 2:
                        best = copy.deepcopy(model)
                        kept = copy.deepcopy(model.state_dict())
                        best(x)
                    if i == 4:
                        run.leave()
                        break
                step(model, optimizer, x, y)
                break
        for name, value in best.state_dict().items():
            self.assertTrue(torch.equal(value, kept[name]), name)

    def test_a_run_that_was_left_keeps_no_model(self):
        for overlap in (False, True):
            with server(data=f"{{batch: {BATCH}}}", optimizer="{sgd: {learning_rate: 0.1}}") as at:
                model = nn.Linear(6, 2)
                run, loader, optimizer = self.joined(at, model, overlap=overlap)
                kept = [weakref.ref(one) for one in (run, model, model.weight, optimizer)]
                for _ in run.epochs(1):
                    for x, y in loader:
                        step(model, optimizer, x, y)
                del run, loader, model, optimizer
                gc.collect()
                self.assertEqual([one() for one in kept], [None] * len(kept))

    def test_memory_of_a_run_that_was_left_goes_back_to_the_system(self):
        def resident():
            with open("/proc/self/statm", encoding="ascii") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

        with server(data=f"{{batch: {BATCH}}}") as at, psgd.Client(at) as client:
            first = torch.ones(2 << 20)
            for i in range(16):
                client.add_memory(f"w{i}", first.shape, first.data_ptr())
            client.commit(SAMPLES, 1)
            before = resident()
            client.leave()
            self.assertLess(resident(), before - (64 << 20))

    def test_another_default_type(self):
        torch.set_default_dtype(torch.float64)
        try:
            model = nn.Linear(6, 2)
            with server(data=f"{{batch: {BATCH}}}") as at:
                run, loader, optimizer = self.joined(at, model)
                for _ in run.epochs(1):
                    for x, y in loader:
                        step(model, optimizer, x.double(), y)
            self.assertGreater(model.weight.abs().max().item(), 1e-3)
            self.assertLess(model.weight.abs().max().item(), 10)
        finally:
            torch.set_default_dtype(torch.float32)

    def test_a_loader_of_larger_batches_is_an_error(self):
        data = points()
        for workers, steps in ((0, 1), (1, SAMPLES // BATCH // 2)):
            with server(data=f"{{batch: {BATCH}}}") as at:
                model = nn.Linear(6, 2)
                optimizer = torch.optim.SGD(model.parameters(), 0.1)
                run = psgd.torch.join(model, optimizer, server=at)
                loader = DataLoader(data, 2 * BATCH, sampler=run.sampler(data), num_workers=workers)
                with self.assertRaisesRegex(psgd.StateError, f"batches have {2 * BATCH} samples.*"
                                                             f"batch_size={BATCH}"):
                    for _ in run.epochs(2):
                        for x, y in loader:
                            step(model, optimizer, x, y)
                self.assertEqual(run.timings()["steps"], steps)
                run.leave()

    def test_a_loader_whose_batches_are_divided_into_steps(self):
        data = points()
        with server(data=f"{{batch: {BATCH}}}") as at:
            model = nn.Linear(6, 2)
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            run = psgd.torch.join(model, optimizer, server=at)
            loader = DataLoader(data, 3 * BATCH, sampler=run.sampler(data), drop_last=True)
            for _ in run.epochs(1):
                for x, y in loader:
                    for part in range(0, 3 * BATCH, BATCH):
                        step(model, optimizer, x[part:part + BATCH], y[part:part + BATCH])

    def test_what_may_not_be_meant_is_noted(self):
        def noted(train, optimizer="worker", rate=0.1):
            with server(data=f"{{batch: {BATCH}}}", optimizer=optimizer) as at:
                model = nn.Linear(6, 2)
                with warnings.catch_warnings(record=True) as caught, \
                        mock.patch.object(psgd.Client, "note", autospec=True) as note:
                    warnings.simplefilter("always")
                    run, loader, joined = self.joined(
                        at, model, torch.optim.SGD(model.parameters(), rate))
                    for _ in run.epochs(2):
                        for x, y in loader:
                            train(model, joined, x, y)
                notes = [call.args[1] for call in note.call_args_list]
                ours = [str(one.message) for one in caught if str(one.message) in notes]
                self.assertEqual(ours, notes)
                return notes

        def another_model(model, optimizer, x, y):
            step(nn.Linear(6, 2), optimizer, x, y)

        def no_step(model, optimizer, x, y):
            nn.CrossEntropyLoss()(model(x), y).backward()

        self.assertEqual(noted(step), [])
        self.assertEqual(noted(step, "{sgd: {learning_rate: 0.1}}"), [])
        for train, text in ((another_model, "has had a gradient in 8 steps"),
                            (no_step, "8 of 8 batches of an epoch made no step")):
            notes = noted(train)
            self.assertEqual(len(notes), 1, notes)
            self.assertIn(text, notes[0])
        notes = noted(step, "{sgd: {learning_rate: 0.1, momentum: 0.9}}", rate=0.5)
        self.assertEqual(len(notes), 1, notes)
        self.assertIn("learning rate 0.5 here and 0.1 there, momentum 0 here and 0.9 there", notes[0])

    def test_an_accuracy_is_a_fraction(self):
        with server(data=f"{{batch: {BATCH}}}") as at:
            model = nn.Linear(6, 2)
            run, loader, optimizer = self.joined(at, model)
            for _ in run.epochs(1):
                for x, y in loader:
                    step(model, optimizer, x, y)
                for logs in (run, psgd.torch.Alone()):
                    with self.assertRaisesRegex(psgd.InvalidError, "94.25: it is a fraction from 0 to 1"):
                        logs.log(accuracy=94.25)
                    with self.assertRaisesRegex(psgd.InvalidError, "accuracy is not a number"):
                        logs.log(accuracy=float("nan"))
                    logs.log(accuracy=1 + 7e-16)  # a mean of accuracies of 1

    def test_gradients_that_change_after_they_left(self):
        def clip(model, run, loss):
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)

        def clip_values(model, run, loss):
            loss.backward()
            nn.utils.clip_grad_value_(model.parameters(), 0.01)

        def replace(model, run, loss):
            loss.backward()
            model.weight.grad = model.weight.grad * 2

        def again(model, run, loss):
            loss.backward(retain_graph=True)
            loss.backward()

        def unseen(model, run, loss):  # as GradScaler: autograd does not notice
            loss.backward()
            model.weight.grad.data.mul_(0.5)

        def one_of_many(model, run, loss):
            loss.backward()
            model.weight.grad.data[7777, 3] += 1

        def drop(model, run, loss):
            loss.backward()
            model.weight.grad = None

        def skip(model, run, loss):
            loss.backward()
            run.skip()

        for change in (clip, clip_values, replace, again, unseen, one_of_many, drop, skip):
            model = nn.Linear(6, 20000 if change is one_of_many else 2)
            with server(data=f"{{batch: {BATCH}}}", optimizer="{sgd: {learning_rate: 0.1}}") as at:
                run, loader, optimizer = self.joined(at, model, overlap=True)
                with self.assertRaisesRegex(psgd.StateError, "[Jj]oin without overlap=True"):
                    for _ in run.epochs(1):
                        for x, y in loader:
                            optimizer.zero_grad()
                            change(model, run, nn.CrossEntropyLoss()(model(x), y))
                            optimizer.step()
                run.leave(failed=True)

    def both(self, work, make=lambda: nn.Linear(6, 2), rate=0.1, samples=SAMPLES):
        """What work(run, batches, model, optimizer) returns of two workers, in threads, by number."""
        data = TensorDataset(torch.randn(samples, 6), torch.arange(samples) % 2)
        models = [make() for _ in range(2)]
        with server(data=f"{{batch: {BATCH}}}", workers=2) as at, ThreadPoolExecutor(2) as pool:
            def worker(model):
                optimizer = torch.optim.SGD(model.parameters(), rate)
                run = psgd.torch.join(model, optimizer, server=at)
                try:
                    return run.worker, work(run, Kept(run, data), model, optimizer)
                except Exception:
                    run.leave(failed=True)  # the other would wait
                    raise

            return [done for _, done in sorted(pool.map(worker, models), key=lambda done: done[0])]

    def test_bf16_weights_do_not_round_the_shards(self):
        """The mean of two workers' steps lies between two numbers of bf16."""
        bit = 2**-7  # of numbers from 1 to 2

        def ones():
            model = nn.Linear(6, 2).bfloat16()
            for parameter in model.parameters():
                nn.init.ones_(parameter)
            return model

        def work(run, kept, model, optimizer):
            for _ in run.epochs(1):
                for steps, _ in enumerate(kept, 1):
                    for parameter in model.parameters():
                        parameter.grad = torch.full_like(parameter, -bit * (run.worker == 0))
                    optimizer.step()
                    shards = torch.empty(model.weight.shape)
                    run.client.get_memory("weight", shards.data_ptr(), shards.numel())
                    self.assertEqual(shards.unique().tolist(), [1 + steps * bit / 2])
            return steps

        self.assertEqual(self.both(work, ones, rate=1), [SAMPLES // BATCH // 2] * 2)

    def test_accumulated_gradients(self):
        self.accumulate()

    def test_accumulated_gradients_that_leave_early(self):
        self.accumulate(clip=False, overlap=True, optimizer="{sgd: {learning_rate: 0.1}}")

    def accumulate(self, clip=True, overlap=False, **how):
        model = nn.Linear(6, 2)
        alone = copy.deepcopy(model)
        with server(data=f"{{batch: {BATCH}}}", **how) as at:
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            run = psgd.torch.join(model, optimizer, server=at, overlap=overlap)
            kept = Kept(run, points())
            for _ in run.epochs(1):
                for i, (x, y) in enumerate(kept):
                    loss = nn.CrossEntropyLoss()(model(x), y) / 2
                    if i % 2 == 0:
                        with run.accumulate():
                            loss.backward()
                        continue
                    loss.backward()
                    if clip:
                        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                    optimizer.step()
                    optimizer.zero_grad()
        self.assertEqual(run.timings()["steps"], SAMPLES // BATCH)
        optimizer = torch.optim.SGD(alone.parameters(), 0.1)
        for i, (x, y) in enumerate(kept.batches):
            (nn.CrossEntropyLoss()(alone(x), y) / 2).backward()
            if i % 2 == 1:
                if clip:
                    torch.nn.utils.clip_grad_norm_(alone.parameters(), 0.5)
                optimizer.step()
                optimizer.zero_grad()
        self.assert_same(model, alone)

    def test_a_skipped_step_and_a_loader_with_processes(self):
        model = nn.Linear(6, 2)
        with server(data=f"{{batch: {BATCH}}}") as at:
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
            run = psgd.torch.join(model, optimizer, server=at)
            loader = DataLoader(points(), batch_size=BATCH, sampler=run.sampler(points()),
                                num_workers=2, persistent_workers=True)
            epochs = 0
            for _ in run.epochs(2):
                for i, (x, y) in enumerate(loader):
                    if i != 3:
                        step(model, optimizer, x, y)
                with warnings.catch_warnings():
                    warnings.simplefilter("error")  # such as that step() is not the optimizer's
                    scheduler.step()
                epochs += 1
            self.assertEqual(epochs, 2)
            self.assertEqual(run.timings()["steps"], 2 * SAMPLES // BATCH)

    def test_a_limit_of_steps_within_an_epoch_and_a_loader_with_processes(self):
        model = nn.Linear(6, 2)
        with server(data=f"{{batch: {BATCH}}}", more="train: {max_steps: 11}") as at:
            run, _, optimizer = self.joined(at, model)
            loader = DataLoader(points(), batch_size=BATCH, sampler=run.sampler(points()),
                                num_workers=2)
            epochs = []
            for epoch in run.epochs(4):
                epochs.append(epoch)
                for x, y in loader:
                    step(model, optimizer, x, y)
            self.assertEqual(epochs, [0, 1])
            self.assertEqual(run.timings()["steps"], 11)

    def test_a_program_that_catches_ctrl_c_ends_while_the_server_is_away(self):
        model = nn.Linear(6, 2)
        with server(data=f"{{batch: {BATCH}}}") as at:
            run, _, _ = self.joined(at, model)
            run.client.commit(SAMPLES, 1)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # not so where ctest ignores it
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        with self.assertRaises(KeyboardInterrupt):
            run.client.next_share()
        start = time.monotonic()
        run.leave()
        self.assertLess(time.monotonic() - start, 2)

    def test_a_graph_of_weights_that_came_later_is_an_error(self):
        """As in PyTorch alone, whose step changes the weights."""
        model = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 2))
        with server(data=f"{{batch: {BATCH}}}", optimizer="{sgd: {learning_rate: 0.1}}") as at:
            run, loader, optimizer = self.joined(at, model)
            for _ in run.epochs(1):
                x, y = next(iter(loader))
                loss = nn.CrossEntropyLoss()(model(x), y)
                loss.backward(retain_graph=True)
                optimizer.step()
                with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
                    loss.backward()
                break
            run.leave()

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
                runs = [self.joined(at, model, torch.optim.SGD(model.parameters(), 0.1, momentum), **how)
                        for model in models]
                for run, *_ in runs:
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

    def test_a_stream(self):
        class Stream(IterableDataset):
            part = (0, 1)

            def __iter__(self):
                index, count = self.part
                for i in range(index, 10**6, count):
                    yield torch.full((6,), float(i)), i % 2

        model = nn.Linear(6, 2)
        with server(data=f"{{batch: {BATCH}}}") as at:
            optimizer = torch.optim.SGD(model.parameters(), 1e-6)
            run = psgd.torch.join(model, optimizer, server=at)
            with self.assertRaisesRegex(psgd.StateError, "within the run's epochs"):
                run.part()
            run.stream(SAMPLES)
            data, seen = Stream(), []
            loader = DataLoader(data, batch_size=BATCH)
            for _ in run.epochs(2):
                data.part = run.part()
                self.assertEqual(data.part, (0, 1))
                for x, y in run.batches(loader):
                    seen += x[:, 0].int().tolist()
                    step(model, optimizer, x, y)
        self.assertEqual(seen, 2 * list(range(SAMPLES)))
        alone = psgd.torch.Alone()
        self.assertEqual(alone.part(), (0, 1))
        self.assertEqual(list(alone.batches([1, 2])), [1, 2])

    def test_two_workers_have_different_parts_of_a_stream(self):
        def work(run, _, model, optimizer):
            run.stream(SAMPLES)
            for _ in run.epochs(1):
                part, batches = run.part(), 0
                for x, y in run.batches(iter(lambda: points()[:BATCH], None)):
                    batches += 1
                    step(model, optimizer, x, y)
            return part, batches

        self.assertEqual(self.both(work), [((i, 2), SAMPLES // BATCH // 2) for i in range(2)])

    def test_a_schedule_of_batches_that_two_workers_cannot_share_evenly(self):
        def work(run, kept, model, optimizer):
            scheduler = torch.optim.lr_scheduler.OneCycleLR(
                optimizer, 0.1, epochs=2, steps_per_epoch=len(kept.loader), cycle_momentum=False)
            for _ in run.epochs(2):
                for x, y in kept:
                    step(model, optimizer, x, y)
                    scheduler.step()
            return len(kept.batches)

        self.assertEqual(self.both(work, samples=9 * BATCH), [10, 8])

    def test_the_mean_of_two_workers_with_statistics_and_a_skipped_step(self):
        """As GradScaler skips it, which needs a GPU or PyTorch 2.3."""
        def make():
            torch.manual_seed(5)
            return nn.Sequential(nn.BatchNorm1d(6, momentum=0.5), nn.Linear(6, 2))

        def scaled_step(model, optimizer, x, y, factor):
            loss = nn.CrossEntropyLoss()(model(x), y) * factor
            optimizer.zero_grad()
            loss.backward()
            if all(p.grad.isfinite().all() for p in model.parameters()):
                optimizer.step()

        def work(run, kept, model, optimizer):
            for _ in run.epochs(1):
                for i, (x, y) in enumerate(kept):
                    scaled_step(model, optimizer, x, y, math.inf if run.worker == i == 1 else 1)
            self.assertEqual(run.timings()["steps"], len(kept.batches))
            return kept.batches, model.state_dict()

        (one, trained), (other, same) = self.both(work, make)
        mean = make().state_dict()
        # Worker 1 skipped its second batch: its later ones are a step earlier, and none is left.
        for batches in zip(([b] for b in one), (other[:1], other[1:3], other[3:], [])):
            states = []
            for taken in batches:
                model = make()
                model.load_state_dict(mean)
                optimizer = torch.optim.SGD(model.parameters(), 0.1)
                for i, (x, y) in enumerate(taken, 1):
                    scaled_step(model, optimizer, x, y, 1 if i == len(taken) else math.inf)
                states.append(model.state_dict())
            for name in mean:  # of weights, over those that made a step
                taking = states if batches[1] or "running" in name else states[:1]
                mean[name] = sum(state[name].float() for state in taking) / len(taking)
        for name, value in trained.items():
            if "num_batches" not in name:
                self.assertLess((value - mean[name]).abs().max().item(), 1e-5, name)
                self.assertTrue(torch.equal(value, same[name]), name)

    def test_states_that_checkpoints_do_not_keep(self):
        model = nn.Linear(6, 2)
        with server(data=f"{{batch: {BATCH}}}") as at:
            run, _, optimizer = self.joined(at, model)
            with self.assertRaisesRegex(psgd.InvalidError, "best is a float: checkpoints keep"):
                run.state(best=0.5)
            run.state(mine={"what": [1, {2}]})
            with self.assertRaisesRegex(psgd.InvalidError, r"mine\['what'\]\[1\] is a set"):
                next(run.epochs(1))
            mine = {"best": 0.5}
            run.state(mine=mine)
            for _ in run.epochs(1):
                with self.assertRaisesRegex(psgd.StateError, "before them"):
                    run.state(more={})
                mine["later"] = {2}
                with self.assertWarnsRegex(UserWarning, "is a set.*begins with a new optimizer"):
                    self.assertEqual(len(run._save_state()), 0)
                break
            # A forked child ends without a word: the run is its parent's.
            with mock.patch.object(os, "getpid", lambda: -1), \
                    contextlib.redirect_stderr(io.StringIO()) as said:
                psgd.torch._leave_all()
            self.assertEqual(said.getvalue(), "")
            run.leave()

    def test_mistakes(self):
        model = nn.Linear(6, 2)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        with server(data=f"{{batch: {2 * BATCH}}}") as at:
            with self.assertRaisesRegex(psgd.InvalidError, "not of this model"):
                psgd.torch.join(nn.Linear(6, 2), optimizer, server=at)
            run = psgd.torch.join(model, optimizer, server=at)
            with self.assertRaisesRegex(psgd.StateError, "joined a run before"):
                psgd.torch.join(model, optimizer, server=at)
            other = torch.optim.SGD(model.parameters(), 0.1)
            with self.assertRaisesRegex(psgd.StateError, "this model has joined"):
                psgd.torch.join(model, other, server=at)
            with self.assertRaisesRegex(psgd.StateError, "has joined the run before"), \
                    mock.patch.object(psgd._environment, "server", lambda: at):
                second = nn.Linear(6, 2)
                psgd.torch.join(second, torch.optim.SGD(second.parameters(), 0.1))
            with self.assertRaisesRegex(psgd.StateError, "run.sampler"):
                next(run.epochs(1))
            loader = DataLoader(points(), batch_size=BATCH, sampler=run.sampler(points()))
            with self.assertRaisesRegex(psgd.StateError, "within its epochs"):
                next(iter(loader))
            with self.assertRaisesRegex(psgd.StateError, "this one has 8; give the sampler to the "
                                        "training set alone"):
                run.sampler(range(8))
            with self.assertRaisesRegex(psgd.StateError, "two steps a batch. Give .*batch_size=8"):
                for _ in run.epochs(1):
                    for x, y in loader:
                        step(model, optimizer, x, y)
            run.leave()
            step(model, optimizer, *next(iter(DataLoader(points(), BATCH))))  # as alone
            psgd.torch.join(model, other, server=at).leave()  # the model has left

    def test_calls_after_the_end(self):
        model = nn.Linear(6, 2)
        with server(data=f"{{batch: {BATCH}}}") as at:
            run, loader, optimizer = self.joined(at, model)
            for _ in run.epochs(1):
                for x, y in loader:
                    step(model, optimizer, x, y)

            def accumulate():
                with run.accumulate():
                    pass

            for call in (run.skip, run.part, accumulate, lambda: list(loader),
                         lambda: list(run.batches([1])), lambda: list(run.epochs(1))):
                with self.assertRaisesRegex(psgd.StateError, "this (worker|client) has left the run"):
                    call()
            step(model, optimizer, x, y)  # as alone

    def test_a_shape_that_changes(self):
        model = nn.Linear(6, 2)
        with server(data=f"{{batch: {BATCH}}}") as at:
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            run = psgd.torch.join(model, optimizer, server=at)
            loader = DataLoader(points(), batch_size=BATCH, sampler=run.sampler(points()))
            with self.assertRaisesRegex(psgd.InvalidError, "weight has the shape"):
                for _ in run.epochs(1):
                    for x, y in loader:
                        step(model, optimizer, x, y)
                        for parameter, shape in ((model.weight, (3, 6)), (model.bias, (3,))):
                            parameter.data, parameter.grad = torch.zeros(shape), None
            run.leave(failed=True)

    def joined(self, at, model, optimizer=None, **how):
        """A run of SGD, and its loader."""
        optimizer = optimizer or torch.optim.SGD(
            [p for p in model.parameters() if p.requires_grad], 0.1)
        run = psgd.torch.join(model, optimizer, server=at, **how)
        loader = DataLoader(points(), batch_size=BATCH, sampler=run.sampler(points()))
        return run, loader, optimizer

    def test_a_model_that_is_converted_after_the_join(self):
        for convert in (lambda m: m.double(), lambda m: m.bfloat16(),
                        lambda m: m[0].weight.data.set_(m[0].weight.data.t().contiguous().t())):
            torch.manual_seed(5)
            model = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Linear(6, 2))
            with server(data=f"{{batch: {BATCH}}}") as at:
                run, loader, optimizer = self.joined(at, model)
                first = [p.detach().float().clone() for p in model.parameters()]
                for epoch in run.epochs(2):
                    for i, (x, y) in enumerate(loader):
                        if epoch == 0 and i == 2:
                            convert(model)
                        step(model, optimizer, x.to(model[0].weight.dtype), y)
            self.assertTrue(all(torch.isfinite(p).all() for p in model.parameters()))
            for one, parameter in zip(first, model.parameters()):
                self.assertLess((one - parameter.float()).abs().max().item(), 2)
            self.assertGreater(model[1].running_mean.abs().max().item(), 1e-3)
            # What the run has is what the model has: the buffers are looked up.
            with torch.no_grad():
                mean = model[0](points().tensors[0].to(model[0].weight.dtype)).mean(0)
            self.assertLess((mean - model[1].running_mean).abs().max().item(), 0.5)

    def test_small_segments_deal_each_sample_once_an_epoch(self):
        model = nn.Linear(6, 2)
        with server(data=f"{{batch: {BATCH}}}", cluster=", segment: 3") as at:
            run, _, optimizer = self.joined(at, model)
            kept, seen = Kept(run, points()), []
            for epoch in run.epochs(3):
                for x, y in kept:
                    step(model, optimizer, x, y)
                    seen += [(epoch, tuple(one.tolist())) for one in x]
                    self.assertEqual(len(kept.loader), SAMPLES // BATCH)
                with self.assertRaisesRegex(psgd.StateError, "without the run's sampler"):
                    next(iter(kept.loader))
                run.log(accuracy=0.5)
            self.assertEqual(len(seen), 3 * SAMPLES)
            self.assertEqual(len(set(seen)), 3 * SAMPLES)

    def test_a_share_of_the_next_epoch_is_kept_for_it(self):
        model = nn.Linear(6, 2)
        with server(data=f"{{batch: {BATCH}}}", cluster=", segment: 4") as at:
            run, _, optimizer = self.joined(at, model)
            kept, epochs, deal = Kept(run, points()), [], run._next_share

            def unsure():  # as after the death of another worker
                dealt = deal()
                if dealt:
                    run._share.ends_epoch = False
                return dealt

            run._next_share = unsure
            for epoch in run.epochs(3):
                epochs.append(epoch)
                for x, y in kept:
                    step(model, optimizer, x, y)
                if epoch == 0:
                    with self.assertRaisesRegex(psgd.StateError, "after the last batch"):
                        step(model, optimizer, x, y)
            self.assertEqual(epochs, [0, 1, 2])
            self.assertEqual(len(kept.batches), 3 * SAMPLES // BATCH)

    def test_what_the_program_changes_by_itself_stays(self):
        model = nn.ModuleList([nn.Linear(6, 2), nn.Linear(6, 2), nn.Linear(6, 2)])
        for parameter in [*model[1].parameters(), *model[2].parameters()]:
            parameter.requires_grad_(False)
        with server(data=f"{{batch: {BATCH}}}") as at:
            run, loader, optimizer = self.joined(at, model)
            for epoch in run.epochs(2):
                if epoch == 1:
                    model[2].requires_grad_(True)
                    optimizer.add_param_group({"params": list(model[2].parameters())})
                    before = copy.deepcopy(model[2])
                for i, (x, y) in enumerate(loader):
                    loss = nn.CrossEntropyLoss()(model[0](x) + model[2](x), y)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    with torch.no_grad():
                        for teacher in model[1].parameters():
                            teacher.fill_(i)
            self.assertEqual(model[1].weight.max().item(), SAMPLES // BATCH - 1)
            self.assertGreater((model[2].weight - before.weight).abs().max().item(), 1e-3)

    def test_parameters_that_nobody_would_push(self):
        model = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 2))
        with server(data=f"{{batch: {BATCH}}}") as at:
            with self.assertRaisesRegex(psgd.InvalidError, "1.weight requires a gradient"):
                self.joined(at, model, torch.optim.SGD(model[0].parameters(), 0.1))
            model.angle = nn.Parameter(torch.zeros(2, dtype=torch.complex64))
            with self.assertRaisesRegex(psgd.InvalidError, "angle is of torch.complex64"):
                self.joined(at, model)

    def test_no_results_of_an_epoch_that_did_not_end(self):
        model, reported = nn.Linear(6, 2), []
        with server(data=f"{{batch: {BATCH}}}") as at:
            run, loader, optimizer = self.joined(at, model)
            run.client.report = lambda *arguments, **named: reported.append(arguments)

            def over():
                raise psgd.RunOver("this worker was asked to leave")

            for _ in run.epochs(2):
                for i, (x, y) in enumerate(loader):
                    if i == 3:
                        run.client.wait = over
                        run.client.next_share = lambda: None
                    step(model, optimizer, x, y)
                with self.assertWarnsRegex(UserWarning, "asked to leave"):
                    run.log(accuracy=0.5)
            run.leave()
        self.assertEqual(reported, [])

    def test_names_of_results(self):
        model = nn.Linear(6, 2)
        with server(data=f"{{batch: {BATCH}}}") as at:
            run, _, _ = self.joined(at, model)
            for _ in run.epochs(1):
                for log in (run.log, psgd.torch.Alone().log, lambda **how: run.client.report(1, **how)):
                    for wrong in ({"mAP": 1}, {"x" * 65: 1}, {f"m{i}": 1 for i in range(17)}):
                        text = "'mAP' .*'map'" if "mAP" in wrong else "at most (16|64)"
                        with self.assertRaisesRegex(psgd.InvalidError, text):
                            log(loss=1, **wrong)
                for log in (run.log, psgd.torch.Alone().log):
                    with self.assertRaisesRegex(psgd.InvalidError, "counts the epochs itself"):
                        log(epoch=1, loss=1)
                run.log(loss=1, accuracy=1, samples=3, seconds=1, **{f"m{i}": 1 for i in range(16)})
                with self.assertWarnsRegex(UserWarning, "in one call"):
                    run.log(accuracy=1)
                break
            run.leave()

    def test_a_worker_that_is_asked_to_leave_among_empty_steps(self):
        model = nn.Linear(6, 2)
        with server(data=f"{{batch: {BATCH}}}") as at:
            run, loader, optimizer = self.joined(at, model)

            def over():
                raise psgd.RunOver("this worker was asked to leave")

            for _ in run.epochs(2):
                run.skip()
                run.client.wait = over
                run.client.next_share = lambda: None
            run.leave()

    def test_statistics_of_batches_without_an_update(self):
        model = nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 2))
        alone = copy.deepcopy(model)
        with server(data=f"{{batch: {BATCH}}}") as at:
            run, _, optimizer = self.joined(at, model)
            kept = Kept(run, points())
            for _ in run.epochs(1):
                for i, (x, y) in enumerate(kept):
                    if i % 2 == 0:
                        with run.accumulate():
                            model(x)
                    elif i < 6:
                        step(model, optimizer, x, y)
                    else:
                        model(x)  # as if GradScaler skipped it
        for x, _ in kept.batches:
            alone(x)
        for name in ("running_mean", "running_var"):
            one, other = getattr(model[0], name), getattr(alone[0], name)
            self.assertLess((one - other).abs().max().item(), 1e-5, name)

    def test_buffers_that_are_no_statistics_stay_local(self):
        model = nn.Linear(6, 2)
        model.register_buffer("mask", torch.full((2, 2), float("-inf")))
        model.register_buffer("table", torch.zeros(3))
        model.register_buffer("usage", torch.zeros(2))
        with server(data=f"{{batch: {BATCH}}}") as at:
            with self.assertRaisesRegex(psgd.InvalidError, "no buffer is called use"):
                self.joined(at, model, statistics=["use"])
            run, loader, optimizer = self.joined(at, model, statistics=["usage"])
            self.assertEqual([t.name for t in run._tensors], ["weight", "bias", "usage"])
            for _ in run.epochs(1):
                for x, y in loader:
                    step(model, optimizer, x, y)
                    model.table, model.usage = model.table + 1, model.usage + 2
                    run.skip()
                    break
            run.leave()
        self.assertEqual(model.table.tolist(), [1, 1, 1])
        self.assertEqual(model.usage.tolist(), [2, 2])

    def test_a_traceback_ends_with_the_programs_line(self):
        package = os.path.dirname(psgd.__file__)
        names = {"psgd": psgd}
        exec(compile("def step(): raise psgd.Error", f"{package}/torch.py", "exec"), names)
        exec(compile("def train(): step()", f"{package}_tools/train.py", "exec"), names)
        try:
            names["train"]()
        except psgd.Error as error:
            psgd.torch._leave_out_own_calls(error.__traceback__)
            last = traceback.extract_tb(error.__traceback__)[-1]
            self.assertEqual(last.filename, f"{package}_tools/train.py")

    def test_the_loader_has_a_length_before_the_first_epoch(self):
        with server(data=f"{{batch: {BATCH}}}", workers=2) as at:
            run, loader, _ = self.joined(at, nn.Linear(6, 2))
            self.assertEqual(len(loader), SAMPLES // BATCH // 2)
            run.leave()
        with server(data=f"{{batch: {BATCH}}}", workers=100) as at:
            run, loader, _ = self.joined(at, nn.Linear(6, 2))
            self.assertEqual(len(loader), 1)
            run.leave()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
