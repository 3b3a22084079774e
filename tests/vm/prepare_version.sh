# SPDX-License-Identifier: BSD-3-Clause
# For test_version.sh, on the machine that builds: Sluice with another wire version.
mkdir -p "$LOGS/other"
cd "$LOGS/other" || exit
("$TOP/configure" -q --disable-static CFLAGS="-O1 -DSLUICE_WIRE_VERSION=99" && make -s -j"$(nproc)" sluice-train) >../other.log 2>&1
