"""libpsgd through ctypes: the structs of include/psgd.h, and its statuses as exceptions."""

import ctypes
import ctypes.util
import os
import pathlib
import threading
from typing import Any, Callable, List, Optional

from psgd import _environment

OK, AGAIN, OVER, INVALID, STATE, REFUSED, UNAVAILABLE, DIVERGED, INTERNAL, SAVE, DATA_LOSS = range(11)
ON_HOST, ON_DEVICE, ON_DEVICE_WITH_BASE = range(3)  # psgd_place
ABI_VERSION = 1


class Error(RuntimeError):
    """A call of psgd failed. The text says what, where, the likely cause, and what to do."""


class InvalidError(Error, ValueError):
    """An argument is wrong: a name, a shape, a value."""


class StateError(Error):
    """A call out of order, such as any after leave()."""


class RefusedError(Error):
    """The run refuses this program: another model than the run's, another version, no access."""


class UnavailableError(Error, ConnectionError):
    """The server does not answer, or counts this worker out."""


class DivergedError(Error, ArithmeticError):
    """Weights or updates are not finite numbers."""


class DataLossError(Error):
    """Data were lost: of a checkpoint, or of a server."""


class RunOver(Error):
    """The run is over, or this worker was asked to leave it."""


ERRORS = {OVER: RunOver, INVALID: InvalidError, STATE: StateError, REFUSED: RefusedError,
          UNAVAILABLE: UnavailableError, DIVERGED: DivergedError, DATA_LOSS: DataLossError}


class Sized(ctypes.Structure):
    """A struct that begins with its size."""

    def __init__(self, **values: Any) -> None:
        super().__init__(size=ctypes.sizeof(type(self)), **values)


class JoinOptions(Sized):
    _fields_ = [("size", ctypes.c_size_t), ("server", ctypes.c_char_p), ("name", ctypes.c_char_p),
                ("device", ctypes.c_char_p), ("tls_dir", ctypes.c_char_p),
                ("log_file", ctypes.c_char_p), ("connect_ms", ctypes.c_int64),
                ("wanted", ctypes.c_uint32)]


class RunInfo(Sized):
    _fields_ = [("size", ctypes.c_size_t), ("worker", ctypes.c_uint32),
                ("workers", ctypes.c_uint32), ("batch", ctypes.c_uint32),
                ("epochs", ctypes.c_uint32), ("seed", ctypes.c_uint64),
                ("staleness", ctypes.c_int64), ("worker_optimizer", ctypes.c_int32),
                ("name", ctypes.c_char * 128), ("local_steps", ctypes.c_uint32),
                ("learning_rate", ctypes.c_double), ("momentum", ctypes.c_double)]


class ShareInfo(Sized):
    _fields_ = [("size", ctypes.c_size_t), ("segment", ctypes.c_uint64),
                ("epoch", ctypes.c_uint32), ("batches", ctypes.c_uint32),
                ("ends_epoch", ctypes.c_int32), ("rank", ctypes.c_uint32),
                ("ranks", ctypes.c_uint32)]


class Step(Sized):
    _fields_ = [("size", ctypes.c_size_t), ("samples", ctypes.c_uint64),
                ("correct", ctypes.c_uint64), ("loss_sum", ctypes.c_double),
                ("seconds_data", ctypes.c_double), ("seconds_compute", ctypes.c_double),
                ("empty", ctypes.c_int32)]


class Result(Sized):
    _fields_ = [("size", ctypes.c_size_t), ("epoch", ctypes.c_double), ("loss", ctypes.c_double),
                ("accuracy", ctypes.c_double), ("samples", ctypes.c_uint64),
                ("seconds", ctypes.c_double), ("names", ctypes.POINTER(ctypes.c_char_p)),
                ("values", ctypes.POINTER(ctypes.c_double)), ("measures", ctypes.c_size_t)]


class Timings(Sized):
    _fields_ = [("size", ctypes.c_size_t), ("steps", ctypes.c_uint64), ("wait", ctypes.c_double),
                ("install", ctypes.c_double), ("encode", ctypes.c_double),
                ("copy", ctypes.c_double), ("control", ctypes.c_double),
                ("bytes_pushed", ctypes.c_uint64), ("bytes_pulled", ctypes.c_uint64)]


_FLOATS = ctypes.c_void_p
_HANDLE = ctypes.c_uint64
_CALLS = {
    "psgd_join": [ctypes.POINTER(JoinOptions), ctypes.POINTER(_HANDLE)],
    "psgd_get_run": [_HANDLE, ctypes.POINTER(RunInfo)],
    "psgd_add_tensor": [_HANDLE, ctypes.c_char_p, ctypes.POINTER(ctypes.c_int64), ctypes.c_int32,
                        ctypes.c_int32, _FLOATS],
    "psgd_commit": [_HANDLE, ctypes.c_uint64, ctypes.c_uint32],
    "psgd_next_share": [_HANDLE, ctypes.c_int32, ctypes.POINTER(ShareInfo)],
    "psgd_batch": [_HANDLE, ctypes.c_uint32, ctypes.POINTER(ctypes.c_uint32), ctypes.c_size_t],
    "psgd_wait": [_HANDLE, ctypes.c_int32],
    "psgd_wait_tensor": [_HANDLE, ctypes.c_int32, ctypes.c_uint32],
    "psgd_get": [_HANDLE, ctypes.c_uint32, _FLOATS, ctypes.c_size_t],
    "psgd_push_weights": [_HANDLE, ctypes.c_uint32, _FLOATS, ctypes.c_size_t],
    "psgd_push_gradient": [_HANDLE, ctypes.c_uint32, _FLOATS, ctypes.c_size_t],
    "psgd_push_rows": [_HANDLE, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t, _FLOATS,
                       ctypes.c_size_t],
    "psgd_use_device": [_HANDLE, ctypes.c_uint32, ctypes.c_int32],
    "psgd_get_place": [_HANDLE, ctypes.c_uint32, ctypes.POINTER(ctypes.c_int32)],
    "psgd_push_device_weights": [_HANDLE, ctypes.c_uint32, _FLOATS, _FLOATS, ctypes.c_size_t,
                                 ctypes.c_void_p],
    "psgd_push_device_gradient": [_HANDLE, ctypes.c_uint32, _FLOATS, _FLOATS, ctypes.c_size_t,
                                  ctypes.c_void_p],
    "psgd_get_sent": [_HANDLE, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t],
    "psgd_sends_elements": [_HANDLE, ctypes.c_uint32, ctypes.POINTER(ctypes.c_int32)],
    "psgd_end_step": [_HANDLE, ctypes.POINTER(Step)],
    "psgd_exchanges": [_HANDLE, ctypes.POINTER(ctypes.c_int32)],
    "psgd_keep_state": [_HANDLE],
    "psgd_save_state": [_HANDLE, ctypes.c_void_p, ctypes.c_size_t],
    "psgd_load_state": [_HANDLE, ctypes.c_void_p, ctypes.c_size_t,
                        ctypes.POINTER(ctypes.c_size_t)],
    "psgd_report": [_HANDLE, ctypes.POINTER(Result)],
    "psgd_note": [_HANDLE, ctypes.c_char_p],
    "psgd_get_timings": [_HANDLE, ctypes.POINTER(Timings)],
    "psgd_leave": [_HANDLE, ctypes.c_int32, ctypes.c_char_p],
}
_OF_DEVICES = ("psgd_use_device", "psgd_get_place", "psgd_push_device_weights",
               "psgd_push_device_gradient")
_MAY_LACK = (*_OF_DEVICES, "psgd_note")  # libraries of older releases
_loaded: Optional[ctypes.CDLL] = None


def _path() -> str:
    if _environment.library():
        return _environment.library()
    package = pathlib.Path(__file__).resolve().parent
    for path in (package / "libpsgd.so",                              # of a wheel
                 package.parent.parent.parent / "libpsgd.so.1"):      # of lib/python3/dist-packages
        if path.exists():
            return str(path)
    return ctypes.util.find_library("psgd") or "libpsgd.so.1"


def load() -> ctypes.CDLL:
    """The library, loaded once. ctypes releases the GIL during its calls."""
    global _loaded
    if _loaded is None:
        path = _path()
        try:
            library = ctypes.CDLL(path)
        except OSError as error:
            raise Error(f"libpsgd is not here ({error}); install the wheel that scripts/wheel.sh "
                        "makes, or the Debian package, or start the program with ps-run, or build the library with "
                        "scripts/build.sh release psgd_library and set PSGD_LIBRARY to "
                        "build/release/bin/libpsgd.so") from error
        library.psgd_last_error.restype = ctypes.c_char_p
        library.psgd_last_error.argtypes = []
        version = library.psgd_abi_version()
        if version != ABI_VERSION:
            raise Error(f"{path} has version {version} of its interface, and this package needs "
                        f"{ABI_VERSION}; install both from one release")
        for name, arguments in _CALLS.items():
            function = getattr(library, name, None)
            if function is not None:
                function.argtypes = arguments
                function.restype = ctypes.c_int
            elif name not in _MAY_LACK:
                raise Error(f"{path} has no {name}, which this package needs: it is of an older "
                            "release; install both from one release")
        _loaded = library
    return _loaded


def takes_notes() -> bool:
    return hasattr(load(), "psgd_note")


def codes_on_devices() -> bool:
    """Whether the library can: one of an older release encodes on the host."""
    return all(hasattr(load(), name) for name in _OF_DEVICES)


def call(name: str, *arguments: Any) -> int:
    """Calls a function; returns OK, AGAIN or SAVE, or raises what its status means."""
    library = load()
    status = getattr(library, name)(*arguments)
    if status in (OK, AGAIN, SAVE):
        return status
    text = (library.psgd_last_error() or b"").decode("utf-8", "replace")
    raise ERRORS.get(status, Error)(text)


def call_aside(name: str, *arguments: Any, undo: Optional[Callable[[], None]] = None,
               left: Optional[List[threading.Event]] = None) -> int:
    """As call, of what may wait long. Ctrl-C ends the wait; the call goes on in a thread of its own,
    and `undo` follows it. `left` gets what says that it has ended."""
    if threading.current_thread() is not threading.main_thread():
        return call(name, *arguments)
    results: List[Any] = []
    ended = threading.Event()  # a thread whose join Ctrl-C ends may count as ended

    def work() -> None:
        try:
            results.append(call(name, *arguments))
        except BaseException as error:
            results.append(error)
        ended.set()

    threading.Thread(target=work, daemon=True).start()
    try:
        ended.wait()
    except BaseException:
        if left is not None:
            left.append(ended)
        if undo is not None:
            end = undo
            threading.Thread(target=lambda: (ended.wait(), end()), daemon=True).start()
        raise
    if isinstance(results[0], BaseException):
        raise results[0]
    return results[0]


def check_process(process: int) -> None:
    """Fails in another process than `process`: a client does not survive fork()."""
    if os.getpid() != process:
        raise StateError("this process was forked from the one that joined the run; use the run "
                         "in that process alone, and only indices or arrays here")
