"""Tensors of a PyTorch model on their way between the program and the shards."""

from typing import Any, Dict, Iterator, Optional, Set, Tuple

import torch

from psgd._client import Client
from psgd._library import InvalidError
from psgd._staging import Staging


def members(model: torch.nn.Module, which: str) -> Iterator[Tuple[str, torch.nn.Module, str, Any]]:
    """Name, module, name in the module and tensor of all `_parameters` or `_buffers`, each once."""
    seen: Set[int] = set()
    for prefix, module in model.named_modules():
        for key, tensor in getattr(module, which).items():
            if tensor is not None and id(tensor) not in seen:
                seen.add(id(tensor))
                yield f"{prefix}.{key}" if prefix else key, module, key, tensor


class Stagings:
    """Of each GPU that has tensors of the model."""

    def __init__(self) -> None:
        self._of_device: Dict[torch.device, Staging] = {}

    def of(self, tensor: torch.Tensor) -> Optional[Staging]:
        if tensor.device.type != "cuda":
            return None
        if tensor.device not in self._of_device:
            self._of_device[tensor.device] = Staging(tensor.device)
        return self._of_device[tensor.device]

    def flush(self) -> None:
        for staging in self._of_device.values():
            staging.flush()


class Tensor:
    """A tensor of the model, and how it travels: as float32, contiguous, on the host."""

    def __init__(self, name: str, module: torch.nn.Module, key: str, statistic: bool) -> None:
        self.name = name
        self.statistic = statistic
        self._module = module
        self._key = key
        self.sparse = bool(getattr(module, "sparse", False)) and not statistic
        self.shape = tuple(self.tensor.shape)

    @property
    def tensor(self) -> torch.Tensor:
        """As it is now: model.to(...) changes parameters, and makes other buffers."""
        tensors = self._module._buffers if self.statistic else self._module._parameters
        tensor = tensors.get(self._key)
        if tensor is None:
            raise InvalidError(f"{self.name} is not in the model any more; the run's tensors are "
                               "fixed by the join: join after the model is complete")
        return tensor

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
        if direct:
            client.get_memory(self.name, tensor.data_ptr(), tensor.numel())
            return
        staging = stagings.of(tensor)
        if staging is not None:
            staging.bring(lambda host: client.get_memory(self.name, host.data_ptr(), host.numel()),
                          tensor)
            return
        with torch.no_grad():
            tensor.copy_(self._shards_values(client))

    def push(self, client: Client, stagings: Stagings) -> None:
        tensor, direct = self._checked()
        dtype = tensor.dtype

        def push(values: torch.Tensor) -> None:
            if dtype not in (torch.float32, torch.float64):
                # What the step changed, not what the tensor's type rounds off.
                exact = self._shards_values(client)
                values = exact + (values - exact.to(dtype).to(torch.float32))
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
        if not (direct and gradient.is_sparse and gradient.sparse_dim() == 1):
            self.push(client, stagings)
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
        if gradient.is_sparse and gradient.sparse_dim() == 1:
            gradient = gradient.coalesce()
            self._push_rows(client, gradient.indices()[0], gradient.values())
            return
        if gradient.is_sparse:
            gradient = gradient.to_dense()

        def push(values: torch.Tensor) -> None:
            client.push_memory(self.name, values.data_ptr(), values.numel(), gradient=True)

        staging = stagings.of(gradient)
        if staging is not None:
            staging.send(gradient, push)
        else:
            push(gradient.to("cpu", torch.float32).contiguous())
