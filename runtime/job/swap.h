/* SPDX-License-Identifier: BSD-3-Clause
 * Exchanges descriptors of regions among all ranks, in as few rounds as their bytes need. */
#ifndef RUNTIME_SWAP_H
#define RUNTIME_SWAP_H
#include "sluice.h"
#include <stdint.h>

/* Collective. First agrees on rc, as collective_agree() does with `what`. Then sends n descriptors
 * to each peer and receives n from each. Descriptor i for peer p is at index p * n + i of `mine`,
 * and descriptor i of peer p arrives at that index of `theirs`, which begins as zeros. The row of a
 * peer for which round_has() returns 0 stays zero. */
int descriptors_swap(sluice_job *job, int rc, const char *what, const uint8_t *mine, size_t n,
		     uint8_t *theirs);
#endif
