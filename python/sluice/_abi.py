# SPDX-License-Identifier: BSD-3-Clause
"""The part of the public headers that this package uses: constants, structs and prototypes.

python/tests/abi.sh compares each of them with the headers.
"""
import ctypes
import operator
from ctypes import (POINTER, Structure, c_char_p, c_double, c_float, c_int, c_size_t, c_uint,
                    c_uint32, c_uint64, c_void_p)
from typing import Any

CONSTANTS = {
    "SLUICE_OK": 0,
    "SLUICE_EINVAL": -1,
    "SLUICE_ENOMEM": -2,
    "SLUICE_ENOSUPP": -3,
    "SLUICE_EAGAIN": -4,
    "SLUICE_ETIMEDOUT": -5,
    "SLUICE_EDEVICE": -6,
    "SLUICE_EBOOT": -7,
    "SLUICE_EGPU": -8,
    "SLUICE_EPEER": -9,
    "SLUICE_EWIRE": -10,
    "SLUICE_ENUMERIC": -11,
    "SLUICE_EIO": -12,
    "SLUICE_F32": 0,
    "SLUICE_F16": 1,
    "SLUICE_BF16": 2,
    "SLUICE_F8_E4M3FN": 6,
    "SLUICE_F8_E5M2": 7,
    "SLUICE_ABORT": 1,
    "SLUICE_CONTINUE": 2,
    "SLUICE_GATHER_MAX": 512,
    "SLUICE_PLAN_TEXT": 0,
    "SLUICE_PLAN_KEYS": 1,
    "SLUICE_STATE_PART": 1,
    "SLUICE_LR": 1,
    "SLUICE_GRAD_SCALE": 2,
    "SLUICE_SMOOTHNESS": 3,
    "SLUICE_MEASURE": 4,
    "SLUICE_WEIGHT": 5,
}


# Without these checks ctypes would silently cut integers to the bits of the C type, and texts at the first
# character 0.
_LIMITS = {kind: (-2**(bits - 1), 2**(bits - 1) - 1) if kind(-1).value < 0 else (0, 2**bits - 1)
           for kind in (c_int, c_uint, c_size_t, c_uint32, c_uint64)
           for bits in (8 * ctypes.sizeof(kind),)}
_ADDRESSES = (0, 2**(8 * ctypes.sizeof(c_void_p)) - 1)


def checked(what: str, kind: Any, value: Any) -> Any:
    """Returns the value if the C type can hold it. Otherwise raises ValueError or TypeError, whose text begins
    with what."""
    if kind is c_char_p:
        if isinstance(value, bytes) and b"\0" in value:
            raise ValueError(f"{what} has a character 0 at position {value.index(0)}: a text for C ends there, so "
                             "leave it out")
        return value
    limits = _ADDRESSES if kind is c_void_p and isinstance(value, int) else _LIMITS.get(kind)
    if limits is None or isinstance(value, ctypes._SimpleCData):
        return value
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{what} is {value!r}, but must be a whole number") from None
    if not limits[0] <= number <= limits[1]:
        raise ValueError(f"{what} is {number}, but must be a whole number from {limits[0]} to {limits[1]}")
    return number


class _Struct(Structure):
    """A struct whose members are checked when they are set."""

    def __init_subclass__(cls) -> None:
        cls._kinds = {field[0]: field[1] for field in cls._fields_}

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, checked(f"{name} of {type(self).__name__}", self._kinds.get(name), value))


# Callbacks take a value's address as an integer.
put_function = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, c_void_p, c_size_t)
get_function = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, c_void_p, c_size_t, POINTER(c_size_t),
                                c_int)
fence_function = ctypes.CFUNCTYPE(c_int, c_void_p, c_int)


class sluice_bootstrap(_Struct):
    _fields_ = [
        ("size", c_size_t),
        ("rank", c_int),
        ("ranks", c_int),
        ("node", c_char_p),
        ("name", c_char_p),
        ("context", c_void_p),
        ("put", put_function),
        ("get", get_function),
        ("fence", fence_function),
    ]


class sluice_job_attr(_Struct):
    _fields_ = [
        ("size", c_size_t),
        ("servers", c_int),
        ("lost_after_ms", c_int),
        ("warn_after_ms", c_int),
        ("wait_timeout_ms", c_int),
        ("on_failure", c_int),
        ("bootstrap", POINTER(sluice_bootstrap)),
    ]


class sluice_tensor(_Struct):
    _fields_ = [("name", c_char_p), ("count", c_uint64)]


class sluice_tensor_rule(_Struct):
    _fields_ = [("lr", c_float), ("decay", c_float)]


class sluice_segment(Structure):  # of vectors that were checked; there are many in every step
    _fields_ = [("data", c_void_p), ("count", c_uint64), ("type", c_int), ("scale", c_float)]


class sluice_vector(Structure):
    _fields_ = [("data", c_void_p), ("segments", POINTER(sluice_segment)), ("n_segments", c_size_t)]


class sluice_model_attr(_Struct):
    _fields_ = [
        ("size", c_size_t),
        ("count", c_uint64),
        ("tensors", POINTER(sluice_tensor)),
        ("n_tensors", c_size_t),
        ("recipe", c_char_p),
        ("shards", c_uint32),
        ("lr", c_float),
        ("steps_per_epoch", c_uint64),
        ("memory_bytes", c_uint64),
        ("stream", c_void_p),
        ("grad_type", c_int),
        ("uneven", c_int),
        ("param_type", c_int),
        ("segments", POINTER(sluice_segment)),
        ("n_segments", c_size_t),
        ("rules", POINTER(sluice_tensor_rule)),
        ("device_shards", c_int),
        ("columns", POINTER(c_uint64)),
    ]


class sluice_model_step(_Struct):
    _fields_ = [
        ("size", c_size_t),
        ("steps", c_uint64),
        ("raised", c_uint),
        ("skipped", c_int),
        ("in_sync", c_int),
        ("wanted", c_int),
        ("anchor_due", c_int),
        ("counted", c_uint),
        ("missed", c_uint64),
        ("exchanges", c_uint64),
    ]


class sluice_model_stats(_Struct):
    _fields_ = [
        ("size", c_size_t),
        ("steps", c_uint64),
        ("pushed_bytes", c_uint64),
        ("pulled_bytes", c_uint64),
        ("dense_bytes", c_uint64),
        ("control_bytes", c_uint64),
        ("pushed_elements", c_uint64),
        ("pulled_elements", c_uint64),
        ("deferred_elements", c_uint64),
        ("nonfinite_elements", c_uint64),
        ("compress_ns", c_uint64),
        ("push_ns", c_uint64),
        ("wait_ns", c_uint64),
        ("pull_ns", c_uint64),
        ("apply_ns", c_uint64),
        ("residual_norm", c_double),
        ("density_up", c_double),
        ("density_down", c_double),
        ("lost_workers", c_uint64),
        ("refused_messages", c_uint64),
        ("skipped_pushes", c_uint64),
        ("staleness", c_uint64 * 8),
        ("threshold_up", c_double),
        ("threshold_down", c_double),
        ("shard_residual_norm", c_double),
        ("compression_error", c_double),
        ("compression_error_down", c_double),
        ("staleness_most", c_uint64),
        ("memory_bytes", c_uint64),
        ("device_ns", c_uint64),
        ("own_pushed_bytes", c_uint64),
        ("own_pulled_bytes", c_uint64),
        ("own_dense_bytes", c_uint64),
        ("guard_raises", c_uint64),
        ("missed_exchanges", c_uint64),
        ("absent_workers", c_uint64),
        ("bits_up", c_uint64),
        ("bits_down", c_uint64),
    ]


class sluice_transport_stats(_Struct):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("puts", c_uint64),
        ("put_bytes", c_uint64),
        ("notifies", c_uint64),
        ("gets", c_uint64),
        ("get_bytes", c_uint64),
        ("by_polling", c_uint64),
    ]


STRUCTS = (sluice_bootstrap, sluice_job_attr, sluice_tensor, sluice_tensor_rule,
           sluice_segment, sluice_vector, sluice_model_attr, sluice_model_step, sluice_model_stats,
           sluice_transport_stats)

_job = _model = c_void_p
_handle = POINTER(c_void_p)

# name: (type of the result, types of the arguments). ctypes releases the GIL during each call.
PROTOTYPES = {
    "sluice_strerror": (c_char_p, [c_int]),
    "sluice_last_error": (c_char_p, []),
    "sluice_version": (c_char_p, [c_char_p]),
    "sluice_setting": (c_int, [c_char_p, c_char_p, c_size_t]),
    "sluice_init": (c_int, [POINTER(sluice_job_attr), _handle]),
    "sluice_split": (c_int, [_job, c_int, c_int, _handle]),
    "sluice_finalize": (None, [_handle]),
    "sluice_rank": (c_int, [_job]),
    "sluice_size": (c_int, [_job]),
    "sluice_workers": (c_int, [_job]),
    "sluice_living": (c_int, [_job]),
    "sluice_node": (c_char_p, [_job, c_int]),
    "sluice_barrier": (c_int, [_job]),
    "sluice_sum": (c_int, [_job, POINTER(c_double), c_size_t]),
    "sluice_gather": (c_int, [_job, c_void_p, c_size_t, c_void_p]),
    "sluice_broadcast": (c_int, [_job, c_void_p, c_size_t, c_int]),
    "sluice_log_waits": (None, [_job]),
    "sluice_transports": (c_int, [_job, POINTER(sluice_transport_stats), c_size_t,
                                  POINTER(c_size_t)]),
    "sluice_model_open": (c_int, [_job, POINTER(sluice_model_attr), c_void_p, _handle]),
    "sluice_models_open": (c_int, [_job, c_size_t, POINTER(sluice_model_attr), POINTER(c_void_p), _handle]),
    "sluice_model_close": (None, [_handle]),
    "sluice_recipe_text": (c_char_p, [_model]),
    "sluice_set": (c_int, [_model, c_int, c_double]),
    "sluice_step_info": (c_int, [_model, POINTER(sluice_model_step)]),
    "sluice_plan": (c_int, [POINTER(sluice_model_attr), c_int, c_int, c_int, c_char_p,
                            c_size_t]),
    "sluice_push": (c_int, [_model, c_void_p]),
    "sluice_push_range": (c_int, [_model, c_void_p, c_uint64, c_uint64]),
    "sluice_pull": (c_int, [_model, c_void_p]),
    "sluice_push_pair": (c_int, [_model, c_void_p, c_void_p]),
    "sluice_push_vector": (c_int, [_model, POINTER(sluice_vector)]),
    "sluice_pull_vector": (c_int, [_model, POINTER(sluice_vector)]),
    "sluice_pull_begin": (c_int, [_model, POINTER(sluice_vector)]),
    "sluice_pull_range": (c_int, [_model, c_uint64, c_uint64]),
    "sluice_point": (c_int, [_model, c_void_p, c_void_p]),
    "sluice_accumulator": (c_int, [_model, POINTER(POINTER(c_float)), POINTER(c_float)]),
    "sluice_hand_over": (c_int, [_model, _model]),
    "sluice_residual": (c_int, [_model, c_void_p]),
    "sluice_idle_step": (c_int, [_model, c_void_p, POINTER(c_int)]),
    "sluice_serve": (c_int, [_model]),
    "sluice_raise": (None, [_model, c_uint]),
    "sluice_checkpoint": (c_int, [_model, c_char_p]),
    "sluice_restore": (c_int, [_model, c_char_p, c_void_p, POINTER(c_uint64)]),
    "sluice_state_size": (c_int, [_model, POINTER(c_size_t)]),
    "sluice_state_save": (c_int, [_model, c_void_p, c_size_t, c_int]),
    "sluice_state_load": (c_int, [_model, c_void_p, c_size_t, c_void_p, POINTER(c_uint64)]),
    "sluice_stats": (c_int, [_model, POINTER(sluice_model_stats)]),
    "sluice_digest": (c_uint64, [c_void_p, c_size_t]),
}


# The Python names of a function's arguments, for messages.
_ARGUMENTS = {
    "sluice_split": ("job", "color", "key"),
    "sluice_node": ("job", "rank"),
    "sluice_broadcast": ("job", "data", "bytes", "root"),
    "sluice_plan": ("attr", "workers", "servers", "form"),
    "sluice_push_range": ("model", "grad", "begin", "count"),
    "sluice_pull_range": ("model", "begin", "count"),
    "sluice_raise": ("model", "flags"),
    "sluice_checkpoint": ("model", "folder"),
    "sluice_restore": ("model", "folder"),
}


def _checking(name: str, function: Any, kinds: Any) -> Any:
    """Returns the function, or a wrapper that first checks its integers and texts."""
    names = _ARGUMENTS.get(name, ())
    checks = [(at, names[at] if at < len(names) else f"argument {at + 1} of {name}", kind)
              for at, kind in enumerate(kinds) if kind in _LIMITS or kind is c_char_p]

    def call(*values: Any) -> Any:
        found = list(values)
        for at, what, kind in checks:
            found[at] = checked(what, kind, found[at])
        return function(*found)

    return call if checks else function


def declare(library: ctypes.CDLL) -> None:
    """Sets the prototype of each function of the library. AttributeError: the library lacks a function."""
    for name, (result, arguments) in PROTOTYPES.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
        setattr(library, name, _checking(name, function, arguments))
