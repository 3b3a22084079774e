# SPDX-License-Identifier: BSD-3-Clause
"""The version of this package, which is that of the library it was made for."""

VERSION = "0.1.0"
