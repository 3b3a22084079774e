/* SPDX-License-Identifier: BSD-3-Clause
 * Asks the verbs transport which device, port and address it would use here. */
#include "tools/info/probes.h"
#ifdef HAVE_VERBS
#include "rdma/verbs_device.h"
#include "sluice.h"
#include <stdlib.h>

int verbs_choice(char sentence[FINDING_BYTES])
{
	struct verbs_device device;
	char address[80];

	if (verbs_device_choose(getenv("SLUICE_DEVICE"), getenv("SLUICE_GID_INDEX"), &device)) {
		snprintf(sentence, FINDING_BYTES, "%s", sluice_last_error());
		return -1;
	}
	verbs_address_text(&device.address, address);
	snprintf(sentence, FINDING_BYTES,
		 "%s port %d, GID index %d, address %s: %s; %s memory windows of type 2B",
		 device.name, device.port, device.gid_index, address, device.reason,
		 device.attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B ? "has" : "has no");
	return 0;
}
#else
int verbs_choice(char sentence[FINDING_BYTES])
{
	sentence[0] = '\0';
	return 1;
}
#endif
