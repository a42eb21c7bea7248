"""The tensors of a PyTorch model that a run trains, from a step of its worker to the next."""

from typing import AbstractSet, List, Optional, Sequence, Set

import torch

from psgd._client import Client, warn
from psgd._layout import Layout, check_optimizer
from psgd._library import InvalidError, StateError
from psgd._overlap import Overlap
from psgd._torch_tensor import Stagings, Tensor, is_statistic, members

_MANY_STEPS = 10  # without a gradient: nothing is trained


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
        warn(client, "the shards make the steps (optimizer of the run's config), and this program's "
                     f"optimizer only says what is trained: {', '.join(others)}; set them in the "
                     "config, or say optimizer: worker there", 5)


class Exchange:
    """Brings the tensors' values from the shards to the model, and updates to the shards.

    `overlap`, `mask_momentum` and `device_codecs`: those of psgd.torch.join.
    """

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, client: Client,
                 statistics: Sequence[str], overlap: bool, mask_momentum: Optional[bool],
                 device_codecs: bool) -> None:
        self._model = model
        self._optimizer = optimizer
        self._client = client
        self._device_codecs = device_codecs
        self._tensors: List[Tensor] = []
        self._stagings = Stagings()
        self._masked: Set[str] = set()  # tensors whose momentum begins anew where they were sent
        self.has_weights = False     # those of the run
        self._had_gradient = False   # a parameter that joined
        self._without_gradient = 0   # steps before that
        self._told_gradients = False
        self._add_tensors(statistics)
        self._look_at_codecs(mask_momentum)
        if not client.worker_optimizer and client.worker == 0:
            _compare_rates(optimizer, client)
        if overlap and client.local_steps:
            raise StateError("overlap=True hides the exchange of every step, and this run exchanges "
                             "rarely (local.steps); join without it")
        self._layout = Layout(model, self._tensors)
        self.overlap = Overlap(model, self._tensors, client, self._stagings) if overlap else None

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
            if parameter.numel() == 0:
                continue  # there is nothing to exchange
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
            self._client.add_memory(tensor.name, tensor.shape, values.data_ptr(),
                                    statistic=tensor.statistic,
                                    decay=not tensor.statistic and len(tensor.shape) > 1,
                                    sparse=tensor.sparse)

    def _look_at_codecs(self, mask_momentum: Optional[bool]) -> None:
        client = self._client
        has_momentum = any(group.get("momentum", 0) > 0 for group in self._optimizer.param_groups)
        could_mask = client.worker_optimizer and not client.local_steps and has_momentum
        trained = self._trained()
        by_elements = [tensor for tensor in self._tensors if id(tensor.tensor) in trained and
                       tensor.tensor.requires_grad and client.sends_elements(tensor.name)]
        rows = set() if client.local_steps else self._row_wise()
        tables = [tensor.name for tensor in by_elements if tensor.sparse and id(tensor.tensor) in rows]
        if tables and client.worker == 0:
            warn(
                client, f"{', '.join(tables)}: gradients are sparse, and the codec (compression) chooses "
                "elements of the whole tensor and leaves the others for later. That takes fewer bytes "
                "if a batch has more rows than the codec would send. To send the rows of each step as "
                "they are, put first into the run's config: compression.rules: ["
                + ", ".join(f'{{match: "{table}", push: none}}' for table in tables) + "]", 5)
        if mask_momentum and could_mask:
            self._masked = {tensor.name for tensor in self._tensors
                            if client.sends_elements(tensor.name)}
        if mask_momentum is None and could_mask and client.worker == 0 and by_elements:
            warn(
                client, "this run's codec (compression.push) sends some elements of an update and leaves the "
                "others for later, and the optimizer has momentum: join(..., mask_momentum=True) learns "
                "more where an element waits for many steps, as with topk 1 %; mask_momentum=False keeps "
                "the momentum as it is, without this note", 5)

    def commit(self, samples: int, epochs: int) -> None:
        """Registers the tensors, and finds out where they are coded."""
        travels = self.travels()
        for tensor in self._tensors:
            if self._device_codecs and id(tensor.tensor) in travels:
                tensor.use_device(self._client)
        self._client.commit(samples, epochs)
        for tensor in self._tensors:
            tensor.find_place(self._client)

    # ---- Steps ----

    def pull(self, begins_step: bool) -> None:
        trained = self._trained()
        # What no optimizer has belongs to the program, after the first weights.
        pulled = [tensor for tensor in self._tensors
                  if tensor.statistic or not self.has_weights or id(tensor.tensor) in trained]
        if self.overlap is not None:
            pushes = trained if begins_step and not self._client.worker_optimizer else set()
            self.overlap.begin_step(pulled, pushes)
            if self.has_weights and begins_step and self.overlap.knows_modules:
                self.overlap.bring_first()
                return
        self._client.wait()
        for tensor in pulled:
            tensor.pull(self._client, self._stagings)
        if self.overlap is not None:
            self.overlap.brought_all()
        self.has_weights = True

    def bring_all(self) -> None:
        """Of an overlapped step: the weights that no module asked for."""
        if self.overlap is not None:
            self.overlap.bring_all()

    def end_step(self, updates: bool, had: AbstractSet[int], is_last: bool,
                 seconds_compute: float) -> bool:
        """Pushes what the batch changed; returns whether weights are to be pulled.

        `had`: ids of parameters that had a gradient before the optimizer's step. `is_last`: of the
        share.
        """
        self.bring_all()
        if updates and not self._had_gradient:
            self._look_for_gradients(had, is_last)
        if not updates and self.overlap is not None and self.overlap.any_left():
            raise StateError("a batch without a step, and its gradients have left for the shards; "
                             "join without overlap=True, or say `with run.accumulate():` around "
                             "such a batch")
        exchanges = self._client.exchanges()
        if exchanges:
            self._push(updates, had)
            self._stagings.flush()
        self._client.end_step(seconds_compute=seconds_compute,
                              empty=not (updates and self._had_gradient))
        self._stagings.release()
        return exchanges

    def _look_for_gradients(self, had: AbstractSet[int], is_last: bool) -> None:
        """The program may have put another model in the place of the one that joined."""
        self._had_gradient = (
            not had.isdisjoint(self._trained())
            or (self.overlap is not None and self.overlap.any_left())
            or any(tensor.tensor.grad is not None for tensor in self._tensors))
        if self._had_gradient:
            return
        self._without_gradient += 1
        if not self._told_gradients and (is_last or self._without_gradient == _MANY_STEPS):
            self._told_gradients = True
            warn(self._client, "no parameter of the model that joined has had a gradient in "
                               f"{self._without_gradient} steps, so nothing is trained: does the loop "
                               "use another model, which the program made after the join?", 5)

    def _push(self, update: bool, had: AbstractSet[int]) -> None:
        """Statistics change in each batch; parameters by an update of the optimizer."""
        trained = self._trained()
        self._layout.check(trained, self._optimizer)
        shards_optimize = not self._client.worker_optimizer
        row_wise = self._row_wise()
        pushed: List[Tensor] = []
        for tensor in self._tensors:
            if tensor.statistic:
                tensor.push(self._client, self._stagings)
                continue
            parameter = tensor.tensor
            if self.overlap is not None and self.overlap.has_left(tensor):
                continue
            changed = self._client.local_steps or (
                update and (parameter.grad is not None or id(parameter) in had))
            if not changed or id(parameter) not in trained:
                continue  # not this program's, or not used in this step
            if shards_optimize:
                tensor.push_gradient(self._client, self._stagings)
            elif id(parameter) in row_wise and not self._client.local_steps:
                tensor.push_changed_rows(self._client, self._stagings)
            else:
                tensor.push(self._client, self._stagings)
            pushed.append(tensor)
        masked = [tensor for tensor in pushed if tensor.name in self._masked]
        if masked:
            self._stagings.flush()  # pushes first what was still on its way from a GPU
            for tensor in masked:
                momentum = self._optimizer.state[tensor.tensor].get("momentum_buffer")
                if momentum is not None and not momentum.is_sparse:  # rows travel whole
                    tensor.forget_what_was_sent(self._client, momentum)

    # ---- Which tensors ----

    def _trained(self) -> Set[int]:
        """The optimizer's parameters now: add_param_group may follow the join."""
        return {id(p) for group in self._optimizer.param_groups for p in group["params"]}

    def _row_wise(self) -> Set[int]:
        """Parameters of which a step changes those rows alone that have a gradient, if it is sparse."""
        if not self._client.worker_optimizer:
            return self._trained()
        if type(self._optimizer) not in (torch.optim.SparseAdam, torch.optim.Adagrad,
                                         torch.optim.SGD):
            return set()
        return {id(p) for group in self._optimizer.param_groups if not group.get("momentum")
                for p in group["params"]}

    def travels(self) -> Set[int]:
        """The ids of tensors whose values the run has."""
        trained = self._trained()
        return {id(t.tensor) for t in self._tensors if t.statistic or id(t.tensor) in trained}
