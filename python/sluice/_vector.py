# SPDX-License-Identifier: BSD-3-Clause
"""Addresses of vectors: torch tensors, and all objects with the buffer protocol or __dlpack__.

Nothing is copied. A Vector refers to the object it was made of, so the memory exists as long as the Vector.
"""
from __future__ import annotations

import ctypes
from typing import Any, List, Optional, Sequence, Tuple

from ._abi import CONSTANTS, sluice_segment

F32, F16, BF16, F8_E4M3FN, F8_E5M2 = (
    CONSTANTS["SLUICE_" + name] for name in ("F32", "F16", "BF16", "F8_E4M3FN", "F8_E5M2"))
NAMES = {F32: "float32", F16: "float16", BF16: "bfloat16", F8_E4M3FN: "float8_e4m3fn", F8_E5M2: "float8_e5m2"}
SIZES = {F32: 4, F16: 2, BF16: 2, F8_E4M3FN: 1, F8_E5M2: 1}
PARAMETERS = (F32, F16, BF16)  # types that parameters and means can have
GRADIENTS = PARAMETERS + (F8_E4M3FN, F8_E5M2)
_TYPES_OF_TORCH = {"torch." + name: kind for kind, name in NAMES.items()}
_TYPES_OF_BUFFERS = {"f": F32, "<f": F32, "=f": F32, "e": F16, "<e": F16, "=e": F16}
_DLPACK_FLOAT, _DLPACK_BFLOAT, _DLPACK_E4M3FN, _DLPACK_E5M2 = 2, 4, 10, 12
_DLPACK_HOSTS = (1, 3, 13)  # CPU, pinned and managed memory
_DLPACK_CUDA = 2


class Vector:
    """A contiguous vector: ``address``, ``count`` elements of ``type``, a key of NAMES."""

    __slots__ = ("address", "count", "type", "device", "owner", "_release")

    def __init__(self, address: int, count: int, type: int, device: str, owner: Any,
                 release: Any = None) -> None:
        self.address, self.count, self.type = address, count, type
        self.device, self.owner, self._release = device, owner, release

    def __del__(self) -> None:
        if getattr(self, "_release", None):
            self._release()


class _Py_buffer(ctypes.Structure):
    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t),
                ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int),
                ("ndim", ctypes.c_int), ("format", ctypes.c_char_p),
                ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
                ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
                ("suboffsets", ctypes.POINTER(ctypes.c_ssize_t)), ("internal", ctypes.c_void_p)]


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = [ctypes.py_object, ctypes.POINTER(_Py_buffer), ctypes.c_int]
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = [ctypes.POINTER(_Py_buffer)]
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_WRITABLE, _FORMAT, _C_CONTIGUOUS = 0x1, 0x4, 0x20 | 0x18


def _of_torch(tensor: Any, what: str) -> Vector:
    kind = _TYPES_OF_TORCH.get(str(tensor.dtype))
    if kind is None:
        raise TypeError(f"{what} is a tensor of {tensor.dtype}, but must be float32, float16 or bfloat16, "
                        "or for a gradient float8_e4m3fn or float8_e5m2")
    if getattr(tensor, "is_neg", bool)():  # its memory has the other sign
        raise ValueError(f"{what} is a tensor with the negative bit: pass the result of its resolve_neg()")
    if not tensor.is_contiguous():
        raise ValueError(f"{what} is a tensor with gaps: pass a contiguous one")
    if tensor.device.type not in ("cpu", "cuda"):
        raise TypeError(f"{what} is on {tensor.device}, but must be in host memory or on a CUDA device")
    return Vector(tensor.data_ptr(), tensor.numel(), kind, tensor.device.type, tensor)


def _of_buffer(thing: Any, what: str, writable: bool) -> Vector:
    view = _Py_buffer()
    flags = _C_CONTIGUOUS | _FORMAT | (_WRITABLE if writable else 0)
    try:
        _get_buffer(thing, ctypes.byref(view), flags)
    except BufferError as error:
        raise ValueError(f"{what}: {error}; pass a contiguous array"
                         f"{' that can be written' if writable else ''}") from None
    form = (view.format or b"B").decode()
    kind = _TYPES_OF_BUFFERS.get(form)
    if kind is None:
        _release_buffer(ctypes.byref(view))
        raise TypeError(f"{what} is an array of elements '{form}', but must be float32 ('f') or float16 "
                        "('e')")
    return Vector(view.buf or 0, view.len // view.itemsize, kind, "cpu", thing,
                  lambda: _release_buffer(ctypes.byref(view)))


def _of_dlpack(thing: Any, what: str) -> Vector:
    capsule = thing.__dlpack__()
    tensor = _DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    kind = {(_DLPACK_FLOAT, 32): F32, (_DLPACK_FLOAT, 16): F16,
            (_DLPACK_BFLOAT, 16): BF16, (_DLPACK_E4M3FN, 8): F8_E4M3FN,
            (_DLPACK_E5M2, 8): F8_E5M2}.get((tensor.code, tensor.bits))
    if kind is None or tensor.lanes != 1:
        raise TypeError(f"{what} is of DLPack type ({tensor.code}, {tensor.bits} bits), "
                        "but must be float32, float16 or bfloat16, or for a gradient float8_e4m3fn or "
                        "float8_e5m2")
    if tensor.device_type not in _DLPACK_HOSTS + (_DLPACK_CUDA,):
        raise TypeError(f"{what} is on DLPack device {tensor.device_type}, but must be in host memory or "
                        "on a CUDA device")
    count = 1
    for axis in reversed(range(tensor.ndim)):
        if tensor.strides and tensor.shape[axis] > 1 and tensor.strides[axis] != count:
            raise ValueError(f"{what} has gaps: pass a contiguous array")
        count *= tensor.shape[axis]
    device = "cuda" if tensor.device_type == _DLPACK_CUDA else "cpu"
    return Vector((tensor.data or 0) + tensor.byte_offset, count, kind, device, (thing, capsule))


def vector(thing: Any, what: str, count: Optional[int], types: Tuple[int, ...] = (F32,),
           writable: bool = False) -> Vector:
    """Returns the Vector of thing, which must have exactly count elements (None: any number) of one of types.

    Otherwise raises TypeError or ValueError, whose text names it by what.
    """
    if hasattr(thing, "data_ptr"):
        found = _of_torch(thing, what)
    elif not hasattr(thing, "__dlpack__") or hasattr(thing, "__array_interface__"):
        try:
            found = _of_buffer(thing, what, writable)
        except TypeError as error:
            if "buffer" not in str(error) and "bytes-like" not in str(error):
                raise
            raise TypeError(f"{what} is a {type(thing).__name__}, but must be a tensor, or an object "
                            "with the buffer protocol or __dlpack__") from None
    else:
        found = _of_dlpack(thing, what)
    if count is not None and found.count != count:
        raise ValueError(f"{what} has {found.count} elements, but must have {count}")
    if found.type not in types:
        raise TypeError(f"{what} holds {NAMES[found.type]}, but must hold "
                        f"{' or '.join(NAMES[t] for t in types)}")
    return found


class Pieces:
    """A vector in several pieces: ``array`` of ``n`` segments, in the order of the vector.

    count: the elements that it must have, or None. types: those that a piece may have. scales: one
    for each piece, used for those of 8 bits; None: that of Model.set_grad_scale().
    """

    __slots__ = ("array", "n", "count", "vectors")

    def __init__(self, things: Any, what: str, count: Optional[int], writable: bool = False,
                 types: Tuple[int, ...] = PARAMETERS, scales: Optional[Sequence[Any]] = None) -> None:
        self.vectors: List[Vector] = [
            vector(thing, f"piece {i} of {what}", None, types, writable)
            for i, thing in enumerate(things)]
        self.n = len(self.vectors)
        self.array = (sluice_segment * self.n)()
        for segment, of in zip(self.array, self.vectors):
            segment.data, segment.count, segment.type = of.address, of.count, of.type
        if scales is not None and len(scales) != self.n:
            raise ValueError(f"there are {len(scales)} scales for the {self.n} pieces of {what}")
        for segment, scale in zip(self.array, scales or ()):
            segment.scale = float(scale)
            if not segment.scale > 0:
                raise ValueError(f"the scale of a piece of {what} is {scale}, but must be above 0")
        self.count = sum(of.count for of in self.vectors)
        if count is not None and self.count != count:
            raise ValueError(f"the {self.n} pieces of {what} have {self.count} elements, but must have {count}")
