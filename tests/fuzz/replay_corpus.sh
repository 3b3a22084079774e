#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Passes every input of each corpus through its fuzz target. Runs in make check, with any compiler.
status=0
for target in message card checkpoint conf recipe histogram frame restore peer page http trace; do
	# a build without verbs has no frames
	[ $target != frame ] || [ -x tests/fuzz/frame_replay ] || continue
	echo "$target:"
	"tests/fuzz/${target}_replay" "${srcdir:-.}/tests/fuzz/corpus/$target" || status=1
done
exit "$status"
