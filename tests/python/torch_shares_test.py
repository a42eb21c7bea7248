"""The samples that a run deals to PyTorch workers, by a sampler or as a stream.

torch_shares_test.py BIN_FOLDER SOURCE_FOLDER
"""

import sys
import unittest
import warnings

from torch_training import BATCH, SAMPLES, Kept, Training, points, step  # first: exits without PyTorch

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

import psgd
import psgd.torch
from servers import server


class Shares(Training):
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

    def test_the_loader_has_a_length_before_the_first_epoch(self):
        with server(data=f"{{batch: {BATCH}}}", workers=2) as at:
            run, loader, _ = self.joined(at, nn.Linear(6, 2))
            self.assertEqual(len(loader), SAMPLES // BATCH // 2)
            run.leave()
        with server(data=f"{{batch: {BATCH}}}", workers=100) as at:
            run, loader, _ = self.joined(at, nn.Linear(6, 2))
            self.assertEqual(len(loader), 1)
            run.leave()

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
            kept, epochs, deal = Kept(run, points()), [], run._shares.next_share

            def unsure():  # as after the death of another worker
                dealt = deal()
                if dealt:
                    run._shares.share.ends_epoch = False
                return dealt

            run._shares.next_share = unsure
            for epoch in run.epochs(3):
                epochs.append(epoch)
                for x, y in kept:
                    step(model, optimizer, x, y)
                if epoch == 0:
                    with self.assertRaisesRegex(psgd.StateError, "after the last batch"):
                        step(model, optimizer, x, y)
            self.assertEqual(epochs, [0, 1, 2])
            self.assertEqual(len(kept.batches), 3 * SAMPLES // BATCH)

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


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
