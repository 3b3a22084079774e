#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# sluice.torch.LocalSteps on the CPU, in jobs of processes that meet in a folder.
. "$(dirname "$0")/run.sh"
find_python torch,numpy "python3-torch python3-numpy"
export SLUICE_LOG=error SLUICE_ADVICE=no
exec "$python" "$tests/test_local.py"
