/* SPDX-License-Identifier: BSD-3-Clause
 * Asks each transport to other nodes for its choice of device, or of provider and interface. */
#include "base/env.h"
#include "tools/info/probes.h"
#ifdef HAVE_VERBS
#include "rdma/verbs_device.h"
#include "sluice.h"
#include <stdlib.h>

int verbs_choice(char sentence[FINDING_BYTES])
{
	struct verbs_device device;
	char address[80];
	const struct verbs_wanted wanted = { .device = env_text("SLUICE_DEVICE"),
					     .interface = env_text("SLUICE_INTERFACE"),
					     .gid_index = env_text("SLUICE_GID_INDEX"),
					     .gid_net = env_text("SLUICE_GID_NET") };

	if (verbs_device_choose(&wanted, &device)) {
		snprintf(sentence, FINDING_BYTES, "%s", sluice_last_error());
		return -1;
	}
	snprintf(sentence, FINDING_BYTES,
		 "%s port %d, GID index %d, address %s: %s; %s memory windows of type 2B",
		 device.name, device.port, device.gid_index, verbs_device_text(&device, address),
		 device.reason,
		 device.attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B ? "has" : "has no");
	return 0;
}

int verbs_forks(char sentence[FINDING_BYTES])
{
	static const char *const sentences[] = {
		[VERBS_FORK_COPIED] = "children may be forked: the kernel copies pinned pages",
		[VERBS_FORK_GUARDED] =
			"children may be forked: ibv_fork_init() guards pinned pages",
		[VERBS_FORK_DANGEROUS] =
			"a forked child may break its rank: ibv_fork_init() failed",
	};
	const enum verbs_fork fork = verbs_fork_guard();

	snprintf(sentence, FINDING_BYTES, "%s", sentences[fork]);
	return fork == VERBS_FORK_DANGEROUS ? -1 : 0;
}
#else
int verbs_choice(char sentence[FINDING_BYTES])
{
	sentence[0] = '\0';
	return 1;
}

int verbs_forks(char sentence[FINDING_BYTES])
{
	sentence[0] = '\0';
	return 1;
}
#endif

#ifdef HAVE_LIBFABRIC
#include "rdma/ofi_provider.h"
#include "sluice.h"
#include <stdlib.h>

int ofi_choice(struct fabric_choice *out)
{
	struct ofi_choice choice;

	*out = (struct fabric_choice){ 0 };
	if (ofi_choose(env_text("SLUICE_PROVIDER"), env_text("SLUICE_INTERFACE"), &choice)) {
		snprintf(out->sentence, sizeof(out->sentence), "%s", sluice_last_error());
		return -1;
	}
	out->tcp = ofi_choice_is_tcp(&choice);
	snprintf(out->sentence, sizeof(out->sentence), "%s%s", choice.text,
		 ofi_choice_is_tcp(&choice) ?
			 ": TCP through the kernel's sockets, which is slower than RDMA" :
			 "");
	if (choice.info->domain_attr->name)
		snprintf(out->interface, sizeof(out->interface), "%s",
			 choice.info->domain_attr->name);
	out->defect = ofi_choice_defect(&choice);
	ofi_choice_end(&choice);
	return 0;
}
#else
int ofi_choice(struct fabric_choice *out)
{
	*out = (struct fabric_choice){ 0 };
	return 1;
}
#endif
