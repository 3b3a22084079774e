#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Tests sluice.torch on the CPU, in jobs of two or three processes that find each other through a folder.
. "$(dirname "$0")/run.sh"
find_python torch python3-torch
export SLUICE_LOG=error SLUICE_ADVICE=no
"$python" "$tests/test_torch.py" && "$python" "$tests/test_group.py" && "$python" "$tests/test_monitor.py" && "$python" "$tests/test_named.py" && "$python" "$tests/test_change.py" && "$python" "$tests/test_table.py" && "$python" "$tests/test_integrations.py" && exec "$python" "$tests/test_gpt.py"
