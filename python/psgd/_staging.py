"""Between a GPU's tensors and psgd: copies run on a stream of their own, to and from pinned memory,
while the program's stream computes.
"""

from collections import deque
from typing import Any, Callable, Deque, Tuple

import torch

MOST_BYTES = 256 << 20  # on their way from the GPU at a time


class Staging:
    """Not thread-safe: belongs to the thread that trains, or to autograd's while that waits."""

    def __init__(self, device: torch.device, cuda: Any = torch.cuda) -> None:
        self._device = device
        self._cuda = cuda
        self._stream = cuda.Stream(device)
        self._bytes = 0
        self._leaving: Deque[Tuple[Any, torch.Tensor, Callable[[torch.Tensor], None]]] = deque()

    def send(self, values: torch.Tensor, push: Callable[[torch.Tensor], None]) -> None:
        """Begins to copy the values, as the program's stream has made them by now, and calls `push`
        with the copy: in this call, in a later one, or in flush, in the order of the calls.
        """
        host = self._pinned(values)
        event = self._cuda.Event()
        self._stream.wait_stream(self._cuda.current_stream(self._device))
        with self._cuda.stream(self._stream):
            host.copy_(values, non_blocking=True)
            event.record(self._stream)
        values.record_stream(self._stream)  # its memory is not given to another tensor before
        self._leaving.append((event, host, push))
        self._bytes += host.numel() * host.element_size()
        while self._leaving and (self._bytes > MOST_BYTES or self._leaving[0][0].query()):
            self._push_first()

    def flush(self) -> None:
        """Pushes all that was sent."""
        while self._leaving:
            self._push_first()

    def bring(self, get: Callable[[torch.Tensor], None], into: torch.Tensor) -> None:
        """Fills a tensor of the GPU with what `get` writes, before the program's stream goes on."""
        host = self._pinned(into)
        get(host)
        current = self._cuda.current_stream(self._device)
        self._stream.wait_stream(current)  # which may still read the tensor
        with torch.no_grad(), self._cuda.stream(self._stream):
            into.copy_(host, non_blocking=True)
        into.record_stream(self._stream)
        current.wait_stream(self._stream)

    def stream(self) -> int:
        """The program's stream, as CUDA knows it."""
        return self._cuda.current_stream(self._device).cuda_stream

    def _pinned(self, like: torch.Tensor) -> torch.Tensor:
        # PyTorch keeps pinned memory for later, and gives it out again once its copies are done.
        return torch.empty(like.shape, dtype=torch.float32, device="cpu",
                           pin_memory=self._device.type == "cuda")

    def _push_first(self) -> None:
        event, host, push = self._leaving.popleft()
        event.synchronize()
        self._bytes -= host.numel() * host.element_size()
        push(host)
