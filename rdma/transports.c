/* SPDX-License-Identifier: BSD-3-Clause
 * The table of transports, in order of preference. The runtime asks each in turn for every peer. */
#include "rdma/transport.h"

const struct transport_ops *const transports[] = {
	&self_transport,
	&shm_transport,
#ifdef HAVE_VERBS
	&verbs_transport,
#endif
	NULL,
};
