/* SPDX-License-Identifier: BSD-3-Clause
 * libfabric, by which nodes without RDMA are reached: what the transport ofi would use here. It is
 * used only where SLUICE_TRANSPORT names it, and asked about in any case, so that a user learns
 * what naming it would bring. */
#include "tools/info/probes.h"

static const char section[] = "libfabric";

void probe_fabric(const struct node *node, struct report *r)
{
	const int named = transport_allowed("ofi");
	char sentence[FINDING_BYTES];
	const char *defect;

	if (*node->root)
		return;
	switch (ofi_choice(sentence, &defect)) {
	case 0:
		report_add(r, named ? VERDICT_OK : VERDICT_INFO, section, "fabric-choice", NULL,
			   "%s%s", named ? "" : "not used, as SLUICE_TRANSPORT does not name ofi: ",
			   sentence);
		break;
	case -1:
		report_add(
			r, named ? VERDICT_FAIL : VERDICT_INFO, section, "fabric-choice",
			named ? "correct SLUICE_PROVIDER or SLUICE_INTERFACE, or leave ofi out of "
				"SLUICE_TRANSPORT" :
				NULL,
			"%s", sentence);
		break;
	default:
		report_add(r, VERDICT_INFO, section, "fabric-choice", NULL,
			   "not used: this build has no ofi transport");
	}
	if (defect)
		report_add(r, named ? VERDICT_WARN : VERDICT_INFO, section, "fabric-version", NULL,
			   "this version of the provider has a known defect: %s", defect);
}
