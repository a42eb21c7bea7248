"""A worker of a run, for named arrays of any kind."""

import contextlib
import ctypes
import os
import re
import threading
import warnings
import weakref
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

from psgd import _dlpack, _environment, _library
from psgd._library import InvalidError, RunOver, StateError

_MOST_MEASURES = 16  # kMostMeasures of proto/measure_of.h
_LONGEST_NAME = 64  # kLongestName of common/names.h
_ROUNDING = 1e-6  # of a mean of accuracies; kRounding of client/api.cc
_SLICE_MS = 200  # a wait looks this often whether Ctrl-C was pressed


def _memory(array: Any, write: bool) -> Tuple[int, int, Any]:
    """Address and elements of a float32 array in C order, and what keeps it alive."""
    try:
        view = memoryview(array)
    except (BufferError, RuntimeError, TypeError, ValueError):
        if hasattr(array, "__dlpack__"):
            return _dlpack.memory(array)
        raise InvalidError(f"{type(array).__name__} is no array: it has neither a buffer nor "
                           "DLPack") from None
    # JAX says "=f", ctypes "<f".
    if view.format not in ("f", "=f", "<f") or not view.c_contiguous:
        raise InvalidError(f"an array of format {view.format!r}"
                           f"{'' if view.c_contiguous else ', not in C order'}: psgd takes float32 "
                           "in C order; convert it before")
    if view.readonly:
        if write:
            raise InvalidError("the array is read-only, and weights are to be written to it")
        copy = (ctypes.c_char * view.nbytes).from_buffer_copy(view)
        return ctypes.addressof(copy), view.nbytes // 4, copy
    block = (ctypes.c_char * view.nbytes).from_buffer(view)
    return ctypes.addressof(block), view.nbytes // 4, block


def check_measures(names: Iterable[str]) -> None:
    """Of results: these become names of metrics and keys in files (coordinator_core.cc)."""
    further = [name for name in names if name not in ("loss", "accuracy", "samples", "seconds")]
    for name in further:
        if name in ("epoch", "self"):
            raise InvalidError(f"{name!r} is no name of a result: the run counts the epochs itself; "
                               "leave it out, or call it something else")
        if len(name) > _LONGEST_NAME or not re.fullmatch("[a-z0-9_]+", name):
            raise InvalidError(f"{name!r} is no name of a result: names are of lower-case letters, "
                               f"digits and _, and have at most {_LONGEST_NAME}; call it "
                               f"{re.sub('[^a-z0-9_]', '_', name.lower())[:_LONGEST_NAME]!r}")
    if len(further) > _MOST_MEASURES:
        raise InvalidError(f"{len(further)} results besides loss, accuracy, samples and seconds, and "
                           f"at most {_MOST_MEASURES} are kept; leave out some")


def check_accuracy(value: float) -> None:
    if value != value:
        raise InvalidError("accuracy is not a number: leave it out where nothing was measured")
    if not 0 <= value <= 1 + _ROUNDING:
        raise InvalidError(f"accuracy is {value:g}: it is a fraction from 0 to 1; divide a percentage "
                           "by 100")


class Share:
    """Steps that the run has dealt to this worker, each with one batch of samples."""

    def __init__(self, client: "Client", info: _library.ShareInfo) -> None:
        self._client = client
        self.epoch: int = info.epoch
        self.batches: int = info.batches
        self.ends_epoch: bool = bool(info.ends_epoch)
        self.rank: int = info.rank    # of this worker among those of the segment
        self.ranks: int = info.ranks

    def __len__(self) -> int:
        return self.batches

    def indices(self, batch: int) -> List[int]:
        """The samples of a batch, as indices into the data set."""
        return self._client._indices(batch)

    def __iter__(self) -> Iterator[List[int]]:
        return (self.indices(batch) for batch in range(self.batches))


def warn(client: "Client", text: str, stacklevel: int = 1) -> None:
    """In the program's output, and where the run is watched."""
    warnings.warn(text, stacklevel=stacklevel + 1)
    client.note(text)


def _number_of(variable: str, text: str, most: int) -> Optional[int]:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and int(text) <= most):
        raise InvalidError(f"{variable} is {text!r} in the environment, and should be a whole number "
                           f"up to {most}; leave it out, or let ps-run start this program")
    return int(text)


def environment_seed() -> Optional[int]:
    """The run's seed, as ps-run says it; None: it does not."""
    return _number_of("PSGD_SEED", _environment.seed(), 2**64 - 1)


def _leave_forgotten(handle: int, process: int, over: threading.Event) -> None:
    """Of a client that nobody refers to any more. `over`: its run is."""
    if handle != 0 and os.getpid() == process:
        with contextlib.suppress(_library.Error):
            _library.call("psgd_leave", handle, int(not over.is_set()),
                          b"its program forgot it; a program that is done calls leave()")


class Client:
    """A worker of the run at `server` (HOST:PORT), whose config says `model: client`.

    Arrays are float32 in C order on the host, and speak the buffer protocol or DLPack: NumPy, JAX,
    PyTorch. Those of CuPy are on a GPU: push_device_memory takes their addresses, and get_memory
    writes to the host. Without `server`, that of ps-run's environment.

        with psgd.Client() as run:
            run.add("w", w)                        # first weights; those of the run win
            run.commit(samples=len(x), epochs=5)
            for share in run.shares():
                for indices in share:
                    run.pull({"w": w})             # the weights arrive in w
                    w -= 0.1 * gradient(w, x[indices])
                    run.push({"w": w})
                    run.end_step(samples=len(indices))
                run.pull({"w": w})
                if share.ends_epoch:
                    run.report(share.epoch + 1, loss=loss(w), accuracy=accuracy(w))

    Calls that wait release the GIL. Errors are exceptions of this package.
    """

    def __init__(self, server: Optional[str] = None, *, name: Optional[str] = None,
                 device: str = "cpu", tls_dir: Optional[str] = None,
                 log_file: Optional[str] = None, connect_seconds: float = 60) -> None:
        self._handle = 0
        self._process = os.getpid()
        self._left: List[threading.Event] = []  # the ends of calls that Ctrl-C left
        server = server or _environment.server()
        if not server:
            raise InvalidError("no server: say psgd.Client(\"HOST:PORT\"), or start the program "
                               "with ps-run CONFIG.yaml -- COMMAND")

        number = _number_of("PSGD_WORKER", _environment.worker(), 2**31)

        def text(value: Optional[str]) -> Optional[bytes]:
            return value.encode() if value else None

        options = _library.JoinOptions(
            server=text(server), name=text(name or _environment.name()), device=text(device),
            tls_dir=text(tls_dir or _environment.tls_dir()), log_file=text(log_file),
            connect_ms=int(connect_seconds * 1000), wanted=0 if number is None else number + 1)
        handle = ctypes.c_uint64()
        self.why_over = ""  # why next_share returned None
        over = self._over = threading.Event()
        process = self._process
        _library.call_aside("psgd_join", ctypes.byref(options), ctypes.byref(handle),
                            undo=lambda: _leave_forgotten(handle.value, process, over))
        self._handle = handle.value
        # Otherwise its lease would be kept, and others would wait for it as long as the process lives.
        self._forgotten = weakref.finalize(self, _leave_forgotten, self._handle, process, over)
        self._forgotten.atexit = False  # then the process ends, and with it the lease
        self._state: Optional[Callable[[], Any]] = None
        self._names: List[str] = []
        self._numbers: Dict[str, int] = {}
        info = self._info()
        self.worker: int = info.worker
        if number is not None and self.worker != number:
            warnings.warn(f"this is worker {self.worker}, and not {number} as PSGD_WORKER says: another "
                          f"worker has that number, its lease (cluster.lease) has not ended, or "
                          f"the number is not below cluster.workers; a resumed state is that of "
                          f"worker {self.worker}", stacklevel=2)
        self.workers: int = info.workers
        self.batch: int = info.batch
        self.seed: int = info.seed
        self.staleness: int = info.staleness
        self.run_name: str = info.name.decode()
        #: True: push weights after a step; False: the shards have the optimizer, push gradients.
        self.worker_optimizer: bool = bool(info.worker_optimizer)
        #: Steps of this worker's own between two exchanges; False: every step is an exchange.
        self.local_steps: bool = info.local_steps > 1
        #: The rate of the optimizer on the shards, as the run begins; 0: no optimizer is there.
        self.learning_rate: float = info.learning_rate
        self.momentum: float = info.momentum

    def _call(self, name: str, *arguments: Any, aside: bool = False) -> int:
        if not self._handle:
            raise StateError("this client has left the run; join again for another one")
        _library.check_process(self._process)
        if aside:
            return _library.call_aside(name, self._handle, *arguments, left=self._left)
        return _library.call(name, self._handle, *arguments)

    def _wait(self, name: str, *arguments: Any, aside: bool = False) -> None:
        while True:
            status = self._call(name, _SLICE_MS, *arguments, aside=aside)
            if status == _library.OK:
                return
            if status == _library.SAVE:
                self._save_state()

    def _save_state(self) -> None:
        assert self._state is not None
        state = memoryview(self._state()).cast("B")
        block = (bytes(state) if state.readonly
                 else (ctypes.c_char * state.nbytes).from_buffer(state))
        self._call("psgd_save_state", block, state.nbytes)

    def _info(self) -> _library.RunInfo:
        info = _library.RunInfo()
        self._call("psgd_get_run", ctypes.byref(info))
        return info

    def _number(self, name: str) -> int:
        if name not in self._numbers:
            raise InvalidError(f"no tensor is called {name!r}; there are: "
                               f"{', '.join(self._names[:8]) or 'none'}")
        return self._numbers[name]

    def _indices(self, batch: int) -> List[int]:
        indices = (ctypes.c_uint32 * self.batch)()
        self._call("psgd_batch", batch, indices, self.batch)
        return list(indices)

    @property
    def epochs(self) -> int:
        return self._info().epochs

    def add_memory(self, name: str, shape: Sequence[int], where: int, *, statistic: bool = False,
                   decay: bool = False, sparse: bool = False) -> None:
        """As add, of float32 values in C order at an address."""
        sides = (ctypes.c_int64 * max(1, len(shape)))(*shape)
        self._call("psgd_add_tensor", name.encode(), sides, len(shape),
                   int(statistic) + 2 * int(decay) + 4 * int(sparse), where)
        self._numbers[name] = len(self._names)
        self._names.append(name)

    def add(self, name: str, first: Any, *, statistic: bool = False, decay: bool = False,
            sparse: bool = False) -> None:
        """Adds a tensor with its first weights, from the front of the network to its end.

        `statistic`: a running mean or variance, averaged over the workers. `decay`: weight decay of
        an optimizer on the shards applies. `sparse`: most rows do not change in a step.
        """
        where, _, keep = _memory(first, write=False)
        shape: Any = (first if hasattr(first, "shape") else memoryview(first)).shape
        self.add_memory(name, shape, where, statistic=statistic, decay=decay, sparse=sparse)
        del keep

    def commit(self, samples: int, epochs: int = 0) -> None:
        """Registers the tensors and the size of the data set.

        The first worker brings model, first weights and epochs; 0 epochs: the config's.
        """
        self._call("psgd_commit", samples, epochs, aside=True)

    def next_share(self) -> Optional[Share]:
        """Waits for the next share and its weights; None: the run is over."""
        info = _library.ShareInfo()
        try:
            # It asks the coordinator, which may be away.
            self._wait("psgd_next_share", ctypes.byref(info), aside=True)
        except RunOver as over:
            self.why_over = str(over)
            self._over.set()
            return None
        return Share(self, info)

    def shares(self) -> Iterator[Share]:
        """The shares of the run, until it is over."""
        while True:
            share = self.next_share()
            if share is None:
                return
            yield share

    def wait(self) -> None:
        """Waits for the weights of the next step; after a share's last step: those at its end."""
        self._wait("psgd_wait")

    def wait_for(self, name: str) -> None:
        """Waits for the weights of one tensor of the next step; the others may still travel.

        wait() waits for all, and must do so before the first push.
        """
        self._wait("psgd_wait_tensor", self._number(name))

    def get_memory(self, name: str, where: int, count: int) -> None:
        self._call("psgd_get", self._number(name), where, count)

    def pull(self, into: Dict[str, Any]) -> None:
        """Waits, then writes the weights into the arrays."""
        self.wait()
        for name, array in into.items():
            where, count, keep = _memory(array, write=True)
            self.get_memory(name, where, count)
            del keep

    def push_memory(self, name: str, where: int, count: int, *, gradient: bool = False) -> None:
        self._call("psgd_push_gradient" if gradient else "psgd_push_weights", self._number(name),
                   where, count)

    def push(self, arrays: Dict[str, Any], *, gradients: bool = False) -> None:
        """Pushes the weights after this worker's step, or with `gradients` its gradients.

        Arrays that are left out did not change.
        """
        for name, array in arrays.items():
            where, count, keep = _memory(array, write=False)
            self.push_memory(name, where, count, gradient=gradients)
            del keep

    def use_device(self, name: str, device: int) -> None:
        """Before commit: the tensor lies on that CUDA device, and is to be coded there."""
        number = self._number(name)
        if _library.codes_on_devices():
            self._call("psgd_use_device", number, device)

    def place(self, name: str) -> int:
        """After commit, where the tensor is coded: ON_HOST, ON_DEVICE or ON_DEVICE_WITH_BASE."""
        number = self._number(name)
        if not _library.codes_on_devices():
            return _library.ON_HOST
        place = ctypes.c_int32()
        self._call("psgd_get_place", number, ctypes.byref(place))
        return place.value

    def push_device_memory(self, name: str, where: int, base: int, count: int, stream: int, *,
                           gradient: bool = False) -> None:
        """As push_memory, of values on the tensor's device, which stay as they are until end_step.

        `base`: what get_memory gave, on the device; 0: with ON_DEVICE it needs none. `stream`: the
        cudaStream_t that has been given all that makes the values.
        """
        self._call("psgd_push_device_gradient" if gradient else "psgd_push_device_weights",
                   self._number(name), where, base or None, count, stream or None)

    def push_rows_memory(self, name: str, rows: int, count: int, where: int, elements: int) -> None:
        self._call("psgd_push_rows", self._number(name), rows, count, where, elements)

    def push_rows(self, name: str, rows: Sequence[int], values: Any) -> None:
        """Pushes some rows: their weights after this step, or with an optimizer on the shards their
        gradients. The others did not change. `rows` ascend."""
        where, elements, keep = _memory(values, write=False)
        self.push_rows_memory(name, (ctypes.c_int64 * max(1, len(rows)))(*rows), len(rows), where,
                              elements)
        del keep

    def get_sent_memory(self, name: str, where: int, count: int) -> None:
        """Bytes: 1 of each element that the last push of the tensor sent, if its codec sends single
        elements and leaves the others for later; otherwise 0."""
        self._call("psgd_get_sent", self._number(name), where, count)

    def sends_elements(self, name: str) -> bool:
        """Whether the codec of a tensor sends single elements and leaves the others for later, as topk."""
        does = ctypes.c_int32()
        self._call("psgd_sends_elements", self._number(name), ctypes.byref(does))
        return bool(does.value)

    def exchanges(self) -> bool:
        """Whether the step under way ends with an exchange. With local.steps most do not: nothing
        is pushed in them, and the program goes on with its own weights."""
        does = ctypes.c_int32()
        self._call("psgd_exchanges", ctypes.byref(does))
        return bool(does.value)

    def end_step(self, samples: Optional[int] = None, loss_sum: float = 0, correct: int = 0, *,
                 seconds_data: float = 0, seconds_compute: float = 0, empty: bool = False) -> None:
        """The step is done and pushed; also of a step without a push. Waits for nothing but the GPUs
        that encode its pushes. `empty`: the batch made no update, and is none of the run's steps."""
        step = _library.Step(samples=self.batch if samples is None else samples, correct=correct,
                             loss_sum=loss_sum, seconds_data=seconds_data,
                             seconds_compute=seconds_compute, empty=int(empty))
        self._call("psgd_end_step", ctypes.byref(step))

    def keep_state(self, state: Callable[[], Any]) -> None:
        """Checkpoints keep what `state` returns then: bytes that only this program understands.

        It is called within next_share, wait and pull.
        """
        self._state = state
        self._call("psgd_keep_state")

    def load_state(self) -> bytes:
        """What this worker kept in the checkpoint that the run goes on from; b"": nothing.

        To be called between the first share and the end of its first step. DataLossError: the
        checkpoint has only a part, because the worker ended while it was taken.
        """
        size = ctypes.c_size_t()
        self._call("psgd_load_state", None, 0, ctypes.byref(size))
        state = ctypes.create_string_buffer(size.value)
        self._call("psgd_load_state", state, size.value, ctypes.byref(size))
        return state.raw

    def report(self, epoch: float, *, loss: float = 0, accuracy: float = 0, samples: int = 0,
               seconds: float = 0, **measures: float) -> None:
        """What was measured after so many epochs. Of several workers the first counts."""
        check_measures(measures)
        check_accuracy(accuracy)
        names = (ctypes.c_char_p * max(1, len(measures)))(*[name.encode() for name in measures])
        values = (ctypes.c_double * max(1, len(measures)))(*measures.values())
        result = _library.Result(epoch=epoch, loss=loss, accuracy=accuracy, samples=int(samples),
                                 seconds=seconds, names=names, values=values,
                                 measures=len(measures))
        self._call("psgd_report", ctypes.byref(result))

    def note(self, text: str) -> None:
        """Tells the people who watch the run what may not be meant: ps-run shows it once, and
        summary.json keeps it."""
        if _library.takes_notes():
            self._call("psgd_note", " ".join(text.split()).encode(errors="replace"))

    def timings(self) -> Dict[str, float]:
        """Seconds that psgd took since commit, by what for; steps; bytes of pushes and pulls."""
        timings = _library.Timings()
        self._call("psgd_get_timings", ctypes.byref(timings))
        return {name: getattr(timings, name) for name, *_ in _library.Timings._fields_[1:]}

    def is_forked(self) -> bool:
        """Whether this is another process than the one that joined."""
        return os.getpid() != self._process

    def is_in_call(self) -> bool:
        """Whether a call that Ctrl-C left goes on: others would wait for its end."""
        return not all(ended.is_set() for ended in self._left)

    def leave(self, failed: bool = False, reason: str = "done") -> None:
        """Leaves the run. Steps that are left are dealt again. Does nothing the second time."""
        if not self._handle or self.is_forked():
            return
        self._forgotten.detach()
        handle, self._handle = self._handle, 0
        # A worker that failed does not wait for the call's end.
        failed = failed or self.is_in_call()
        _library.call("psgd_leave", handle, int(failed), reason.encode())

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.leave(failed=error is not None, reason=repr(error) if error is not None else "done")
