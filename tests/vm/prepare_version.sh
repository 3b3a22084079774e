# SPDX-License-Identifier: BSD-3-Clause
# Runs for test_version.sh, on the machine that builds. Builds a Sluice with another wire version.
"$TOP/tests/other_version" "$BUILD" >"$LOGS/other.log" 2>&1
