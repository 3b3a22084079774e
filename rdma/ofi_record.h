/* SPDX-License-Identifier: BSD-3-Clause
 * The part of a rank's record that describes how libfabric reaches it. It comes through the
 * bootstrap, and is hostile until ofi_record_check() accepts it. Called by ofi.c. */
#ifndef RDMA_OFI_CARD_H
#define RDMA_OFI_CARD_H
#include "rdma/ofi_fabric.h"
#include <stddef.h>
#include <stdint.h>

/* Returns 0 or SLUICE_E*; bytes holds TRANSPORT_RECORD_BYTES. */
int ofi_record_write(const struct ofi_fabric *fabric, int rank, uint8_t *bytes, size_t *len_out);
/* Returns the address in that rank's record if this rank's provider can use it, and sets *notice to
 * how puts announce themselves to the peer. Otherwise returns NULL and *rc, with the error set. */
const uint8_t *ofi_record_check(const struct ofi_fabric *fabric, int own_rank, int rank,
				const uint8_t *record, size_t len, enum ofi_notice *notice,
				int *rc);
#endif
