# SPDX-License-Identifier: BSD-3-Clause
# jq and gnuplot are needed where it runs, not where it is built.
dist_bin_SCRIPTS = tools/plot/sluice-plot
dist_check_SCRIPTS += tools/plot/check.sh
TESTS += tools/plot/check.sh
