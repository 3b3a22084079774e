#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Tests the Python package without PyTorch, in jobs of one process.
. "$(dirname "$0")/run.sh"
find_python ctypes python3
export SLUICE_LOG=error
exec "$python" -X dev -W error "$tests/test_sluice.py"
