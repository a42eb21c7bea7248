"""From the join to the end: what a program is told that makes a mistake, what it logs, and what it
leaves behind.

torch_join_test.py BIN_FOLDER SOURCE_FOLDER
"""

import contextlib
import gc
import io
import os
import signal
import sys
import threading
import time
import traceback
import unittest
import warnings
import weakref
from unittest import mock

from torch_training import BATCH, SAMPLES, Training, points, step  # first: exits without PyTorch

import torch
from torch import nn
from torch.utils.data import DataLoader

import psgd
import psgd.torch
from servers import server


class Join(Training):
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

    def test_parameters_that_nobody_would_push(self):
        model = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 2))
        with server(data=f"{{batch: {BATCH}}}") as at:
            with self.assertRaisesRegex(psgd.InvalidError, "1.weight requires a gradient"):
                self.joined(at, model, torch.optim.SGD(model[0].parameters(), 0.1))
            model.angle = nn.Parameter(torch.zeros(2, dtype=torch.complex64))
            with self.assertRaisesRegex(psgd.InvalidError, "angle is of torch.complex64"):
                self.joined(at, model)

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
                    self.assertEqual(len(run._checkpoints.save()), 0)
                break
            # A forked child ends without a word: the run is its parent's.
            with mock.patch.object(os, "getpid", lambda: -1), \
                    contextlib.redirect_stderr(io.StringIO()) as said:
                psgd.torch._leave_all()
            self.assertEqual(said.getvalue(), "")
            run.leave()

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


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
