/* SPDX-License-Identifier: BSD-3-Clause
 * The table of transports, in order of preference. The runtime asks each in turn for every peer. */
#include "rdma/transport.h"

const struct transport_ops *const transports[] = {
	&self_transport,
	&shm_transport,
#ifdef HAVE_VERBS
	&verbs_transport,
#endif
#ifdef HAVE_LIBFABRIC
	&ofi_transport,
#endif
	NULL,
};

const struct transport_absent transports_absent[] = {
#ifndef HAVE_VERBS
	{ "verbs", "install libibverbs-dev, librdmacm-dev and libssl-dev and configure anew" },
#endif
#ifndef HAVE_LIBFABRIC
	{ "ofi", "install libfabric-dev and libssl-dev and configure anew" },
#endif
	{ NULL, NULL },
};
