# SPDX-License-Identifier: BSD-3-Clause
# A private Slurm on one machine, and the cables between its nodes.
dist_share_SCRIPTS = tools/devcluster/cable tools/devcluster/devcluster
