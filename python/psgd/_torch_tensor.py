"""Tensors of a PyTorch model on their way between the program and the shards."""

from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

import torch
from torch.nn.modules.batchnorm import _NormBase

from psgd import _library
from psgd._client import Client
from psgd._library import Error, InvalidError
from psgd._staging import Staging


def unwrapped(model: torch.nn.Module) -> torch.nn.Module:
    """Without torch.compile and DataParallel around it, which put a prefix before all names."""
    while True:
        if isinstance(model, (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)):
            model = model.module
        elif "_orig_mod" in model._modules:
            model = model._orig_mod
        else:
            return model


def members(model: torch.nn.Module, which: str) -> Iterator[Tuple[str, torch.nn.Module, str, Any]]:
    """Name, module, name in the module and tensor of all `_parameters` or `_buffers`, each once."""
    seen: Set[int] = set()
    for prefix, module in unwrapped(model).named_modules():
        for key, tensor in getattr(module, which).items():
            if tensor is not None and id(tensor) not in seen:
                seen.add(id(tensor))
                yield f"{prefix}.{key}" if prefix else key, module, key, tensor


def is_statistic(module: torch.nn.Module, key: str) -> bool:
    """Whether a buffer is a running mean or variance of a normalization."""
    return isinstance(module, _NormBase) and key in ("running_mean", "running_var")


def is_on_gpu(tensor: torch.Tensor) -> bool:
    return tensor.device.type == "cuda"


class Stagings:
    """Of each GPU that has tensors of the model."""

    def __init__(self) -> None:
        self._of_device: Dict[torch.device, Staging] = {}
        self._kept: List[torch.Tensor] = []

    def of(self, tensor: torch.Tensor) -> Optional[Staging]:
        if not is_on_gpu(tensor):
            return None
        if tensor.device not in self._of_device:
            self._of_device[tensor.device] = Staging(tensor.device)
        return self._of_device[tensor.device]

    def flush(self) -> None:
        for staging in self._of_device.values():
            staging.flush()

    def keep(self, values: torch.Tensor) -> None:
        """Their memory is not given to another tensor before `release`."""
        self._kept.append(values)

    def release(self) -> None:
        """The step has ended: its values have been encoded."""
        self._kept.clear()


def _exactly(values: torch.Tensor, exact: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """What the step changed, not what the tensor's type rounds off. `exact`: before the step."""
    if dtype in (torch.float32, torch.float64):
        return values
    return exact + (values - exact.to(dtype).to(torch.float32))


def _raise_version(tensor: torch.Tensor) -> None:
    """By which autograd sees that a graph is of other weights."""
    if hasattr(torch.autograd.graph, "increment_version"):  # PyTorch 2
        torch.autograd.graph.increment_version(tensor)
    else:
        tensor.detach().view(-1)[:0].zero_()


class Tensor:
    """A tensor of the model, and how it travels: as float32 and contiguous, from the host's memory;
    or, where a GPU codes it, from the GPU's.
    """

    def __init__(self, name: str, module: torch.nn.Module, key: str, statistic: bool) -> None:
        self.name = name
        self.statistic = statistic
        self._module = module
        self._key = key
        self.sparse = bool(getattr(module, "sparse", False)) and not statistic
        self.shape = tuple(self.tensor.shape)
        self._place = _library.ON_HOST
        self._device = self.tensor.device  # that codes it, if one does
        # There: what the last pull brought, if the codec needs it. Not the program's tensor, which
        # the program may change between the pull and the push.
        self._base: Optional[torch.Tensor] = None

    @property
    def place(self) -> Tuple[int, str]:
        """Its module and the name there."""
        return id(self._module), self._key

    @property
    def tensor(self) -> torch.Tensor:
        """As it is now: model.to(...) changes parameters, and makes other buffers."""
        tensors = self._module._buffers if self.statistic else self._module._parameters
        tensor = tensors.get(self._key)
        if tensor is None:
            raise InvalidError(f"{self.name} is not in the model any more; the run's tensors are "
                               "fixed by the join: join after the model is complete")
        return tensor

    def use_device(self, client: Client) -> None:
        """Before the commit: its GPU is to code it."""
        if is_on_gpu(self.tensor):
            self._device = self.tensor.device
            client.use_device(self.name, self._device.index or 0)

    def find_place(self, client: Client) -> None:
        """After the commit, which says where it is coded."""
        self._place = client.place(self.name)
        if self._place != _library.ON_DEVICE_WITH_BASE:
            return
        try:
            self._base = torch.empty(self.shape, dtype=torch.float32, device=self._device)
        except torch.cuda.OutOfMemoryError as error:
            raise Error(f"{self._device} has no memory for the weights of {self.name}, which its "
                        "codec needs beside the model; say join(..., device_codecs=False), or use "
                        f"less memory of the GPU ({error})") from error

    def copy_out(self) -> torch.Tensor:
        return self.tensor.detach().to("cpu", torch.float32).contiguous()

    def _checked(self) -> Tuple[torch.Tensor, bool]:
        """The tensor, and whether psgd can read and write its memory."""
        tensor = self.tensor
        if tuple(tensor.shape) != self.shape:
            raise InvalidError(
                f"{self.name} has the shape {list(tensor.shape)}, and it joined the run with "
                f"{list(self.shape)}; shapes are fixed by then: join after the model is complete")
        return tensor, (tensor.dtype == torch.float32 and tensor.is_contiguous()
                        and tensor.device.type == "cpu")

    def _shards_values(self, client: Client) -> torch.Tensor:
        """Those of the last pull."""
        values = torch.empty(self.shape, dtype=torch.float32, device="cpu")
        client.get_memory(self.name, values.data_ptr(), values.numel())
        return values

    def pull(self, client: Client, stagings: Stagings) -> None:
        tensor, direct = self._checked()
        if self._base is not None:
            self._bring(client, stagings, self._base)
            with torch.no_grad():
                tensor.copy_(self._base)
            return
        if direct:
            client.get_memory(self.name, tensor.data_ptr(), tensor.numel())
            if tensor.requires_grad:
                _raise_version(tensor)
            return
        if is_on_gpu(tensor):
            self._bring(client, stagings, tensor)
            return
        with torch.no_grad():
            tensor.copy_(self._shards_values(client))

    def _bring(self, client: Client, stagings: Stagings, into: torch.Tensor) -> None:
        staging = stagings.of(into)
        assert staging is not None
        staging.bring(lambda host: client.get_memory(self.name, host.data_ptr(), host.numel()), into)

    def _push_from_device(self, client: Client, stagings: Stagings, values: torch.Tensor,
                          gradient: bool) -> None:
        base = self._base
        dtype = values.dtype
        values = values.to(self._device, torch.float32).contiguous()
        if base is not None and not gradient:
            values = _exactly(values, base, dtype)
        stagings.keep(values)
        staging = stagings.of(values)
        assert staging is not None
        client.push_device_memory(self.name, values.data_ptr(),
                                  0 if base is None else base.data_ptr(), values.numel(),
                                  staging.stream(), gradient=gradient)

    def push(self, client: Client, stagings: Stagings) -> None:
        tensor, direct = self._checked()
        dtype = tensor.dtype
        if self._place != _library.ON_HOST:
            self._push_from_device(client, stagings, tensor.detach(), gradient=False)
            return

        def push(values: torch.Tensor) -> None:
            if dtype not in (torch.float32, torch.float64):
                values = _exactly(values, self._shards_values(client), dtype)
            client.push_memory(self.name, values.data_ptr(), values.numel())

        staging = stagings.of(tensor)
        if direct:
            push(tensor)
        elif staging is not None:
            staging.send(tensor.detach(), push)
        else:
            push(self.copy_out())

    def push_changed_rows(self, client: Client, stagings: Stagings) -> None:
        """After a step that changed the rows alone that have a gradient."""
        tensor, direct = self._checked()
        gradient = tensor.grad
        known = gradient is not None and gradient.is_sparse and gradient._nnz() > 0
        if not (direct and known and gradient.sparse_dim() == 1):
            self.push(client, stagings)  # as where the step has dropped the gradient
            return
        rows = gradient.coalesce().indices()[0]
        self._push_rows(client, rows, tensor.detach()[rows])

    def forget_what_was_sent(self, client: Client, momentum: torch.Tensor) -> None:
        sent = torch.empty(self.shape, dtype=torch.uint8, device="cpu")
        client.get_sent_memory(self.name, sent.data_ptr(), sent.numel())
        momentum.masked_fill_(sent.to(momentum.device, torch.bool), 0)

    def _push_rows(self, client: Client, rows: torch.Tensor, values: torch.Tensor) -> None:
        rows = rows.to("cpu").contiguous()
        values = values.to("cpu", torch.float32).contiguous()
        client.push_rows_memory(self.name, rows.data_ptr(), rows.numel(), values.data_ptr(),
                                values.numel())

    def push_gradient(self, client: Client, stagings: Stagings) -> None:
        gradient: Any = self.tensor.grad
        gradient = gradient.detach()
        on_host = self._place == _library.ON_HOST
        if on_host and gradient.is_sparse and gradient.sparse_dim() == 1:
            gradient = gradient.coalesce()
            self._push_rows(client, gradient.indices()[0], gradient.values())
            return
        if gradient.is_sparse:
            gradient = gradient.to_dense()
        if not on_host:
            self._push_from_device(client, stagings, gradient, gradient=True)
            return

        def push(values: torch.Tensor) -> None:
            client.push_memory(self.name, values.data_ptr(), values.numel(), gradient=True)

        staging = stagings.of(gradient)
        if staging is not None:
            staging.send(gradient, push)
        else:
            push(gradient.to("cpu", torch.float32).contiguous())
