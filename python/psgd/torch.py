"""PyTorch programs as workers of a psgd run.

    import psgd.torch
    run = psgd.torch.join(model, optimizer)
    loader = DataLoader(dataset, batch_size=64, sampler=run.sampler(dataset))
    for epoch in run.epochs(10):
        for x, y in loader:
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        run.log(loss=loss, accuracy=evaluate(model))

Started by `ps-run CONFIG.yaml -- python3 train.py`, or with a `server`, the program is a worker of
that run. Otherwise it trains alone, with the same lines.
"""

import atexit
import contextlib
import os
import pathlib
import random
import sys
import time
import types
import warnings
import weakref
from typing import AbstractSet, Any, Dict, Iterable, Iterator, List, Optional, Sequence, Set, Sized, Tuple, Union

import torch
from torch.utils.data import BatchSampler, Sampler

from psgd import _environment
from psgd._client import Client, Share, check_accuracy, check_measures, environment_seed
from psgd._layout import Layout, check_optimizer
from psgd._library import DataLossError, Error, InvalidError, RunOver, StateError
from psgd._overlap import Overlap
from psgd._torch_state import State
from psgd._torch_tensor import Stagings, Tensor, is_statistic, members
from psgd._torch_weights import load_weights

__all__ = ["join", "load_weights", "seed", "Run", "Alone"]


_seeded: Optional[int] = None  # by seed(): what with
_joined: List["Run"] = []  # those that have not left
_MANY_STEPS = 10  # without a gradient: nothing is trained
_MOST_STATE_BYTES = 2 << 30  # kMostProgramState of common/program_state.h


class _NotYet(Exception):
    """A checkpoint wants a state while the program is in the middle of a batch."""


class _Dealt(Sampler):
    """The samples that the run has dealt to this worker, of the present epoch."""

    def __init__(self, run: "Run") -> None:
        self._run = run

    def __iter__(self) -> Iterator[int]:
        caller = sys._getframe(1).f_locals.get("self")  # a DataLoader's batches ask
        # Of other classes batch_size may mean something else.
        batch = caller.batch_size if type(caller) is BatchSampler else 0
        return self._run._samples(batch)

    def __len__(self) -> int:
        return self._run._batches() * self._run.client.batch


class _Shuffled(Sampler):
    """All samples of whole batches, in another order in each epoch: those that a run deals."""

    def __init__(self, samples: int) -> None:
        self._samples = samples

    def __iter__(self) -> Iterator[int]:
        return iter(torch.randperm(self._samples).tolist())

    def __len__(self) -> int:
        return self._samples


def _number(value: Any) -> float:
    """Of a loss as well, whose graph a conversion would warn about."""
    return float(value.detach() if isinstance(value, torch.Tensor) else value)


def _leave_out_own_calls(trace: Any) -> None:
    """So that a traceback ends with the program's line: the error's text says the rest."""
    here, last = str(pathlib.Path(__file__).parent) + os.sep, None
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(here):
            last = trace
        trace = trace.tb_next
    if last is not None:
        last.tb_next = None


def _refuse_scaled_gradients(optimizer: Any, named: Dict[str, Any]) -> None:
    """GradScaler leaves the unscaling to the step of a fused optimizer: of PyTorch 1 by an argument,
    of PyTorch 2 by attributes."""
    if named.get("grad_scaler") is not None or hasattr(optimizer, "found_inf"):
        raise StateError(
            "the optimizer is fused: GradScaler lets it unscale the gradients within its step, and "
            "the step is made on the shards (`optimizer` of the run's config), which would get "
            "scaled gradients. Make the program's optimizer without fused=True, or say "
            "optimizer: worker in the config")


def _seed_all(number: int) -> None:
    torch.manual_seed(number)
    random.seed(number)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(number % 2**32)


def seed(default: int = 1) -> int:
    """Seeds PyTorch, Python and NumPy with the run's seed (`seed` of its config, `repeat.seeds` of a
    sweep), or with `default` in a program that trains alone; returns it.

    To be called before the model is made: all workers then make the same first weights. From the
    join on, each draws random numbers of its own, from the run's seed and its number.
    """
    global _seeded
    if _joined:
        raise StateError("psgd.torch.seed() after psgd.torch.join() comes too late for the first "
                         "weights, and would give all workers the same random numbers; call it "
                         "before the model is made")
    given = environment_seed()
    _seeded = default if given is None else given
    _seed_all(_seeded)
    return _seeded


def _seed_worker(client: Client) -> None:
    """After seed(): workers that draw the same numbers would drop the same units, for example."""
    if _seeded is None:
        return
    if _seeded != client.seed:
        _warn(client, f"the run's seed is {client.seed}, and this program's first weights are of seed "
                      f"{_seeded}: set PSGD_SEED={client.seed} in its environment, as ps-run does", 3)
    _seed_all(random.Random(f"{client.seed} {client.worker}").getrandbits(63))


def _warn(client: Client, text: str, stacklevel: int = 1) -> None:
    """In the program's output, and where the run is watched."""
    warnings.warn(text, stacklevel=stacklevel + 1)
    client.note(text)


def _compare_rates(optimizer: torch.optim.Optimizer, client: Client) -> None:
    """The optimizer on the shards makes the steps, whatever the program's says."""
    def of_program(*keys: str) -> List[float]:
        found = [next((group[key] for key in keys if key in group), 0.0)
                 for group in optimizer.param_groups]
        return sorted({float(value) for value in found})

    pairs = [("learning rate", client.learning_rate, of_program("initial_lr", "lr")),
             ("momentum", client.momentum, of_program("momentum"))]
    others = [f"{what} {', '.join(f'{value:g}' for value in values)} here and {on_shards:g} there"
              for what, on_shards, values in pairs
              if any(abs(value - on_shards) > 1e-6 * abs(on_shards) for value in values)]
    if others and client.learning_rate > 0:
        _warn(client, "the shards make the steps (optimizer of the run's config), and this program's "
                      f"optimizer only says what is trained: {', '.join(others)}; set them in the "
                      "config, or say optimizer: worker there", 4)


class Alone:
    """What join returns without a run: the program trains alone. Methods are those of Run."""

    client = None
    worker = 0

    def __init__(self) -> None:
        self._epoch = 0
        self._start = time.monotonic()

    def sampler(self, dataset: Sized) -> Sampler:
        return _Shuffled(len(dataset))

    def stream(self, samples: int) -> None:
        pass

    def part(self) -> Tuple[int, int]:
        return 0, 1

    def batches(self, loader: Iterable[Any]) -> Iterator[Any]:
        return iter(loader)

    def epochs(self, count: int = 0) -> Iterator[int]:
        if count < 1:
            raise InvalidError("no run says how many epochs there are; say run.epochs(10)")
        for epoch in range(count):
            self._epoch = epoch + 1
            yield epoch

    def log(self, **values: Any) -> None:
        check_measures(values)
        check_accuracy(_number(values.get("accuracy", 0)))
        shown = ", ".join(f"{name} {_number(value):.4f}" for name, value in values.items())
        print(f"epoch {self._epoch}: {shown}", flush=True)

    @contextlib.contextmanager
    def accumulate(self) -> Iterator[None]:
        yield

    def skip(self) -> None:
        pass

    def state(self, **parts: Any) -> None:
        pass

    def timings(self) -> Dict[str, float]:
        return {"steps": 0, "total": 0.0, "seconds": time.monotonic() - self._start}

    def leave(self, failed: bool = False, reason: str = "done") -> None:
        pass


class Run:
    """A worker's part of a run. Made by join."""

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer,
                 client: Client, statistics: Sequence[str] = (), overlap: bool = False,
                 mask_momentum: Optional[bool] = None, device_codecs: bool = True) -> None:
        has_momentum = any(group.get("momentum", 0) > 0 for group in optimizer.param_groups)
        could_mask = client.worker_optimizer and not client.local_steps and has_momentum
        self.client = client
        self._masked: Set[str] = set()  # tensors whose momentum begins anew where they were sent
        self._device_codecs = device_codecs
        #: This worker's number, from 0. ps-run's worker-N is worker N, if nobody else has that number.
        self.worker: int = client.worker
        self._model = model
        self._optimizer = optimizer
        self._tensors: List[Tensor] = []
        self._stagings = Stagings()
        self._samples_in_set = 0
        self._committed = False
        self._share: Optional[Share] = None
        self._pending = False     # the share is of the next epoch
        self._dealt_out = False   # a loader has had all samples of the epoch
        self._batches_dealt = 0   # batches of this epoch that this worker has had
        self._steps = 0           # of the share that have ended
        self._skips = 0           # of them, without an update
        self._drawn = 0           # samples of the share that a loader has had
        self._loader_batch = 0    # samples of the loader's batches; 0: not known
        self._draws_by_step = False  # it has had as many batches as there were steps
        self._had_gradient = False   # a parameter that joined
        self._without_gradient = 0   # steps before that
        self._told_gradients = False
        self._told_batches = False   # that most batches make no step
        self._epochs_done = 0
        self._logged = False       # the results of this epoch
        self._last = time.monotonic()
        self._last_overlapped = 0.0
        self._own_seconds = 0.0   # in psgd, between the program's own work
        self._start = time.monotonic()
        self._failure = ""
        self._over = False
        self._asked_to_leave = False
        self._has_weights = False  # those of the run
        self._timings: Dict[str, float] = {}
        self._state = State(model, optimizer, client.worker)
        self._within_epoch = False
        self._within_batch = False
        self._owes_state = False   # the run ends, and wants it at the end of this batch
        self._add_tensors(statistics)
        trained = self._trained()
        by_elements = [tensor for tensor in self._tensors if id(tensor.tensor) in trained and
                       tensor.tensor.requires_grad and client.sends_elements(tensor.name)]
        rows = set() if client.local_steps else self._row_wise()
        tables = [tensor.name for tensor in by_elements if tensor.sparse and id(tensor.tensor) in rows]
        if tables and client.worker == 0:
            _warn(
                client, f"{', '.join(tables)}: gradients are sparse, and the codec (compression) chooses "
                "elements of the whole tensor and leaves the others for later. That takes fewer bytes "
                "if a batch has more rows than the codec would send. To send the rows of each step as "
                "they are, put first into the run's config: compression.rules: ["
                + ", ".join(f'{{match: "{table}", push: none}}' for table in tables) + "]", 3)
        if mask_momentum and could_mask:
            self._masked = {tensor.name for tensor in self._tensors
                            if client.sends_elements(tensor.name)}
        if mask_momentum is None and could_mask and client.worker == 0 and by_elements:
            _warn(
                client, "this run's codec (compression.push) sends some elements of an update and leaves the "
                "others for later, and the optimizer has momentum: join(..., mask_momentum=True) learns "
                "more where an element waits for many steps, as with topk 1 %; mask_momentum=False keeps "
                "the momentum as it is, without this note", 3)
        if not client.worker_optimizer and client.worker == 0:
            _compare_rates(optimizer, client)
        if overlap and client.local_steps:
            raise StateError("overlap=True hides the exchange of every step, and this run exchanges "
                             "rarely (local.steps); join without it")
        self._layout = Layout(model, self._tensors)
        self._overlap = Overlap(model, self._tensors, client, self._stagings) if overlap else None
        self._attach()
        self._watch_exceptions()

    # ---- Joining ----

    def _add_tensors(self, statistics: Sequence[str]) -> None:
        trained = self._trained()
        parameters = list(members(self._model, "_parameters"))
        check_optimizer(trained - {id(parameter) for *_, parameter in parameters}, self._optimizer, {})
        for name, module, key, parameter in parameters:
            is_trained = id(parameter) in trained
            if parameter.requires_grad and not is_trained:
                raise InvalidError(
                    f"{name} requires a gradient, and is in no group of the optimizer that joins: "
                    "nobody would push it. Give one optimizer all that is trained, in several "
                    "groups if need be; of what the program changes by itself say "
                    "requires_grad_(False) before the join")
            if parameter.is_floating_point():
                self._tensors.append(Tensor(name, module, key, statistic=False))
            elif is_trained:
                raise InvalidError(f"{name} is of {parameter.dtype}, and psgd trains real floating-"
                                   "point tensors; of a complex one keep torch.view_as_real as the "
                                   "parameter")
        unknown = set(statistics)
        for name, module, key, buffer in members(self._model, "_buffers"):
            named = name in unknown
            unknown.discard(name)
            if named and not buffer.is_floating_point():
                raise InvalidError(f"{name} is of {buffer.dtype}, and a statistic is averaged: it "
                                   "must be a real floating-point tensor")
            if named or is_statistic(module, key):
                self._tensors.append(Tensor(name, module, key, statistic=True))
        if unknown:
            there = [name for name, *_ in members(self._model, "_buffers")]
            raise InvalidError(f"no buffer is called {', '.join(sorted(unknown))}; there are: "
                               f"{', '.join(there[:8]) or 'none'}")
        for tensor in self._tensors:
            values = tensor.copy_out()
            self.client.add_memory(tensor.name, tensor.shape, values.data_ptr(),
                                   statistic=tensor.statistic,
                                   decay=not tensor.statistic and len(tensor.shape) > 1,
                                   sparse=tensor.sparse)

    def _trained(self) -> Set[int]:
        """The optimizer's parameters now: add_param_group may follow the join."""
        return {id(p) for group in self._optimizer.param_groups for p in group["params"]}

    def _row_wise(self) -> Set[int]:
        """Parameters of which a step changes those rows alone that have a gradient, if it is sparse."""
        if not self.client.worker_optimizer:
            return self._trained()
        if type(self._optimizer) not in (torch.optim.SparseAdam, torch.optim.Adagrad,
                                         torch.optim.SGD):
            return set()
        return {id(p) for group in self._optimizer.param_groups if not group.get("momentum")
                for p in group["params"]}

    def _attach(self) -> None:
        """The optimizer's step does what it did, and then this worker's part of the run."""
        original = self._optimizer.step
        run = self

        def step(optimizer: Any, *arguments: Any, **named: Any) -> Any:
            had: AbstractSet[int] = frozenset()
            run._give_owed_state()
            run._bring_all()
            if run.client.worker_optimizer or run._over:
                # Some steps, and hooks after them, drop the gradients.
                had = {id(p) for group in optimizer.param_groups for p in group["params"]
                       if p.grad is not None}
                result = original(*arguments, **named)
            else:  # the shards have the optimizer
                _refuse_scaled_gradients(optimizer, named)
                closure = arguments[0] if arguments else named.get("closure")
                with torch.enable_grad():
                    result = closure() if closure is not None else None
            if not run._over:
                run._end_step(pushes=True, had=had)
            return result

        # Schedulers look for these, of PyTorch 1 and of 2, and take the method apart.
        for mark in ("_with_counter", "_wrapped_by_lr_sched"):
            if hasattr(original, mark):
                setattr(step, mark, getattr(original, mark))
        self._optimizer.step = types.MethodType(step, self._optimizer)  # type: ignore[assignment]

    def _watch_exceptions(self) -> None:
        before, watching = sys.excepthook, weakref.ref(self)

        def hook(kind: Any, error: Any, trace: Any) -> None:
            run = watching()
            if run is not None:
                run._failure = f"{kind.__name__}: {error}" if str(error) else kind.__name__
            if isinstance(error, Error):
                _leave_out_own_calls(trace)
            before(kind, error, trace)

        sys.excepthook = hook

    def _at_exit(self) -> None:
        if self.client.is_forked():
            return
        try:
            self.leave(failed=bool(self._failure),
                       reason=self._failure or "its program ended before the run did")
        except Exception as error:  # the program's own end counts
            print(f"psgd: {error}", file=sys.stderr)

    # ---- What a program calls ----

    def sampler(self, dataset: Sized) -> Sampler:
        """For DataLoader(dataset, batch_size=data.batch of the run's config, sampler=...)."""
        self._set_samples(len(dataset), "give the sampler to the training set alone")
        return _Dealt(self)

    def stream(self, samples: int) -> None:
        """In place of a sampler, for an IterableDataset: an epoch has so many samples.

        The data set gives part run.part() of itself, and run.batches goes around its loader.
        """
        self._set_samples(samples, "say the same number again")

    def _set_samples(self, samples: int, advice: str) -> None:
        if self._samples_in_set not in (0, samples):
            raise StateError(f"the run deals a data set of {self._samples_in_set} samples, and this "
                             f"one has {samples}; {advice}")
        self._samples_in_set = samples

    def part(self) -> Tuple[int, int]:
        """This worker's number among those of the present segment, and how many they are.

        They change between segments alone: without cluster.segment, between epochs.
        """
        self._check_joined()
        if self._share is None:
            raise StateError("a part of the data is dealt within the run's epochs; call run.part() "
                             "inside of `for epoch in run.epochs(n):`")
        return self._share.rank, self._share.ranks

    def batches(self, loader: Iterable[Any]) -> Iterator[Any]:
        """As many batches of a stream's loader as the run has dealt to this worker in this epoch.

        Of a loader that ends earlier the rest counts as batches without a step.
        """
        return (batch for _, batch in zip(self._dealt(), loader))

    def epochs(self, count: int = 0) -> Iterator[int]:
        """The epochs of the run, from 0. A worker that joins late begins with the present one.

        `count`: how many the run has, if this program is the first to say; 0: the config's. An
        epoch comes again if another worker died in it, with the samples that it had not finished.
        At the end this worker leaves the run, and keeps the weights.
        """
        if not self._committed:
            if self._samples_in_set == 0:
                raise StateError("the run does not know the data set; make the loader with "
                                 "run.sampler(dataset), or say run.stream(samples), before the "
                                 "epochs begin")
            self._state.save(self._travels(), within_epoch=False)  # what cannot be is said now
            travels = self._travels()
            for tensor in self._tensors:
                if self._device_codecs and id(tensor.tensor) in travels:
                    tensor.use_device(self.client)
            self.client.commit(self._samples_in_set, count)
            for tensor in self._tensors:
                tensor.find_place(self.client)
            self.client.keep_state(self._save_state)
            self._committed = True
        while self._pending or self._next_share():
            assert self._share is not None
            if 0 < count <= self._share.epoch:
                raise InvalidError(f"the run goes on in epoch {self._share.epoch + 1}, and "
                                   f"run.epochs({count}) ends before it; say more epochs")
            self._pending = False
            self._epochs_done = self._share.epoch + 1
            self._within_epoch = True
            self._logged = False
            yield self._share.epoch
            self._within_epoch = False
            self._finish_share()
        self.leave()

    def log(self, **values: Any) -> None:
        """What the program measured after this epoch: loss=, accuracy= (0 to 1), and others.

        On the dashboard, in metrics.jsonl, TensorBoard and summary.json. Of several workers the
        first counts, and of a worker the first call in an epoch.
        """
        check_measures(values)
        if self._over:
            warnings.warn("the run is over, and takes no more results: log them inside of the loop "
                          "over run.epochs", stacklevel=2)
            return
        if self._asked_to_leave:
            _warn(self.client, "this worker was asked to leave before the end of the epoch; its "
                               "results are not reported", 2)
            return
        if self._logged:
            _warn(self.client, "results of an epoch were logged twice, and the first ones stand: give "
                               "all of an epoch in one call of run.log", 2)
            return
        numbers: Dict[str, Any] = {name: _number(value) for name, value in values.items()}
        self.client.report(self._epochs_done, **numbers)
        self._logged = True

    @contextlib.contextmanager
    def accumulate(self) -> Iterator[None]:
        """Around a batch whose gradients are kept for a later step: no other worker waits for it."""
        if self._overlap is not None:
            self._overlap.keep_gradients()
        yield
        self.skip()

    def skip(self) -> None:
        """A batch makes no step, as when GradScaler skips one. Called at the end of an epoch by
        itself for all such batches."""
        self._end_step(pushes=False)

    def state(self, **parts: Any) -> None:
        """What checkpoints of the run keep of this worker: run.state(scheduler=scheduler).

        `parts`: objects with state_dict() and load_state_dict(), and dicts, which are filled again.
        `ps-run --resume` brings them back before the first step. The optimizer, random numbers, and
        the tensors of the model that the run does not have are kept without being named.
        """
        if self._committed:
            raise StateError("the epochs have begun: name what checkpoints keep before them")
        self._state.add(parts)

    def timings(self) -> Dict[str, float]:
        """Seconds: `total` is psgd's own time, waiting included, of `seconds` since the join."""
        if not self._over and not self.client.is_in_call():
            self._timings = self.client.timings()
        return {**self._timings, "total": self._own_seconds + self._overlapped(),
                "seconds": time.monotonic() - self._start}

    def leave(self, failed: bool = False, reason: str = "done") -> None:
        """Leaves the run; called by itself when the program ends."""
        if not self._over:
            if not failed:
                self.timings()
            self._over = True
            _joined.remove(self)
            if self._overlap is not None:
                self._overlap.end()
            self.client.leave(failed, reason)

    def _check_joined(self) -> None:
        if self._over:
            raise StateError("this worker has left the run: its epochs are over, or the program called "
                             "run.leave(). For another run make another optimizer, and join again")

    # ---- Steps ----

    def _overlapped(self) -> float:
        """Seconds in psgd so far, within the program's passes."""
        return self._overlap.seconds if self._overlap is not None else 0.0

    def _return(self, begun: float, overlapped: float) -> None:
        """The program goes on, after psgd had it since `begun`, when so much was overlapped."""
        self._last, self._last_overlapped = time.monotonic(), self._overlapped()
        self._own_seconds += self._last - begun - (self._last_overlapped - overlapped)

    def _end_step(self, pushes: bool, had: AbstractSet[int] = frozenset()) -> None:
        """`had`: ids of parameters that had a gradient before the optimizer's step."""
        if self._asked_to_leave:
            self._give_owed_state()
            return  # a batch that a loader had made ahead
        self._check_joined()
        if self._share is None:
            raise StateError("a step outside of the run's epochs; train inside of `for epoch in "
                             "run.epochs(n):`")
        if self._pending:
            raise StateError("a step after the last batch of the epoch; make all steps inside of "
                             "the loop over the loader")
        if self._steps >= self._share.batches:
            raise StateError(
                f"this is step {self._steps + 1} of a share of {self._share.batches} batches: the "
                f"DataLoader's batches are not those of the run, or the program makes two steps a "
                f"batch. Give the loader batch_size={self.client.batch} (data.batch of the run's "
                "config) and the run's sampler. Of two networks that train in turn (a GAN) give both "
                "to one ModuleDict and one optimizer, and make one step a batch")
        self._check_loader()
        begun, overlapped = time.monotonic(), self._overlapped()
        self._within_batch = True
        try:
            self._bring_all()
            if pushes and not self._had_gradient:
                self._look_for_gradients(had)
            if not pushes and self._overlap is not None and self._overlap.any_left():
                raise StateError("a batch without a step, and its gradients have left for the shards; "
                                 "join without overlap=True, or say `with run.accumulate():` around "
                                 "such a batch")
            exchanges = self.client.exchanges()
            if exchanges:
                self._push(pushes, had)
                self._stagings.flush()
            computed = begun - self._last - (overlapped - self._last_overlapped)
            self.client.end_step(seconds_compute=max(0.0, computed),
                                 empty=not (pushes and self._had_gradient))
            self._stagings.release()
            self._steps += 1
            self._skips += not pushes
            if exchanges:
                self._pull(begins_step=self._steps < self._share.batches)
            else:
                self.client.wait()  # for nothing; but the run may be over, or its server gone
        except RunOver:  # the loader ends, and then the epochs do
            self._asked_to_leave = True
        except _NotYet:
            self._asked_to_leave = self._owes_state = True
        finally:
            self._within_batch = False
        if self._asked_to_leave and self._overlap is not None:
            self._overlap.end()
        self._return(begun, overlapped)

    def _check_loader(self) -> None:
        """A loader without workers draws a batch a step, which shows by the second one."""
        step, batch = self._steps + 1, self._loader_batch
        self._draws_by_step = self._drawn == step * batch and (step == 1 or self._draws_by_step)
        if step == 2 and self._draws_by_step and batch > self.client.batch:
            raise StateError(self._of_large_batches())

    def _of_large_batches(self) -> str:
        return (f"the DataLoader's batches have {self._loader_batch} samples, and the run deals steps "
                f"of {self.client.batch} (data.batch of its config): give the loader "
                f"batch_size={self.client.batch}, or say data.batch: {self._loader_batch}")

    def _look_for_gradients(self, had: AbstractSet[int]) -> None:
        """The program may have put another model in the place of the one that joined."""
        assert self._share is not None
        self._had_gradient = (
            not had.isdisjoint(self._trained())
            or (self._overlap is not None and self._overlap.any_left())
            or any(tensor.tensor.grad is not None for tensor in self._tensors))
        if self._had_gradient:
            return
        self._without_gradient += 1
        last = self._steps + 1 == self._share.batches
        if not self._told_gradients and (last or self._without_gradient == _MANY_STEPS):
            self._told_gradients = True
            _warn(self.client, "no parameter of the model that joined has had a gradient in "
                               f"{self._without_gradient} steps, so nothing is trained: does the loop "
                               "use another model, which the program made after the join?", 4)

    def _push(self, update: bool, had: AbstractSet[int]) -> None:
        """Statistics change in each batch; parameters by an update of the optimizer."""
        trained = self._trained()
        self._layout.check(trained, self._optimizer)
        shards_optimize = not self.client.worker_optimizer
        row_wise = self._row_wise()
        pushed: List[Tensor] = []
        for tensor in self._tensors:
            if tensor.statistic:
                tensor.push(self.client, self._stagings)
                continue
            parameter = tensor.tensor
            if self._overlap is not None and self._overlap.has_left(tensor):
                continue
            changed = self.client.local_steps or (
                update and (parameter.grad is not None or id(parameter) in had))
            if not changed or id(parameter) not in trained:
                continue  # not this program's, or not used in this step
            if shards_optimize:
                tensor.push_gradient(self.client, self._stagings)
            elif id(parameter) in row_wise and not self.client.local_steps:
                tensor.push_changed_rows(self.client, self._stagings)
            else:
                tensor.push(self.client, self._stagings)
            pushed.append(tensor)
        masked = [tensor for tensor in pushed if tensor.name in self._masked]
        if masked:
            self._stagings.flush()  # pushes first what was still on its way from a GPU
            for tensor in masked:
                momentum = self._optimizer.state[tensor.tensor].get("momentum_buffer")
                if momentum is not None and not momentum.is_sparse:  # rows travel whole
                    tensor.forget_what_was_sent(self.client, momentum)

    def _travels(self) -> Set[int]:
        """The ids of tensors whose values the run has."""
        trained = self._trained()
        return {id(t.tensor) for t in self._tensors if t.statistic or id(t.tensor) in trained}

    def _pull(self, begins_step: bool) -> None:
        trained = self._trained()
        # What no optimizer has belongs to the program, after the first weights.
        pulled = [tensor for tensor in self._tensors
                  if tensor.statistic or not self._has_weights or id(tensor.tensor) in trained]
        if self._overlap is not None:
            pushes = trained if begins_step and not self.client.worker_optimizer else set()
            self._overlap.begin_step(pulled, pushes)
            if self._has_weights and begins_step and self._overlap.knows_modules:
                self._overlap.bring_first()
                return
        self.client.wait()
        for tensor in pulled:
            tensor.pull(self.client, self._stagings)
        if self._overlap is not None:
            self._overlap.brought_all()
        self._has_weights = True

    def _bring_all(self) -> None:
        """Of an overlapped step: the weights that no module asked for."""
        if self._overlap is not None:
            self._overlap.bring_all()

    # ---- State ----

    def _save_state(self) -> memoryview:
        if self._within_batch:  # schedulers and averages may follow the optimizer's step
            raise _NotYet
        try:
            state = self._state.save(self._travels(), self._within_epoch)
            if len(state) <= _MOST_STATE_BYTES:
                return state
            why = (f"the state of this worker has {len(state) / 1e9:.1f} GB, and checkpoints keep "
                   "2.1 GB at most")
        except InvalidError as error:  # that is not worth the hours that were trained
            why = str(error)
        _warn(self.client, f"{why}: this checkpoint has no state of this worker, and a run that goes "
                           "on from it begins with a new optimizer")
        return memoryview(b"")

    def _give_owed_state(self) -> None:
        if self._owes_state:
            self._owes_state = False
            with contextlib.suppress(RunOver):
                self.client.wait()

    # ---- Shares ----

    def _batches(self) -> int:
        """Of this epoch for this worker. Before its last share, not less than there will be while
        no worker leaves."""
        if self._share is not None and self._share.ends_epoch:
            return self._batches_dealt
        workers = max(1, self.client.workers)
        batches = self._samples_in_set // self.client.batch
        return max(1, self._batches_dealt, -(-batches // workers))

    def _next_share(self) -> bool:
        begun, overlapped = time.monotonic(), self._overlapped()
        before = self._share
        self._share = self.client.next_share()
        self._steps = self._skips = self._drawn = 0
        self._dealt_out = False
        if self._share is not None:
            if before is None or before.ends_epoch or before.epoch != self._share.epoch:
                self._batches_dealt = 0
            self._batches_dealt += self._share.batches
            first = not self._has_weights
            self._pull(begins_step=True)
            if first:
                self._load_state()
        self._return(begun, overlapped)
        return self._share is not None

    def _load_state(self) -> None:
        try:
            saved = self.client.load_state()
        except DataLossError as error:
            _warn(self.client, f"this worker's optimizer and random numbers begin anew: {error}")
            return
        if saved:
            self._state.load(saved)

    def _finish_share(self) -> None:
        """Batches that made no step are empty steps for the others."""
        if self._share is None or self._pending or self._asked_to_leave:
            return
        without = self._share.batches - self._steps
        large, one_a_batch = self._loader_batch > self.client.batch, (
            (self._steps - 1) * self._loader_batch < self._share.batches * self.client.batch)
        if without > 0 and self._dealt_out and large and one_a_batch:
            raise StateError(self._of_large_batches())
        if without > self._share.batches // 2 and self._skips == 0 and not self._told_batches:
            self._told_batches = True
            _warn(self.client, f"{without} of {self._share.batches} batches of an epoch made no step: is "
                               "the optimizer that joined the one whose step() the loop calls, is the "
                               f"DataLoader's batch_size {self.client.batch} (data.batch of the run's "
                               "config), and did the loop end early? Accumulate gradients in `with "
                               "run.accumulate():`", 3)
        while self._steps < self._share.batches and not self._asked_to_leave:
            self.skip()

    def _samples(self, loader_batch: int) -> Iterator[int]:
        """`loader_batch`: how many make a batch of the loader; 0: not known."""
        self._loader_batch = loader_batch
        for batch in self._dealt():
            for sample in batch:
                self._drawn += 1
                yield sample

    def _dealt(self) -> Iterator[List[int]]:
        """The samples of each batch of this epoch."""
        self._check_joined()
        if self._share is None:
            raise StateError("the run deals samples within its epochs; iterate over the loader "
                             "inside of `for epoch in run.epochs(n):`")
        if self._pending or (self._dealt_out and self._steps > 0):
            raise StateError("all samples of this epoch have been dealt; iterate over the loader "
                             "once an epoch, and give the test set a loader without the run's "
                             "sampler; for the accuracy on the training data make another such "
                             "loader, too")
        epoch = self._share.epoch
        self._state.restore_random_numbers()
        while True:
            for batch in self._share:
                if self._asked_to_leave:
                    self._give_owed_state()
                    return
                yield batch
            if self._share.ends_epoch or self._asked_to_leave:
                self._dealt_out = True
                return
            if self._steps < self._share.batches:
                raise StateError(
                    f"the loader asks for samples beyond the run's segment while "
                    f"{self._share.batches - self._steps} batches of it made no step yet. Leave "
                    "cluster.segment out of the run's config (then a segment is an epoch), or use "
                    "DataLoader(num_workers=0) and call run.skip() for batches without a step")
            if not self._next_share():
                self._asked_to_leave = True  # or the run ended: in the middle of the epoch
                return
            if self._share.epoch != epoch:
                self._pending = True
                return


def join(model: torch.nn.Module, optimizer: torch.optim.Optimizer, *,
         server: Optional[str] = None, name: Optional[str] = None,
         tls_dir: Optional[str] = None, log_file: Optional[str] = None,
         connect_seconds: float = 60, statistics: Sequence[str] = (),
         overlap: bool = False, mask_momentum: Optional[bool] = None,
         device_codecs: bool = True) -> Union[Run, Alone]:
    """Joins the run of ps-run's environment, or at `server`; without either, trains alone.

    Attaches to the model and the optimizer; schedulers, state_dict and closures keep working. The
    run's weights replace the model's when the epochs begin: those of the worker that came first, or
    what the run has trained by then. Parameters that require no gradient and are in no group of the
    optimizer come once, and are the program's own from then on.

    `statistics`: names of buffers, besides BatchNorm's running means and variances, that are averaged
    over the workers. Other buffers stay in this program.

    `overlap`: hides the network behind the computation. Each module's forward pass waits for its own
    weights only, and with an optimizer on the shards gradients leave during the backward pass. The
    program then must read weights by calling modules only, from optimizer.step() until the end of
    the next forward pass. With an optimizer on the shards it must not change gradients after they
    left: clipping and GradScaler are an error.

    `mask_momentum`: for SGD with momentum and a codec that sends single elements (topk). When it
    sends an element, the optimizer's momentum of that element becomes 0, as in DGC (Lin et al.
    2018): the momentum came from gradients that had waited for many steps. In other runs it changes
    nothing. Where it is not said and could help, worker 0 warns.

    `device_codecs`: GPUs encode the updates of tensors that lie there, where libpsgd_cudnn.so is
    beside libpsgd.so, so that only payloads come to the host; the worker's log says which. It takes
    memory of the GPU: for what a codec leaves out as much as the tensor in float32, and with
    `optimizer: worker`, or weight decay that is added to gradients, as much again. False: they travel
    whole, through pinned memory.
    """
    if not (server or _environment.server()):
        return Alone()
    if hasattr(optimizer, "_psgd_run"):
        raise StateError("this optimizer has joined a run before; join once, and make another optimizer "
                         "for another run")
    if any(run._model is model for run in _joined):
        raise StateError("this model has joined a run with another optimizer, and has not left it; "
                         "give one optimizer all that is trained, in several groups if need be, and "
                         "join once")
    if _joined and not server:
        raise StateError("this process has joined the run before, and has not left it; a second join "
                         "would make it another worker. Give one ModuleDict and one optimizer all "
                         "that is trained, and join once; or call run.leave() before")
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    client = Client(server, name=name, device=f"torch {torch.__version__}, {device}",
                    tls_dir=tls_dir, log_file=log_file, connect_seconds=connect_seconds)
    try:
        run = Run(model, optimizer, client, statistics, overlap, mask_momentum, device_codecs)
    except BaseException as error:
        client.leave(failed=True, reason=repr(error))
        raise
    _joined.append(run)
    optimizer._psgd_run = run  # type: ignore[attr-defined]
    _seed_worker(client)
    return run


@atexit.register
def _leave_all() -> None:
    for run in list(_joined):
        run._at_exit()
