"""Of psgd.torch.join(overlap=True): weights come while the forward pass computes, and gradients leave
while the backward pass does.
"""

import time
import weakref
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Set, Tuple

import torch

from psgd._client import Client
from psgd._library import RunOver, StateError


def _mark(gradient: torch.Tensor) -> Tuple[int, torch.Tensor]:
    """Tells whether it has changed: by its version, and by its sum, since GradScaler's changes, and
    those of .data, raise no version."""
    values = gradient.detach()
    values = values._values() if values.is_sparse else values
    return gradient._version, values.sum(dtype=torch.promote_types(values.dtype, torch.float32))


def _unchanged(gradient: torch.Tensor, mark: Tuple[int, torch.Tensor]) -> bool:
    version, total = _mark(gradient)
    both_nan = bool(total.isnan()) and bool(mark[1].isnan())  # the run ends elsewhere: diverged
    return version == mark[0] and (both_nan or bool(total == mark[1]))


class _BeforeForward:
    """The hook of a module. A copy of the module, and what is saved of it, has no run."""

    def __init__(self, overlap: Optional["Overlap"] = None) -> None:
        self._overlap = weakref.ref(overlap) if overlap is not None else None

    def __call__(self, module: torch.nn.Module, _: Any) -> None:
        overlap = self._overlap() if self._overlap is not None else None
        if overlap is not None:
            overlap.before_forward(module)

    def __deepcopy__(self, memo: Any) -> "_BeforeForward":
        return _BeforeForward()

    def __reduce__(self) -> Any:
        return _BeforeForward, ()


class Overlap:
    """Which tensors of a step are still to come, and which gradients have left.

    `tensors`: those of psgd.torch. The first step has all its weights before it begins: it shows
    which modules are called. From then on each module waits for its own weights.
    """

    def __init__(self, model: torch.nn.Module, tensors: Sequence[Any], client: Client,
                 stagings: Any) -> None:
        self.seconds = 0.0  # in psgd, within passes
        self.knows_modules = False
        self._model = model
        self._tensors = tensors
        self._client = client
        self._stagings = stagings
        self._called: Set[torch.nn.Module] = set()
        self._of_module: Dict[torch.nn.Module, Set[str]] = {}
        self._of_nobody: Set[str] = set()  # no module that is called has them
        self._to_come: Dict[str, Any] = {}
        self._waits = False  # to be told that all weights are here
        self._may_push: Set[int] = set()  # ids of parameters
        # By name, the gradient that left and its mark then; None: it left twice.
        self._left: Dict[str, Optional[Tuple[torch.Tensor, Tuple[int, torch.Tensor]]]] = {}
        self._nodes: List[Any] = []  # autograd's, which live as long as somebody has them
        for module in model.modules():
            handle = module.register_forward_pre_hook(_BeforeForward(self))
            # Before hooks that make weights of weights, as weight_norm's.
            module._forward_pre_hooks.move_to_end(handle.id, last=False)
        if not client.worker_optimizer:
            for tensor in tensors:
                if not tensor.statistic and tensor.tensor.requires_grad:
                    self._watch_gradient(tensor)

    # ---- Weights ----

    def begin_step(self, pulled: Iterable[Any], may_push: Set[int]) -> None:
        """Its weights are to come. `may_push`: ids of parameters whose gradients may leave."""
        self._to_come = {tensor.name: tensor for tensor in pulled}
        self._waits = True
        self._may_push = may_push
        self._left.clear()

    def bring_first(self) -> None:
        """At the end of a step, which hears whether the run ends."""
        first = next(iter(self._to_come), None)
        if first is not None:
            self._bring([first], lambda: self._client.wait_for(first))

    def brought_all(self) -> None:
        self._to_come.clear()
        self._waits = False

    def end(self) -> None:
        """No more weights come, and no gradients leave."""
        self.brought_all()
        self._may_push = set()

    def bring_all(self) -> None:
        """Before the program's optimizer or a push: weights that no module asked for."""
        if not self.knows_modules and self._called:
            self._learn(self._model, None)
            self.knows_modules = True
        if self._waits:
            self._waits = False
            try:
                self._bring(list(self._to_come), self._client.wait)
            except RunOver:  # the step's end sees it, too
                self._to_come.clear()

    def _bring(self, names: Iterable[str], wait: Callable[[], None]) -> None:
        begun = time.monotonic()
        try:
            wait()
            for name in names:
                self._to_come[name].pull(self._client, self._stagings)
                del self._to_come[name]
        finally:
            self.seconds += time.monotonic() - begun

    def before_forward(self, module: torch.nn.Module) -> None:
        if getattr(module, "_is_replica", False):  # of DataParallel, with copies of the weights
            if self._to_come and self.knows_modules:
                raise StateError("overlap=True does not see that DataParallel copies the weights; "
                                 "join the DataParallel model, or join without overlap=True")
            return
        if not self.knows_modules:
            self._called.add(module)
            return
        if not self._to_come:
            return
        own = self._of_module.get(module, set()) | self._of_nobody
        try:
            for name in own & self._to_come.keys():
                self._bring([name], lambda: self._client.wait_for(name))
        except RunOver:  # the step's end sees it, too
            self._to_come.clear()

    def _learn(self, module: torch.nn.Module, caller: Optional[torch.nn.Module]) -> None:
        """What a module has that is never called comes with the nearest module around it that is."""
        if module in self._called:
            caller = module
        own = {id(tensor) for tensor in (*module._parameters.values(), *module._buffers.values())}
        names = {tensor.name for tensor in self._tensors if id(tensor.tensor) in own}
        if caller is None:
            self._of_nobody |= names
        else:
            self._of_module.setdefault(caller, set()).update(names)
        for child in module.children():
            self._learn(child, caller)

    # ---- Gradients ----

    def keep_gradients(self) -> None:
        """Those of this batch are part of a later step."""
        self._may_push = set()

    def has_left(self, tensor: Any) -> bool:
        """Whether the gradient has left in this step. Fails if it changed afterwards."""
        if tensor.name not in self._left:
            return False
        left = self._left[tensor.name]
        if left is not None and left[0] is tensor.tensor.grad and _unchanged(*left):
            return True
        raise StateError(
            f"the gradient of {tensor.name} changed after it left for the shards: by clipping, by a "
            "GradScaler, or by a second backward pass in one step. Join without overlap=True, or "
            "say `with run.accumulate():` around batches that make no step")

    def any_left(self) -> bool:
        return bool(self._left)

    def _watch_gradient(self, tensor: Any) -> None:
        parameter = tensor.tensor
        # PyTorch's hooks hide from Python's garbage collector what they hold.
        watching, watched = weakref.ref(self), weakref.ref(tensor)

        def leave(*_: Any) -> None:
            overlap = watching()
            if overlap is not None:
                overlap._leave(watched())

        if hasattr(parameter, "register_post_accumulate_grad_hook"):
            parameter.register_post_accumulate_grad_hook(leave)
            return
        # PyTorch 1 has no such hook; the node that accumulates the gradient has one.
        node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
        node.register_hook(leave)
        self._nodes.append(node)

    def _leave(self, tensor: Any) -> None:
        parameter = tensor.tensor
        if id(parameter) not in self._may_push:
            return
        if tensor.name in self._left:
            self._left[tensor.name] = None
            return
        try:
            self.bring_all()
            begun = time.monotonic()
            tensor.push_gradient(self._client, self._stagings)
            self._left[tensor.name] = (parameter.grad, _mark(parameter.grad))
            self.seconds += time.monotonic() - begun
        except RunOver:  # the step's end sees it, too
            self._may_push = set()
