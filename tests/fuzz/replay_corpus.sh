#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every input of the corpus through the fuzz target; runs in make check, with any compiler.
exec tests/fuzz/message_replay "${srcdir:-.}/tests/fuzz/corpus/message"
