"""The memory of an array that speaks DLPack (https://dmlc.github.io/dlpack), through ctypes."""

import ctypes
from typing import Any, Tuple

from psgd._library import InvalidError

_CPU, _CUDA_HOST = 1, 3  # DLDeviceType
_FLOAT = 2               # DLDataTypeCode
_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype = ctypes.c_void_p
_get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


class _Tensor(ctypes.Structure):  # DLTensor
    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("dimensions", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("offset", ctypes.c_uint64)]


def _is_in_c_order(tensor: _Tensor) -> bool:
    stride = 1
    for i in reversed(range(tensor.dimensions)):
        if tensor.strides and tensor.shape[i] != 1 and tensor.strides[i] != stride:
            return False
        stride *= tensor.shape[i]
    return True


def memory(array: Any) -> Tuple[int, int, Any]:
    """Address and elements of a float32 array in C order on the host, and what keeps it alive."""
    kind = type(array).__name__
    try:
        device, _ = array.__dlpack_device__()
        capsule = array.__dlpack__() if device in (_CPU, _CUDA_HOST) else None
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise InvalidError(f"this {kind} does not give its memory through DLPack ({error}); give psgd a "
                           "float32 array in C order on the host, of a PyTorch tensor "
                           "tensor.detach()") from error
    if capsule is None:
        raise InvalidError(f"this {kind} is on a device (DLPack's type {device}), and psgd takes arrays "
                           "on the host; copy it there, or push it with Client.push_device_memory, "
                           "which takes addresses on CUDA devices")
    tensor = _Tensor.from_address(_get_pointer(capsule, b"dltensor"))
    if (tensor.code, tensor.bits, tensor.lanes) != (_FLOAT, 32, 1) or not _is_in_c_order(tensor):
        raise InvalidError(f"this {kind} is not float32 in C order, which psgd takes; convert it before")
    elements = 1
    for i in range(tensor.dimensions):
        elements *= tensor.shape[i]
    return (tensor.data or 0) + tensor.offset, elements, capsule
