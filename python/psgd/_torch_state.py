"""What a PyTorch worker keeps in checkpoints of the run, beside the weights."""

import collections
import contextlib
import io
import json
import random
import sys
import warnings
from typing import Any, Callable, Dict, List, Set

import torch

from psgd._client import Client, warn
from psgd._library import DataLossError, InvalidError, RunOver
from psgd._torch_tensor import unwrapped

_OPTIMIZER, _OWN, _RANDOM = "psgd.optimizer", "psgd.own", "psgd.random"
_MOST_STATE_BYTES = 2 << 30  # kMostProgramState of common/program_state.h


def _pack(name: str, value: Any, tensors: List[torch.Tensor]) -> Any:
    """The same for JSON, with tensors apart. Functions are left out: they stay the program's."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, torch.Tensor):
        tensors.append(value.detach())
        return {"tensor": len(tensors) - 1}
    if isinstance(value, dict):
        kind = "counter" if isinstance(value, collections.Counter) else "dict"
        return {kind: [[_pack(f"a key of {name}", key, tensors),
                        _pack(f"{name}[{key!r}]", one, tensors)]
                       for key, one in value.items() if not callable(one)]}
    if isinstance(value, (list, tuple)):
        return {"tuple" if isinstance(value, tuple) else "list":
                [_pack(f"{name}[{i}]", one, tensors) for i, one in enumerate(value)]}
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        return value.item()
    raise InvalidError(f"{name} is a {type(value).__name__}, and checkpoints keep tensors, numbers, "
                       "texts, lists, tuples and dicts of a worker")


def _unpack(packed: Any, tensors: List[torch.Tensor]) -> Any:
    if not isinstance(packed, dict):
        return packed
    (kind, values), = packed.items()
    if kind == "tensor":
        return tensors[values]
    if kind in ("list", "tuple"):
        made = [_unpack(one, tensors) for one in values]
        return made if kind == "list" else tuple(made)
    pairs = {_unpack(key, tensors): _unpack(one, tensors) for key, one in values}
    return collections.Counter(pairs) if kind == "counter" else pairs


def _random_numbers() -> Dict[str, Any]:
    state = {"torch": torch.get_rng_state(), "python": random.getstate()}
    if torch.cuda.is_initialized():  # else nobody drew any on a GPU
        state["cuda"] = torch.cuda.get_rng_state_all()
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        kind, keys, *rest = numpy.random.get_state()
        state["numpy"] = (str(kind), [int(key) for key in keys], *rest)
    return state


def _set_random_numbers(state: Dict[str, Any]) -> None:
    torch.set_rng_state(state["torch"])
    random.setstate(state["python"])
    cuda = state.get("cuda", [])
    there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if len(cuda) == there > 0:
        torch.cuda.set_rng_state_all(cuda)
    elif cuda:
        warnings.warn(f"the checkpoint has the random numbers of {len(cuda)} GPUs, and this worker "
                      f"sees {there} (CUDA_VISIBLE_DEVICES): those of its GPUs begin anew")
    numpy = sys.modules.get("numpy")
    if numpy is not None and "numpy" in state:
        kind, keys, *rest = state["numpy"]
        numpy.random.set_state((kind, numpy.array(keys, dtype="uint32"), *rest))


class State:
    """Gathers and restores it. The bytes of a state come over the network: no code is loaded."""

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer,
                 worker: int) -> None:
        self._model = unwrapped(model)
        self._worker = worker
        self._parts: Dict[str, Any] = {_OPTIMIZER: optimizer}
        self._random: Dict[str, Any] = {}  # to be restored

    def add(self, parts: Dict[str, Any]) -> None:
        for name, part in parts.items():
            if not isinstance(part, dict) and not (hasattr(part, "state_dict")
                                                   and hasattr(part, "load_state_dict")):
                raise InvalidError(f"{name} is a {type(part).__name__}: checkpoints keep dicts, "
                                   "and objects with state_dict() and load_state_dict()")
        self._parts.update(parts)

    def save(self, travels: Set[int], within_epoch: bool) -> memoryview:
        """`travels`: ids of tensors whose values the run has."""
        state = {name: part if isinstance(part, dict) else part.state_dict()
                 for name, part in self._parts.items()}
        state[_OWN] = {name: value
                       for name, value in self._model.state_dict(keep_vars=True).items()
                       if id(value) not in travels}
        state[_RANDOM] = {"worker": self._worker, "within_epoch": within_epoch,
                          **_random_numbers()}
        tensors: List[torch.Tensor] = []
        packed = {name: _pack(name, part, tensors) for name, part in state.items()}
        stream = io.BytesIO()
        torch.save({"state": json.dumps(packed), "tensors": tensors}, stream)
        return stream.getbuffer()

    def load(self, saved: Any) -> None:
        read = torch.load(io.BytesIO(saved), map_location="cpu", weights_only=True)
        state = {name: _unpack(part, read["tensors"])
                 for name, part in json.loads(read["state"]).items()}
        for name, part in self._parts.items():
            if name not in state:
                continue  # the program did not have it then
            try:
                if isinstance(part, dict):
                    for key in [key for key, value in part.items() if not callable(value)]:
                        del part[key]
                    part.update(state[name])
                else:
                    part.load_state_dict(state[name])
            except Exception as error:
                raise InvalidError(
                    f"the checkpoint's state of {name.replace('psgd.', 'the ')} does not fit this "
                    f"program: {error}; resume with the program that the run began with, and make "
                    "the same groups of parameters before the epochs begin") from error
        self._model.load_state_dict(state[_OWN], strict=False)
        if state[_RANDOM]["worker"] == self._worker:  # else two workers would draw the same
            self._random = state[_RANDOM]
            if not self._random["within_epoch"]:
                self.restore_random_numbers()

    def restore_random_numbers(self) -> None:
        """Those from within an epoch when its loader begins, which has drawn a seed by then."""
        if self._random:
            _set_random_numbers(self._random)
            self._random = {}


class NotYet(Exception):
    """A checkpoint wants a state while the program is in the middle of a batch."""


class Checkpoints:
    """When they get the state, and give it back.

    `travels`: the ids of tensors whose values the run has.
    """

    def __init__(self, client: Client, state: State, travels: Callable[[], Set[int]]) -> None:
        self.state = state
        self.within_epoch = False
        self.within_batch = False
        self._client = client
        self._travels = travels
        self._owed = False  # the run ends, and wants the state at the end of this batch

    def check(self) -> None:
        """Fails if they cannot keep a part of the state."""
        self.state.save(self._travels(), within_epoch=False)

    def save(self) -> memoryview:
        if self.within_batch:  # schedulers and averages may follow the optimizer's step
            self._owed = True
            raise NotYet
        try:
            state = self.state.save(self._travels(), self.within_epoch)
            if len(state) <= _MOST_STATE_BYTES:
                return state
            why = (f"the state of this worker has {len(state) / 1e9:.1f} GB, and checkpoints keep "
                   "2.1 GB at most")
        except InvalidError as error:  # that is not worth the hours that were trained
            why = str(error)
        warn(self._client, f"{why}: this checkpoint has no state of this worker, and a run that goes "
                           "on from it begins with a new optimizer")
        return memoryview(b"")

    def give_owed(self) -> None:
        if self._owed:
            self._owed = False
            with contextlib.suppress(RunOver):
                self._client.wait()

    def load(self) -> None:
        try:
            saved = self._client.load_state()
        except DataLossError as error:
            warn(self._client, f"this worker's optimizer and random numbers begin anew: {error}")
            return
        if saved:
            self.state.load(saved)
