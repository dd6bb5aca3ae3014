"""Arguments as tensors of one dtype, with errors that name them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ebm._arrays import as_floats
from ebm.errors import CodingError, MissingValueError, ModelError, ShapeError


def as_array(values: Any, name: str) -> Any:
    """Tensors, arrays and memory maps unchanged, anything else as an array."""
    if isinstance(values, Tensor | np.memmap):
        if isinstance(values, Tensor) and values.layout is not torch.strided:
            raise ModelError(f"{name} must be dense, got a sparse tensor: use .to_dense()")
        return values
    if hasattr(values, "toarray"):
        raise ModelError(f"{name} must be dense, got {type(values).__name__}: use .toarray()")
    if isinstance(values, torch.utils.data.Dataset):
        raise ModelError(f"{name} must not be a Dataset: wrap it in a torch.utils.data.DataLoader")
    if np.ma.is_masked(values):
        raise ModelError(f"{name} must have no masked entries: fill them in first")
    try:
        return np.asarray(values)
    except ValueError as error:
        raise ShapeError(f"{name} must not be ragged: all its rows need the same length") from error


def chosen_dtype(dtype: Any, inputs: Tensor | NDArray[Any]) -> torch.dtype:
    """float32 or float64, by default the dtype of the inputs, which must be floats."""
    kind: Any = inputs.dtype
    if isinstance(kind, torch.dtype):
        is_float, is_complex = kind.is_floating_point, kind.is_complex
    else:
        is_float, is_complex = kind.kind == "f", kind.kind == "c"
        if kind.kind in "OUSaT":
            as_floats(inputs, "inputs")
    if is_complex:
        raise ModelError("inputs must hold real numbers, got complex ones")
    if not is_float:
        remedy = (
            "convert them by .astype(float)"
            if str(kind) == "object"
            else "scale them yourself, pixels by / 255.0 say, so that the preprocessing is stated"
        )
        raise CodingError(f"inputs must be floats, got {kind}: {remedy}")
    if dtype is None:
        return torch.float64 if kind.itemsize >= 8 else torch.float32
    name = np.dtype(dtype).name if isinstance(dtype, type | np.dtype) else str(dtype)
    for chosen in (torch.float32, torch.float64):
        if name in (str(chosen), str(chosen).removeprefix("torch.")):
            return chosen
    raise ModelError(f"dtype must be float32 or float64, got {dtype}")


def as_inputs(
    inputs: Tensor | NDArray[Any],
    dtype: torch.dtype,
    device: torch.device,
    *,
    copy: bool = False,
) -> Tensor:
    """Rows as a tensor of the model's dtype on its device."""
    if isinstance(inputs, Tensor):
        return inputs.detach().to(device, dtype, copy=copy)
    # torch has floats of at most 8 bytes, in native order.
    wide = inputs.dtype.itemsize > 8
    array = np.asarray(inputs, dtype=np.float64 if wide else inputs.dtype.newbyteorder("="))
    # torch has no negative strides, and does not share read-only memory.
    if not array.flags.writeable or any(step < 0 for step in array.strides):
        array, copy = array.copy(), False
    return torch.from_numpy(array).to(device, dtype, copy=copy)


def as_labels(labels: Any) -> Tensor:
    """Labels as int64 on the CPU."""
    array = as_array(labels, "labels")
    if isinstance(array, Tensor):
        is_integer = not (array.dtype.is_floating_point or array.dtype.is_complex)
        is_integer = is_integer and array.dtype is not torch.bool
    else:
        is_integer = array.dtype.kind in "iu"
    if not is_integer:
        raise CodingError(
            f"labels must be integers 0 … M−1, got {array.dtype}: "
            "np.unique(labels, return_inverse=True)[1] numbers the classes"
        )
    if isinstance(array, Tensor):
        return array.detach().to("cpu", torch.int64, copy=True)
    return torch.from_numpy(array.astype(np.int64))


def as_parameters(
    theta: Any,
    n: int,
    dtype: torch.dtype,
    device: torch.device,
    *,
    name: str = "theta",
    may_overflow: bool = False,
) -> Tensor:
    """Parameters as a tensor of the model's dtype on its device, differentiable."""
    tensor = as_tensor(theta, name)
    if not tensor.ndim or tensor.shape[-1] != n:
        raise ShapeError(f"{name} must have shape ({n},) or (..., {n}), got {tuple(tensor.shape)}")
    cast = tensor.to(device, dtype)
    checked = (tensor if may_overflow else cast).detach()
    # The sum is finite only if all elements are, and takes a tenth of the time; it may overflow.
    if not bool(torch.isfinite(checked.sum())) and not bool(torch.isfinite(checked).all()):
        raise MissingValueError(f"{name} must be finite in {dtype}, got NaN or inf")
    return cast


def as_tensor(values: Any, name: str) -> Tensor:
    """A tensor unchanged, anything else copied to a float64 tensor."""
    array = as_array(values, name)
    if not isinstance(array, Tensor):
        return torch.from_numpy(as_floats(array, name).copy())
    if array.is_complex():
        raise ModelError(f"{name} must hold real numbers, got complex ones")
    return array


def like(result: Tensor, argument: Any) -> Any:
    """A result in the kind of an argument: a tensor for a tensor, else a float64 array."""
    if isinstance(argument, Tensor):
        return result
    return result.detach().cpu().numpy().astype(np.float64)
