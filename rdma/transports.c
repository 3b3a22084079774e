/* SPDX-License-Identifier: BSD-3-Clause
 * The table of transports, in order of preference. The runtime asks each in turn for every peer. */
#include "rdma/transport.h"

#ifndef HAVE_VERBS
static const struct transport_ops verbs_transport = {
	.name = "verbs",
	.farthest = DISTANCE_NETWORK,
	.absent = "install libibverbs-dev, librdmacm-dev and libssl-dev and configure again",
};
#endif
#ifndef HAVE_LIBFABRIC
static const struct transport_ops ofi_transport = {
	.name = "ofi",
	.farthest = DISTANCE_NETWORK,
	.last_resort = 1,
	.absent = "install libfabric-dev and libssl-dev and configure again",
};
#endif

const struct transport_ops *const transports[] = {
	&self_transport, &shm_transport, &verbs_transport, &ofi_transport, NULL,
};
