"""The samples that a run deals to a PyTorch worker, and the steps that the worker makes of them."""

import sys
from typing import Callable, Iterator, List, Optional, Tuple

from torch.utils.data import BatchSampler, Sampler

from psgd._client import Client, Share, warn
from psgd._library import InvalidError, StateError
from psgd._torch_state import Checkpoints


class Dealt(Sampler):
    """The samples that the run has dealt to this worker, of the present epoch."""

    def __init__(self, shares: "Shares") -> None:
        self._shares = shares

    def __iter__(self) -> Iterator[int]:
        caller = sys._getframe(1).f_locals.get("self")  # a DataLoader's batches ask
        # In other classes batch_size may mean something else.
        batch = caller.batch_size if type(caller) is BatchSampler else 0
        return self._shares.samples(batch)

    def __len__(self) -> int:
        return self._shares.samples_of_epoch()


class Shares:
    """The share that this worker has, and how far it is in it.

    `wait`: for the next share and its weights; None: the run is over.
    """

    def __init__(self, client: Client, checkpoints: Checkpoints,
                 wait: Callable[[], Optional[Share]]) -> None:
        self._client = client
        self._checkpoints = checkpoints
        self._wait = wait
        self.samples_in_set = 0
        self.share: Optional[Share] = None
        self.asked_to_leave = False
        self.has_left = False
        self._pending = False     # the share is of the next epoch
        self._dealt_out = False   # a loader has had all samples of the epoch
        self._batches_dealt = 0   # batches of this epoch that this worker has had
        self._steps = 0           # of the share that have ended
        self._skips = 0           # of them, without an update
        self._drawn = 0           # samples of the share that a loader has had
        self._loader_batch = 0    # samples of the loader's batches; 0: not known
        self._draws_by_step = False  # it has had as many batches as there were steps
        self._told_batches = False   # that most batches make no step

    def set_samples(self, samples: int, advice: str) -> None:
        if self.samples_in_set not in (0, samples):
            raise StateError(f"the run deals a data set of {self.samples_in_set} samples, and this "
                             f"one has {samples}; {advice}")
        self.samples_in_set = samples

    def part(self) -> Tuple[int, int]:
        self._check_joined()
        if self.share is None:
            raise StateError("a part of the data is dealt within the run's epochs; call run.part() "
                             "inside of `for epoch in run.epochs(n):`")
        return self.share.rank, self.share.ranks

    def _check_joined(self) -> None:
        if self.has_left:
            raise StateError("this worker has left the run: its epochs are over, or the program called "
                             "run.leave(). For another run make another optimizer, and join again")

    # ---- Shares ----

    def samples_of_epoch(self) -> int:
        """Of this worker. Before its last share, not less than there will be while no worker leaves."""
        batches = self._batches_dealt
        if self.share is None or not self.share.ends_epoch:
            workers = max(1, self._client.workers)
            batches = max(1, batches, -(-(self.samples_in_set // self._client.batch) // workers))
        return batches * self._client.batch

    def next_share(self) -> bool:
        before = self.share
        self.share = self._wait()
        self._steps = self._skips = self._drawn = 0
        self._dealt_out = False
        if self.share is None:
            return False
        if before is None or before.ends_epoch or before.epoch != self.share.epoch:
            self._batches_dealt = 0
        self._batches_dealt += self.share.batches
        return True

    def next_epoch(self, count: int) -> Optional[int]:
        """Its number; None: the run is over. `count`: how many the program wants; 0: it is not said."""
        if not (self._pending or self.next_share()):
            return None
        assert self.share is not None
        if 0 < count <= self.share.epoch:
            raise InvalidError(f"the run goes on in epoch {self.share.epoch + 1}, and "
                               f"run.epochs({count}) ends before it; say more epochs")
        self._pending = False
        return self.share.epoch

    # ---- Samples ----

    def samples(self, loader_batch: int) -> Iterator[int]:
        """`loader_batch`: how many make a batch of the loader; 0: not known."""
        self._loader_batch = loader_batch
        for batch in self.batches():
            for sample in batch:
                self._drawn += 1
                yield sample

    def batches(self) -> Iterator[List[int]]:
        """The samples of each batch of this epoch."""
        self._check_joined()
        if self.share is None:
            raise StateError("the run deals samples within its epochs; iterate over the loader "
                             "inside of `for epoch in run.epochs(n):`")
        if self._pending or (self._dealt_out and self._steps > 0):
            raise StateError("all samples of this epoch have been dealt; iterate over the loader "
                             "once an epoch, and give the test set a loader without the run's "
                             "sampler; for the accuracy on the training data make another such "
                             "loader, too")
        epoch = self.share.epoch
        self._checkpoints.state.restore_random_numbers()
        while True:
            for batch in self.share:
                if self.asked_to_leave:
                    self._checkpoints.give_owed()
                    return
                yield batch
            if self.share.ends_epoch or self.asked_to_leave:
                self._dealt_out = True
                return
            if self._steps < self.share.batches:
                raise StateError(
                    f"the loader asks for samples beyond the run's segment while "
                    f"{self.share.batches - self._steps} batches of it made no step yet. Leave "
                    "cluster.segment out of the run's config (then a segment is an epoch), or use "
                    "DataLoader(num_workers=0) and call run.skip() for batches without a step")
            if not self.next_share():
                self.asked_to_leave = True  # or the run ended: in the middle of the epoch
                return
            if self.share.epoch != epoch:
                self._pending = True
                return

    # ---- Steps ----

    def check_step(self) -> None:
        """Whether the run has dealt the batch of the step that ends now."""
        self._check_joined()
        if self.share is None:
            raise StateError("a step outside of the run's epochs; train inside of `for epoch in "
                             "run.epochs(n):`")
        if self._pending:
            raise StateError("a step after the last batch of the epoch; make all steps inside of "
                             "the loop over the loader")
        if self._steps >= self.share.batches:
            raise StateError(
                f"this is step {self._steps + 1} of a share of {self.share.batches} batches: the "
                f"DataLoader's batches are not those of the run, or the program makes two steps a "
                f"batch. Give the loader batch_size={self._client.batch} (data.batch of the run's "
                "config) and the run's sampler. Of two networks that train in turn (a GAN) give both "
                "to one ModuleDict and one optimizer, and make one step a batch")
        # A loader without workers draws a batch a step, which shows by the second one.
        step, batch = self._steps + 1, self._loader_batch
        self._draws_by_step = self._drawn == step * batch and (step == 1 or self._draws_by_step)
        if step == 2 and self._draws_by_step and batch > self._client.batch:
            raise StateError(self._of_large_batches())

    def _of_large_batches(self) -> str:
        return (f"the DataLoader's batches have {self._loader_batch} samples, and the run deals steps "
                f"of {self._client.batch} (data.batch of its config): give the loader "
                f"batch_size={self._client.batch}, or say data.batch: {self._loader_batch}")

    def count_step(self, updates: bool) -> None:
        self._steps += 1
        self._skips += not updates

    def steps_left(self) -> int:
        """Of the share, for this worker."""
        if self.share is None or self._pending or self.asked_to_leave:
            return 0
        return self.share.batches - self._steps

    def check_finished(self) -> None:
        """At the end of an epoch, whether too few of its batches made a step."""
        without = self.steps_left()
        if self.share is None or without == 0:
            return
        large, one_a_batch = self._loader_batch > self._client.batch, (
            (self._steps - 1) * self._loader_batch < self.share.batches * self._client.batch)
        if self._dealt_out and large and one_a_batch:
            raise StateError(self._of_large_batches())
        if without > self.share.batches // 2 and self._skips == 0 and not self._told_batches:
            self._told_batches = True
            warn(self._client, f"{without} of {self.share.batches} batches of an epoch made no step: is "
                               "the optimizer that joined the one whose step() the loop calls, is the "
                               f"DataLoader's batch_size {self._client.batch} (data.batch of the run's "
                               "config), and did the loop end early? Accumulate gradients in `with "
                               "run.accumulate():`", 3)
