"""Steps of PyTorch workers: whatever is in the model, the run's weights are those of a program that
trains alone.

torch_steps_test.py BIN_FOLDER SOURCE_FOLDER
"""

import copy
import math
import sys
import unittest

from torch_training import BATCH, SAMPLES, Kept, Training, points, step  # first: exits without PyTorch

import torch
from torch import nn

import psgd.torch
from servers import server


class Steps(Training):
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


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
