# SPDX-License-Identifier: BSD-3-Clause
"""Finds and loads libsluice, once, when the package is imported."""
from __future__ import annotations

import ctypes
import os
import re
import subprocess
from typing import List, Optional, Tuple

from . import _abi
from ._version import VERSION
from .errors import BY_CODE, Error

SONAME = "libsluice.so.0"


def _by_pkg_config() -> Tuple[Optional[str], str]:
    """Returns the library of sluice's pkg-config file, or None and the reason why there is none."""
    try:
        answer = subprocess.run(["pkg-config", "--variable=libdir", "sluice"],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                timeout=30)
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, f"pkg-config did not run ({error})"
    if answer.returncode != 0:
        return None, "pkg-config knows no package sluice"
    return os.path.join(answer.stdout.strip(), SONAME), ""


def _load() -> Tuple[ctypes.CDLL, str]:
    named = os.environ.get("SLUICE_LIBRARY")
    if named:
        try:
            return ctypes.CDLL(named), named
        except OSError as error:
            raise ImportError(f"SLUICE_LIBRARY={named} cannot be loaded: {error}") from None
    tried: List[str] = []
    try:
        return ctypes.CDLL(SONAME), SONAME
    except OSError as error:
        tried.append(str(error))
    path, why = _by_pkg_config()
    if path is None:
        tried.append(why)
    else:
        try:
            return ctypes.CDLL(path), path
        except OSError as error:
            tried.append(str(error))
    raise ImportError(f"no {SONAME}: {'; '.join(tried)}. Install Sluice, and name its lib directory in "
                      "LD_LIBRARY_PATH, its pkgconfig directory in PKG_CONFIG_PATH, or the library "
                      "itself in SLUICE_LIBRARY.")


def _check_version(library: ctypes.CDLL, path: str) -> str:
    library.sluice_version.restype = ctypes.c_char_p
    text = library.sluice_version(None).decode()
    match = re.match(r"(\d+)\.(\d+)\.", text)
    wanted = VERSION.split(".")
    if not match or list(match.groups()) != wanted[:2]:
        raise ImportError(f"{path} is Sluice {text}, but this Python package was made for "
                          f"{wanted[0]}.{wanted[1]}.*: install the two from one version, or name the "
                          "right library in SLUICE_LIBRARY")
    return text


lib, path = _load()
version = _check_version(lib, path)
try:
    _abi.declare(lib)
except AttributeError as error:
    raise ImportError(f"{path}, Sluice {version}, lacks a function of version {VERSION}: {error}; "
                      "install library and Python package from one version") from None


def failure(code: int) -> Error:
    """Returns the exception for a negative code of this thread's last call."""
    sentence = lib.sluice_last_error() or lib.sluice_strerror(code)
    error = BY_CODE.get(code, Error)(sentence.decode(errors="replace"))
    error.code = code
    return error


def check(code: int) -> None:
    """Raises an exception with the library's message if a call returned a negative code."""
    if code < 0:
        raise failure(code)
