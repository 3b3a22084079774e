/* SPDX-License-Identifier: BSD-3-Clause
 * See carrier.h. */
#include "rdma/carrier.h"
#include <string.h>

const struct carrier_ops *carrier_of(const struct verbs_device *device)
{
	return verbs_device_by_gid(device) ? &carrier_ud : &carrier_cm;
}

/* A port that has an IP address and a GID counts as two cards. */
const struct carrier_ops *carrier_between(const struct verbs_card *a, const struct verbs_card *b)
{
	const struct network of_a = verbs_card_network(a), of_b = verbs_card_network(b);

	if (!verbs_card_by_gid(a) && !verbs_card_by_gid(b))
		return of_a.kind == of_b.kind ? &carrier_cm : NULL;
	return memcmp(&of_a, &of_b, sizeof(of_a)) ? NULL : &carrier_ud;
}
