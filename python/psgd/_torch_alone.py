"""What psgd.torch.join returns without a run."""

import contextlib
import time
from typing import Any, Dict, Iterable, Iterator, Sized, Tuple

import torch
from torch.utils.data import Sampler

from psgd._client import check_accuracy, check_measures
from psgd._library import InvalidError


def number(value: Any) -> float:
    """Of a loss as well, whose graph a conversion would warn about."""
    return float(value.detach() if isinstance(value, torch.Tensor) else value)


class _Shuffled(Sampler):
    """All samples of whole batches, in another order in each epoch: those that a run deals."""

    def __init__(self, samples: int) -> None:
        self._samples = samples

    def __iter__(self) -> Iterator[int]:
        return iter(torch.randperm(self._samples).tolist())

    def __len__(self) -> int:
        return self._samples


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
        check_accuracy(number(values.get("accuracy", 0)))
        shown = ", ".join(f"{name} {number(value):.4f}" for name, value in values.items())
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
