"""Rules for PyTorch: the only door to it.

Tensors that share a storage still do when they come back, and a storage is a view of a block of
memory like any array.  What torch's own pickling drops (gradients) is kept; what cannot be kept
(graphs, hooks) makes the variable lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from chexpoint.image import devices
from chexpoint.image.live import same
from chexpoint.image.lost import Lost
from chexpoint.image.quiet import without_warnings

if TYPE_CHECKING:
    from chexpoint.image.pickler import ImagePickler


def reduce_tensor(pickler: ImagePickler, obj: Any) -> Any:
    """Write a tensor as torch does, with its gradient."""
    if obj.grad_fn is not None:
        raise Lost("it is part of an autograd graph")
    if obj._backward_hooks or getattr(obj, "_post_accumulate_grad_hooks", None):
        raise Lost("it has hooks for its gradient")
    pickler.world.modules.add("torch")
    with without_warnings():
        written = obj.__reduce_ex__(5)
    if obj.grad is None:
        return written
    make, args, *rest = written
    if rest:
        raise Lost("a tensor with a gradient and a state of its own cannot be stored")
    return with_gradient, (make, args, obj.grad)


def reduce_typed(_: ImagePickler, obj: Any) -> Any:
    """Write a typed storage as an untyped one and its type."""
    return typed_storage, (obj._untyped_storage, obj.dtype)


def reduce_storage(pickler: ImagePickler, obj: Any) -> Any:
    """Write a storage: the memory of tensors."""
    if obj.device.type == "cuda":
        return devices.reduce_storage(pickler, obj)
    if obj.device.type != "cpu":
        raise Lost(f"it is on a device of type {obj.device.type}")
    size = obj.nbytes()
    if not size:
        return make_storage, (b"", 0, 0)
    if obj.is_shared():
        raise Lost("its memory is shared with other processes")
    start = obj.data_ptr()
    known = pickler.kept.get(("storage", start))
    if known is not None and known is not obj:
        return same, (known,)
    pickler.kept["storage", start] = obj
    block = pickler.memory.block(start, start + size, obj)
    return make_storage, (block, start - block.start, size)


def reduce_optimizer(_: ImagePickler, obj: Any) -> Any:
    """Write an optimizer with all of its attributes: torch leaves out hooks and schedules."""
    return blank, (type(obj),), vars(obj), None, None, fill_optimizer


def blank(cls: type) -> Any:
    """Return an object without attributes."""
    return object.__new__(cls)


def fill_optimizer(made: Any, state: dict[str, Any]) -> None:
    """Give an optimizer its attributes."""
    made.__dict__.update(state)
    made._patch_step_function()


def with_gradient(make: Callable[..., Any], args: tuple[Any, ...], gradient: Any) -> Any:
    """Return a tensor with its gradient."""
    made = make(*args)
    made.grad = gradient
    return made


def typed_storage(untyped: Any, dtype: Any) -> Any:
    """Return a typed storage around an untyped one."""
    import torch

    make: Any = torch.storage.TypedStorage
    return make(wrap_storage=untyped, dtype=dtype, _internal=True)


def make_storage(memory: Any, offset: int, size: int) -> Any:
    """Return a storage that lies in memory."""
    import numpy
    import torch

    if not size:
        return torch.empty(0, dtype=torch.uint8).untyped_storage()
    # While an image is checked its memory is read-only, and torch says so.
    with without_warnings():
        return torch.from_numpy(
            memory.view(numpy.ndarray)[offset : offset + size]
        ).untyped_storage()


RULES: Mapping[type | str, Callable[[ImagePickler, Any], Any]] = {
    "torch.Tensor": reduce_tensor,
    "torch.optim.optimizer.Optimizer": reduce_optimizer,
    "torch.storage.TypedStorage": reduce_typed,
    "torch.storage.UntypedStorage": reduce_storage,
}
