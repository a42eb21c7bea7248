"""The weights of a run, from its file into a PyTorch model."""

import json
import os
import pathlib
from typing import Dict, List, Set, Union

import torch

from psgd._library import InvalidError
from psgd._torch_tensor import is_statistic, members


def _read(path: Union[str, "os.PathLike[str]"]) -> Dict[str, torch.Tensor]:
    """Tensors of a .safetensors file by name; data/safetensors_header.h has its layout."""
    data = bytearray(pathlib.Path(path).read_bytes())
    try:
        start = 8 + int.from_bytes(data[:8], "little")
        entries = json.loads(data[8:start])
        entries.pop("__metadata__", None)
        values = torch.frombuffer(data, dtype=torch.float32, offset=start)
        tensors = {}
        for name, entry in entries.items():
            if entry["dtype"] != "F32":
                raise ValueError(f"{name} is of {entry['dtype']}, not F32")
            begin, end = entry["data_offsets"]
            tensors[name] = values[begin // 4:end // 4].reshape(entry["shape"])
        return tensors
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise InvalidError(
            f"{path} is not a whole .safetensors file of psgd ({error}); give weights.safetensors of "
            "a run directory, or a file of `ps-ctl export --out FILE.safetensors`") from error


def _without_wrappers(weights: Dict[str, torch.Tensor], known: Set[str]) -> Dict[str, torch.Tensor]:
    """Earlier versions named tensors as torch.compile and DataParallel do."""
    prefixes = ("_orig_mod.", "module.")
    while weights and not known & weights.keys() and all(n.startswith(prefixes) for n in weights):
        weights = {name.split(".", 1)[1]: value for name, value in weights.items()}
    return weights


def load_weights(model: torch.nn.Module, path: Union[str, "os.PathLike[str]"]) -> None:
    """Fills the model with the weights of a file: a run's weights.safetensors, or one of ps-ctl export.

        psgd.torch.load_weights(model, "runs/RUN/weights.safetensors")

    Tied weights are in the file once, and all modules that share them get them. Buffers that stay
    in a program (masks, counters) are not in the file, and keep their values.
    """
    weights = _without_wrappers(_read(path), {name for which in ("_parameters", "_buffers")
                                              for name, *_ in members(model, which)})
    found, wrong = [], []
    missing: List[str] = []
    for which in ("_parameters", "_buffers"):
        for name, module, key, tensor in members(model, which):
            value = weights.pop(name, None)
            # Tensors of an ONNX run have an axis: a number is an array of one element.
            if value is not None and value.shape in (tensor.shape, tensor.shape or (1,)):
                found.append((tensor, value.reshape(tensor.shape)))
            elif value is not None:
                wrong.append(f"{name} is {list(value.shape)} in the file, and {list(tensor.shape)} in "
                             "the model")
            elif is_statistic(module, key) if which == "_buffers" else tensor.is_floating_point():
                missing.append(name)
    if missing:
        wrong.append(f"not in the file: {', '.join(missing)}")
    if weights:
        wrong.append(f"not in the model: {', '.join(weights)}")
    if wrong:
        raise InvalidError(f"{path} has the weights of another model: {'; '.join(wrong)}. Make the "
                           "model as the program of the run does")
    with torch.no_grad():
        for tensor, value in found:
            tensor.copy_(value)
