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
from typing import AbstractSet, Any, Dict, Iterable, Iterator, List, Optional, Sequence, Sized, Tuple, Union

import torch
from torch.utils.data import Sampler

from psgd import _environment
from psgd._client import Client, Share, check_measures, environment_seed, warn
from psgd._library import Error, RunOver, StateError
from psgd._torch_alone import Alone, number
from psgd._torch_exchange import Exchange
from psgd._torch_shares import Dealt, Shares
from psgd._torch_state import Checkpoints, NotYet, State
from psgd._torch_weights import load_weights

__all__ = ["join", "load_weights", "seed", "Run", "Alone"]


_seeded: Optional[int] = None  # by seed(): what with
_joined: List["Run"] = []  # those that have not left


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
        warn(client, f"the run's seed is {client.seed}, and this program's first weights are of seed "
                     f"{_seeded}: set PSGD_SEED={client.seed} in its environment, as ps-run does", 3)
    _seed_all(random.Random(f"{client.seed} {client.worker}").getrandbits(63))


class Run:
    """A worker's part of a run. Made by join."""

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer,
                 client: Client, statistics: Sequence[str] = (), overlap: bool = False,
                 mask_momentum: Optional[bool] = None, device_codecs: bool = True) -> None:
        self.client = client
        #: This worker's number, from 0. ps-run's worker-N is worker N, if nobody else has that number.
        self.worker: int = client.worker
        self._model = model
        self._optimizer = optimizer
        self._committed = False
        self._epochs_done = 0
        self._logged = False     # the results of this epoch
        self._start = self._last = time.monotonic()
        self._last_overlapped = 0.0
        self._own_seconds = 0.0  # in psgd, between the program's own work
        self._failure = ""
        self._timings: Dict[str, float] = {}
        self._exchange = Exchange(model, optimizer, client, statistics, overlap, mask_momentum,
                                  device_codecs)
        self._overlap = self._exchange.overlap
        self._checkpoints = Checkpoints(client, State(model, optimizer, client.worker),
                                        self._exchange.travels)
        self._shares = Shares(client, self._checkpoints, self._next_share)
        self._attach()
        self._watch_exceptions()

    # ---- Joining ----

    def _attach(self) -> None:
        """The optimizer's step does what it did, and then this worker's part of the run."""
        original = self._optimizer.step
        run = self

        def step(optimizer: Any, *arguments: Any, **named: Any) -> Any:
            had: AbstractSet[int] = frozenset()
            run._checkpoints.give_owed()
            run._exchange.bring_all()
            if run.client.worker_optimizer or run._shares.has_left:
                # Some steps, and hooks after them, drop the gradients.
                had = {id(p) for group in optimizer.param_groups for p in group["params"]
                       if p.grad is not None}
                result = original(*arguments, **named)
            else:  # the shards have the optimizer
                _refuse_scaled_gradients(optimizer, named)
                closure = arguments[0] if arguments else named.get("closure")
                with torch.enable_grad():
                    result = closure() if closure is not None else None
            if not run._shares.has_left:
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
        self._shares.set_samples(len(dataset), "give the sampler to the training set alone")
        return Dealt(self._shares)

    def stream(self, samples: int) -> None:
        """In place of a sampler, for an IterableDataset: an epoch has so many samples.

        The data set gives part run.part() of itself, and run.batches goes around its loader.
        """
        self._shares.set_samples(samples, "say the same number again")

    def part(self) -> Tuple[int, int]:
        """This worker's number among those of the present segment, and how many they are.

        They change between segments alone: without cluster.segment, between epochs.
        """
        return self._shares.part()

    def batches(self, loader: Iterable[Any]) -> Iterator[Any]:
        """As many batches of a stream's loader as the run has dealt to this worker in this epoch.

        Of a loader that ends earlier the rest counts as batches without a step.
        """
        return (batch for _, batch in zip(self._shares.batches(), loader))

    def epochs(self, count: int = 0) -> Iterator[int]:
        """The epochs of the run, from 0. A worker that joins late begins with the present one.

        `count`: how many the run has, if this program is the first to say; 0: the config's. An
        epoch comes again if another worker died in it, with the samples that it had not finished.
        At the end this worker leaves the run, and keeps the weights.
        """
        if not self._committed:
            if self._shares.samples_in_set == 0:
                raise StateError("the run does not know the data set; make the loader with "
                                 "run.sampler(dataset), or say run.stream(samples), before the "
                                 "epochs begin")
            self._checkpoints.check()
            self._exchange.commit(self._shares.samples_in_set, count)
            self.client.keep_state(self._checkpoints.save)
            self._committed = True
        while (epoch := self._shares.next_epoch(count)) is not None:
            self._epochs_done = epoch + 1
            self._checkpoints.within_epoch = True
            self._logged = False
            yield epoch
            if self._shares.has_left:  # the program called leave, perhaps within its loader's loop
                return
            self._checkpoints.within_epoch = False
            self._shares.check_finished()
            while self._shares.steps_left() > 0:  # empty ones for the others
                self.skip()
        if self._epochs_done == 0 and self.client.why_over:
            print(f"psgd: this worker trained nothing: {self.client.why_over}", file=sys.stderr)
        self.leave()

    def log(self, **values: Any) -> None:
        """What the program measured after this epoch: loss=, accuracy= (0 to 1), and others.

        On the dashboard, in metrics.jsonl, TensorBoard and summary.json. Of several workers the
        first counts, and of a worker the first call in an epoch.
        """
        check_measures(values)
        if self._shares.has_left:
            warnings.warn("the run is over, and takes no more results: log them inside of the loop "
                          "over run.epochs", stacklevel=2)
            return
        if self._shares.asked_to_leave:
            warn(self.client, "this worker was asked to leave before the end of the epoch; its "
                              "results are not reported", 2)
            return
        if self._logged:
            warn(self.client, "results of an epoch were logged twice, and the first ones stand: give "
                              "all of an epoch in one call of run.log", 2)
            return
        numbers: Dict[str, Any] = {name: number(value) for name, value in values.items()}
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
        self._checkpoints.state.add(parts)

    def timings(self) -> Dict[str, float]:
        """Seconds: `total` is psgd's own time, waiting included, of `seconds` since the join."""
        if not self._shares.has_left and not self.client.is_in_call():
            self._timings = self.client.timings()
        return {**self._timings, "total": self._own_seconds + self._overlapped(),
                "seconds": time.monotonic() - self._start}

    def leave(self, failed: bool = False, reason: str = "done") -> None:
        """Leaves the run; called by itself when the program ends."""
        if not self._shares.has_left:
            if not failed:
                self.timings()
            self._shares.has_left = True
            _joined.remove(self)
            if self._overlap is not None:
                self._overlap.end()
            self.client.leave(failed, reason)

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
        if self._shares.asked_to_leave:
            self._checkpoints.give_owed()
            return  # a batch that a loader had made ahead
        self._shares.check_step()
        begun, overlapped = time.monotonic(), self._overlapped()
        computed = begun - self._last - (overlapped - self._last_overlapped)
        left = self._shares.steps_left()
        self._checkpoints.within_batch = True
        try:
            exchanges = self._exchange.end_step(pushes, had, is_last=left == 1,
                                                seconds_compute=max(0.0, computed))
            self._shares.count_step(pushes)
            if exchanges:
                self._exchange.pull(begins_step=left > 1)
            else:
                self.client.wait()  # for nothing; but the run may be over, or its server gone
        except (RunOver, NotYet):  # the loader ends, and then the epochs do
            self._shares.asked_to_leave = True
        finally:
            self._checkpoints.within_batch = False
        if self._shares.asked_to_leave and self._overlap is not None:
            self._overlap.end()
        self._return(begun, overlapped)

    def _next_share(self) -> Optional[Share]:
        """With the weights of its first step, and the first time with the checkpoint's state."""
        begun, overlapped = time.monotonic(), self._overlapped()
        share = self.client.next_share()
        if share is not None:
            first = not self._exchange.has_weights
            self._exchange.pull(begins_step=True)
            if first:
                self._checkpoints.load()
        self._return(begun, overlapped)
        return share


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
