"""Arrays and tensors in, tensors of one dtype and device out, with errors that name them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ebm.arrays import as_floats
from ebm.errors import CodingError, EbmError, MissingValueError, ModelError, ShapeError

__all__ = [
    "as_inputs",
    "as_labels",
    "as_parameters",
    "as_tensor",
    "checked_order",
    "chosen_device",
    "chosen_dtype",
    "like",
]


def chosen_device(device: Any, inputs: Any) -> torch.device:
    """The device asked for, or that of the inputs.

    Parameters
    ----------
    device : str, torch.device or None
        What was asked for.
    inputs : Any
        A tensor, or something on the CPU.

    Returns
    -------
    torch.device
        One that works here.

    Raises
    ------
    EbmError
        If it does not.

    Examples
    --------
    >>> from ebm.networks.tensors import chosen_device
    >>> chosen_device(None, [1.0])
    device(type='cpu')
    """
    if device is None:
        return inputs.device if isinstance(inputs, Tensor) else torch.device("cpu")
    try:
        chosen = torch.device(device)
        # Backends that torch was not built with raise AssertionError.
        return torch.empty(0, device=chosen).device
    except (RuntimeError, AssertionError, TypeError) as error:
        raise EbmError(
            f"device must be one that torch can use here, got {device!r}: {_first_line(error)}; "
            "use device='cpu', or install a torch with that backend"
        ) from error


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def chosen_dtype(dtype: Any, inputs: Any) -> torch.dtype:
    """The dtype asked for, or that of the inputs, which must be floats.

    Parameters
    ----------
    dtype : torch.dtype, numpy dtype, str or None
        float32 or float64.
    inputs : array_like or Tensor
        z; integers are refused, since 0 … 255 is no scale to train at.

    Returns
    -------
    torch.dtype
        float32 or float64; half precision inputs become float32.

    Raises
    ------
    CodingError
        If the inputs are integers.
    ModelError
        If the dtype is another one.

    Examples
    --------
    >>> from ebm.networks.tensors import chosen_dtype
    >>> chosen_dtype(None, [1.5])
    torch.float64
    """
    kind = inputs.dtype if isinstance(inputs, Tensor) else np.asarray(inputs).dtype
    if isinstance(kind, torch.dtype):
        is_float = kind.is_floating_point
    else:
        is_float = kind.kind == "f"
        if kind.kind not in "fiub":
            as_floats(inputs, "inputs")
    if not is_float:
        raise CodingError(
            f"inputs must be floats, got {kind}: scale them yourself, pixels by / 255.0 say, so "
            "that the preprocessing is stated"
        )
    if dtype is None:
        return torch.float64 if kind.itemsize >= 8 else torch.float32
    name = np.dtype(dtype).name if isinstance(dtype, type | np.dtype) else str(dtype)
    for chosen in (torch.float32, torch.float64):
        if name in (str(chosen), str(chosen).removeprefix("torch.")):
            return chosen
    raise ModelError(f"dtype must be float32 or float64, got {dtype}")


def as_inputs(
    inputs: Any, dtype: torch.dtype, device: torch.device, *, copy: bool = False
) -> Tensor:
    """Rows as a tensor of the model's dtype on its device.

    Parameters
    ----------
    inputs : array_like or Tensor
        Floats.
    dtype, device
        Those of the model.
    copy : bool
        Whether to copy also where nothing has to be changed.

    Returns
    -------
    Tensor
        Detached.

    Examples
    --------
    >>> import torch
    >>> from ebm.networks.tensors import as_inputs
    >>> as_inputs([1.5], torch.float32, torch.device("cpu"))
    tensor([1.5000])
    """
    if isinstance(inputs, Tensor):
        return inputs.detach().to(device, dtype, copy=copy)
    array = np.asarray(inputs)
    array = np.asarray(array, dtype=array.dtype.newbyteorder("="))
    # torch has no negative strides, and shares no read-only memory.
    if not array.flags.writeable or any(step < 0 for step in array.strides):
        array, copy = array.copy(), False
    return torch.from_numpy(array).to(device, dtype, copy=copy)


def as_labels(labels: Any) -> Tensor:
    """Labels as int64 on the CPU.

    Parameters
    ----------
    labels : array_like or Tensor of int
        Classes.

    Returns
    -------
    Tensor of int64
        A copy.

    Raises
    ------
    CodingError
        If they are no integers.

    Examples
    --------
    >>> from ebm.networks.tensors import as_labels
    >>> as_labels([0, 1])
    tensor([0, 1])
    """
    array = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if array.dtype.kind not in "iu":
        raise CodingError(f"labels must be integers 0 … M−1, got {array.dtype}")
    return torch.from_numpy(array.astype(np.int64))


def as_parameters(
    theta: Any, n: int, dtype: torch.dtype, device: torch.device, *, name: str = "theta"
) -> Tensor:
    """Parameters as a tensor of the model's dtype on its device; autograd goes through.

    Parameters
    ----------
    theta : array_like or Tensor, (..., n)
        One vector or several.
    n : int
        Its length.
    dtype, device
        Those of the model.
    name : str
        Name of the argument.

    Returns
    -------
    Tensor, (..., n)
        Finite.

    Raises
    ------
    ShapeError
        If the last axis is not n long.
    ModelError
        If it holds complex numbers.
    MissingValueError
        If a number is NaN or infinite.

    Examples
    --------
    >>> import torch
    >>> from ebm.networks.tensors import as_parameters
    >>> as_parameters([1, 2], 2, torch.float32, torch.device("cpu"))
    tensor([1., 2.])
    """
    tensor = as_tensor(theta, name)
    if not tensor.ndim or tensor.shape[-1] != n:
        raise ShapeError(f"{name} must have shape ({n},) or (..., {n}), got {tuple(tensor.shape)}")
    if tensor.is_complex():
        raise ModelError(f"{name} must hold real numbers, got complex ones")
    tensor = tensor.to(device, dtype)
    # The sum is finite only if all are, unless it overflows; it takes a tenth of the time.
    if not bool(torch.isfinite(tensor.detach().sum())) and not bool(torch.isfinite(tensor).all()):
        raise MissingValueError(f"{name} must be finite, got NaN or inf")
    return tensor


def as_tensor(values: Any, name: str) -> Tensor:
    """A tensor as it is, other numbers as a float64 tensor of their own.

    Parameters
    ----------
    values : array_like or Tensor
        Real numbers.
    name : str
        Name of the argument.

    Returns
    -------
    Tensor
        Not shared with an array: torch would write into read-only ones.

    Examples
    --------
    >>> from ebm.networks.tensors import as_tensor
    >>> as_tensor([1, 2], "theta")
    tensor([1., 2.], dtype=torch.float64)
    """
    if isinstance(values, Tensor):
        return values
    return torch.from_numpy(as_floats(values, name).copy())


def like(result: Tensor, given: Any) -> Any:
    """A result in the kind of the argument: tensors for tensors, else float64 arrays.

    Parameters
    ----------
    result : Tensor
        What was computed.
    given : Any
        The argument that it was computed from.

    Returns
    -------
    Tensor or ndarray
        The same numbers.

    Examples
    --------
    >>> import torch
    >>> from ebm.networks.tensors import like
    >>> like(torch.ones(2), [1.0])
    array([1., 1.])
    """
    if isinstance(given, Tensor):
        return result
    return result.detach().cpu().numpy().astype(np.float64)


def checked_order(order: Any) -> int:
    """An order of expansion, from 0.

    Parameters
    ----------
    order : int
        What was given.

    Returns
    -------
    int
        The same.

    Raises
    ------
    ModelError
        If it is no integer, or negative.

    Examples
    --------
    >>> from ebm.networks.tensors import checked_order
    >>> checked_order(3)
    3
    """
    if isinstance(order, bool) or not hasattr(order, "__index__") or order < 0:
        raise ModelError(f"order must be an integer from 0, got {order!r}")
    return int(order)
