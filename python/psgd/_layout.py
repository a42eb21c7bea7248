"""The names of a PyTorch model's tensors, which must stay as they were at the join."""

from itertools import chain
from operator import is_
from typing import Any, Dict, Iterable, List, Sequence, Set

import torch

from psgd._library import InvalidError
from psgd._torch_tensor import Tensor, members

_ADVICE = "the run's tensors and their names are fixed by the join: join after the model is complete"


def _parts(modules: Iterable[torch.nn.Module]) -> List[Any]:
    """Names and objects, the same ones as long as nobody changes the model."""
    return list(chain.from_iterable(
        chain(module._modules, module._modules.values(), module._parameters,
              module._parameters.values()) for module in modules))


class Layout:
    """Sees what a program adds, renames, replaces or removes. `tensors`: those of the run."""

    def __init__(self, model: torch.nn.Module, tensors: Sequence[Tensor]) -> None:
        self._model = model
        self._tensors = tensors
        self._first = {tensor.name: tensor.tensor for tensor in tensors if not tensor.statistic}
        self._note()

    def _note(self) -> None:
        self._modules = list(self._model.modules())
        self._parts = _parts(self._modules)
        self._ids = self._parameters_of_run()

    def _parameters_of_run(self) -> Set[int]:
        """With parameters that have no elements: of these there is nothing to exchange."""
        empty = {id(parameter) for *_, parameter in members(self._model, "_parameters")
                 if parameter.numel() == 0}
        return empty | {id(tensor.tensor) for tensor in self._tensors if not tensor.statistic}

    def check(self, trained: Set[int], optimizer: torch.optim.Optimizer) -> None:
        """In each step. `trained`: the ids of the optimizer's parameters."""
        parts = _parts(self._modules)
        if trained <= self._ids and len(parts) == len(self._parts) and all(
                map(is_, parts, self._parts)):
            return
        self._check_names()
        ids = self._parameters_of_run()
        added = [name for name, *_, parameter in members(self._model, "_parameters")
                 if id(parameter) not in ids
                 and (parameter.requires_grad or id(parameter) in trained)]
        if added:
            raise InvalidError(f"{', '.join(added)}: added to the model after the join, so the run does "
                               f"not have it; {_ADVICE}")
        check_optimizer(trained - ids, optimizer, self._first)
        self._note()

    def _check_names(self) -> None:
        there = [*members(self._model, "_parameters"), *members(self._model, "_buffers")]
        names = {name for name, *_ in there}
        name_at = {(id(module), key): name for name, module, key, _ in there}
        name_of = {id(value): name for name, *_, value in there}
        for tensor in self._tensors:
            now = name_at.get(tensor.place) or name_of.get(id(self._first.get(tensor.name)))
            if now == tensor.name:
                continue
            if now is not None:
                what = f"is called {now} now"
            elif tensor.name in names:
                what = "is of another module than at the join"
            else:
                what = "is not in the model any more"
            raise InvalidError(f"{tensor.name} {what}; {_ADVICE}")


def check_optimizer(unknown: Set[int], optimizer: torch.optim.Optimizer,
                    first: Dict[str, torch.Tensor]) -> None:
    """Fails if there are `unknown` ids: of the optimizer's parameters that are not in the model.
    `first`: the parameters of the join."""
    if not unknown:
        return
    named = {id(parameter): name for name, parameter in first.items()}
    texts = [named.get(id(parameter), f"one of shape {list(parameter.shape)}")
             for group in optimizer.param_groups for parameter in group["params"]
             if id(parameter) in unknown]
    raise InvalidError(
        f"the optimizer has parameters that are not of this model: {', '.join(texts[:8])}"
        f"{', ...' if len(texts) > 8 else ''}; join with the model that contains all of them, and "
        "give the optimizer the parameters that the model has now")
