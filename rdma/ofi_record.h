/* SPDX-License-Identifier: BSD-3-Clause
 * The part of a rank's record that describes how libfabric reaches it. It comes through the
 * bootstrap, and is hostile until ofi_record_check() accepts it. Called by ofi.c. */
#ifndef RDMA_OFI_CARD_H
#define RDMA_OFI_CARD_H
#include "rdma/ofi_fabric.h"
#include <stddef.h>
#include <stdint.h>

/* Writes this rank's record. bytes has room for TRANSPORT_RECORD_BYTES. Returns 0 or SLUICE_E*. */
int ofi_record_write(const struct ofi_fabric *fabric, int rank, uint8_t *bytes, size_t *len_out);
/* If this rank's provider can use the address in that rank's record, returns the address and sets
 * *notice to the way in which puts to the peer announce themselves. Otherwise returns NULL, sets
 * *rc, and stores an error. */
const uint8_t *ofi_record_check(const struct ofi_fabric *fabric, int own_rank, int rank,
				const uint8_t *record, size_t len, enum ofi_notice *notice,
				int *rc);
#endif
