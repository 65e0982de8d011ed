"""Leaves: the smallest pieces of a program's state that are watched, stored and put back.

A leaf is the memory of one tensor or array, or one pickled value.  Its *mark* says, within one
process and at the cost of microseconds, whether it has changed; its *digest* says between
processes whether contents are equal.
"""

from __future__ import annotations

import itertools
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import xxhash

from chexpoint.hindsight.state.arrays import array_from, new_array
from chexpoint.hindsight.state.numpy_door import np

LeafKind = Literal["array", "stream"]

SAMPLES = 1024
"""How many elements of a large tensor its mark is made of."""
WHOLE_BYTES = 4096
"""Up to this size, the mark of a tensor is made of all elements."""

_unique = itertools.count()


class Source(Protocol):
    """Where the contents of a leaf come from."""

    def data(self) -> memoryview:
        """Return the contents, without a copy where that is possible."""

    def copy_into(self, target: memoryview) -> None:
        """Copy the contents into memory of their size."""

    def digest(self) -> str | None:
        """Return what is equal exactly for equal contents; None if that cannot be told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A piece of state.

    Its contents are those of the live object: read them before the program goes on.
    """

    name: str
    kind: LeafKind
    mark: Any
    """Equal marks in two surveys of one process: not changed."""
    nbytes: int
    meta: Mapping[str, Any]
    """What is needed to make it again, as JSON has it."""
    source: Source
    is_read: bool = True
    """Whether it was looked at; else its size is not known, and to get its data takes long."""

    def data(self) -> memoryview:
        """Return the contents, contiguous in the memory of the host."""
        return self.source.data()

    def copy_into(self, target: memoryview) -> None:
        """Copy the contents into writable memory of `nbytes`."""
        self.source.copy_into(target)

    def digest(self) -> str | None:
        """Return what is equal exactly for equal contents, in any process; None: cannot tell."""
        return self.source.digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLeaf:
    """A leaf as it was stored."""

    kind: LeafKind
    meta: Mapping[str, Any]
    data: Any
    """A buffer."""


def unique_mark() -> tuple[str, int]:
    """Return a mark that equals no other: whether the leaf has changed cannot be told."""
    return "?", next(_unique)


def torch_now() -> Any:
    """Return the torch module if the program has loaded it, else None."""
    module = sys.modules.get("torch")
    # While it is being imported, it is not complete.
    return module if module is not None and hasattr(module, "optim") else None


# ---------------------------------------------------------------- tensors


@dataclass(frozen=True, slots=True)
class TensorSource:
    """The contents of a tensor, in the order of its indices."""

    tensor: Any

    def data(self) -> memoryview:
        torch = torch_now()
        plain = plain_tensor(self.tensor).cpu().contiguous().view(-1)
        return memoryview(plain.view(torch.uint8).numpy())

    def copy_into(self, target: memoryview) -> None:
        torch = torch_now()
        if not self.tensor.numel():
            return
        with torch.no_grad():
            # All threads of the program copy.
            into = torch.frombuffer(target, dtype=self.tensor.dtype, count=self.tensor.numel())
            into.view(self.tensor.shape).copy_(plain_tensor(self.tensor))

    def digest(self) -> str | None:
        return xxhash.xxh3_128_hexdigest(self.data())


def plain_tensor(tensor: Any) -> Any:
    """Return a tensor's memory without its history."""
    plain = tensor.detach()
    if plain.is_conj() or plain.is_neg():
        plain = plain.resolve_conj().resolve_neg()
    return plain


def small_bytes(tensor: Any) -> bytes:
    """Return the contents of a small tensor, at once."""
    if tensor.is_cpu and tensor.is_contiguous():
        try:
            return bytes(tensor.detach().numpy().tobytes())
        except (TypeError, RuntimeError):
            # A type that NumPy does not have; a conjugate.
            pass
    return bytes(TensorSource(tensor).data())


def tensor_mark(tensor: Any) -> tuple[Any, ...]:
    """Return the mark of a tensor.

    Its version tells of all changes but those through ``.data``; a sample of the elements tells
    of these.
    """
    try:
        version = tensor._version
    except RuntimeError:
        # Made under inference mode.
        version = -1
    return (
        tensor.data_ptr(),
        version,
        tuple(tensor.shape),
        tensor.dtype,
        xxhash.xxh3_64_intdigest(_sample(tensor)),
    )


def _sample(tensor: Any) -> bytes:
    plain = tensor.detach()
    count = tensor.numel()
    step = 1 if count * tensor.element_size() <= WHOLE_BYTES else max(1, count // SAMPLES)
    if not plain.is_contiguous() or plain.is_neg() or plain.is_conj():
        places = np.unravel_index(np.arange(0, count, step), tuple(plain.shape) or (1,))
        torch = torch_now()
        if not plain.dim():
            plain = plain.reshape(1)
        plain = plain[tuple(torch.from_numpy(each) for each in places)]
        return bytes(TensorSource(plain).data())
    if plain.is_cpu:
        try:
            return bytes(plain.numpy().reshape(-1)[::step].tobytes())
        except TypeError:
            # A type that NumPy does not have.
            pass
    return bytes(TensorSource(plain.view(-1)[::step]).data())


def tensor_meta(tensor: Any) -> dict[str, Any]:
    """Return what is needed to make a tensor of the same kind."""
    key = (tensor.dtype, tensor.shape)
    meta = _metas.get(key)
    if meta is None:
        if len(_metas) > 4096:
            _metas.clear()
        meta = _metas[key] = _common_meta(tensor)
    special = _special_meta(tensor)
    # A program has many tensors of few kinds: pickle writes the same dict once.
    return {**meta, **special} if special else meta


_metas: dict[Any, dict[str, Any]] = {}


def _common_meta(tensor: Any) -> dict[str, Any]:
    name = str(tensor.dtype).removeprefix("torch.")
    return {"lib": "torch", "dtype": name, "shape": list(tensor.shape)}


def _special_meta(tensor: Any) -> dict[str, Any]:
    special: dict[str, Any] = {}
    if not tensor.is_cpu:
        special["device"] = str(tensor.device)
    if not tensor.is_contiguous():
        special["strides"] = list(tensor.stride())
    if type(tensor) is torch_now().nn.Parameter:
        special["parameter"] = True
    if tensor.requires_grad:
        if tensor.grad_fn is not None:
            special["note"] = "was part of a graph; comes back without it"
        else:
            special["requires_grad"] = True
    return special


def tensor_from(meta: Mapping[str, Any], data: Any) -> Any:
    """Return stored contents as a tensor over them; it must not be written to."""
    torch = torch_now()
    dtype = getattr(torch, meta["dtype"])
    raw = np.frombuffer(data, dtype=np.uint8)
    if not raw.size:
        return torch.empty(meta["shape"], dtype=dtype)
    with warnings.catch_warnings():
        # Torch warns of memory that must not be written to; nobody here does.
        warnings.simplefilter("ignore")
        return torch.from_numpy(raw).view(dtype).view(meta["shape"])


def new_tensor(meta: Mapping[str, Any], data: Any) -> Any:
    """Return a tensor of its own with stored contents."""
    torch = torch_now()
    raw = tensor_from(meta, data)
    strides = meta.get("strides")
    device = meta.get("device", "cpu")
    with torch.no_grad():
        if strides is not None and _is_dense(meta["shape"], strides):
            made = torch.empty_strided(meta["shape"], strides, dtype=raw.dtype, device=device)
            made.copy_(raw)
        elif device == "cpu":
            made = raw.clone()
        else:
            made = raw.to(device)
    if meta.get("parameter"):
        return torch.nn.Parameter(made, requires_grad=bool(meta.get("requires_grad")))
    return made.requires_grad_(bool(meta.get("requires_grad")))


def _is_dense(shape: list[int], strides: list[int]) -> bool:
    expected = 1
    for stride, size in sorted(zip(strides, shape, strict=True)):
        if size > 1 and stride != expected:
            return False
        expected *= max(size, 1)
    return True


def contents_from(leaf: StoredLeaf) -> Any:
    """Return the contents of a stored array leaf; they must not be written to."""
    make = tensor_from if leaf.meta["lib"] == "torch" else array_from
    return make(leaf.meta, leaf.data)


def new_from(leaf: StoredLeaf) -> Any:
    """Return a tensor or an array of its own with the contents of a stored leaf."""
    make = new_tensor if leaf.meta["lib"] == "torch" else new_array
    return make(leaf.meta, leaf.data)


# ---------------------------------------------------------------- streams


@dataclass(frozen=True, slots=True)
class StreamSource:
    """A pickled value, or one that will be pickled when it is asked for."""

    write: Callable[[], bytes]
    find_digest: Callable[[], str | None]

    def data(self) -> memoryview:
        return memoryview(self.write())

    def copy_into(self, target: memoryview) -> None:
        data = self.write()
        target[: len(data)] = data

    def digest(self) -> str | None:
        return self.find_digest()
