/* SPDX-License-Identifier: BSD-3-Clause
 * Reports on libfabric, which reaches nodes without RDMA: what the transport ofi would use here. It
 * is needed if SLUICE_TRANSPORT names it, or if it is allowed and there is no RDMA here. */
#include "base/env.h"
#include "tools/info/probes.h"
#include <stdlib.h>
#include <string.h>

static const char section[] = "libfabric";

enum { SLOW_MTU = 1500, QUICK_MBIT = 10000 };

/* Checks the network interface that TCP uses. The interfaces of other providers may not be in
 * sysfs. */
static void judge_interface(const struct node *node, struct report *r, const char *name, int named)
{
	char mtu[LINE_BYTES], speed[LINE_BYTES] = "", state[LINE_BYTES] = "unknown";
	int mbit;

	if (node_line(node, mtu, "/sys/class/net/%s/mtu", name))
		return;
	node_line(node, state, "/sys/class/net/%s/operstate", name);
	if (node_line(node, speed, "/sys/class/net/%s/speed", name))
		speed[0] = '\0'; /* virtual interfaces have no speed, or -1 */
	mbit = atoi(speed);
	if (!strcmp(state, "down") || !strcmp(state, "lowerlayerdown"))
		report_add(r, named ? VERDICT_FAIL : VERDICT_INFO, section, "fabric-interface",
			   "connect it, or name another one with SLUICE_INTERFACE",
			   "%s is %s: it reaches no other node", name, state);
	else if (mbit >= QUICK_MBIT && atoi(mtu) <= SLOW_MTU)
		report_add(
			r, named ? VERDICT_WARN : VERDICT_INFO, section, "fabric-interface",
			"if the switches allow it, set 9000 on all nodes (ip link set dev ... mtu "
			"9000): the kernel then handles a sixth of the packets",
			"%s: MTU %s at %d Mb/s, %s", name, mtu, mbit, state);
	else
		report_add(r, named ? VERDICT_OK : VERDICT_INFO, section, "fabric-interface", NULL,
			   "%s: MTU %s, %s%s, %s", name, mtu, mbit > 0 ? speed : "speed not known",
			   mbit > 0 ? " Mb/s" : "", state);
}

/* How important the transport is on this node. */
enum need { NOT_ALLOWED, ALLOWED, NEEDED, NAMED };

static enum need need_of(const struct node *node)
{
	char sentence[FINDING_BYTES];

	if (!transport_allowed("ofi"))
		return NOT_ALLOWED;
	if (transport_named(node, "ofi"))
		return NAMED;
	return transport_allowed("verbs") && !verbs_choice(sentence) ? ALLOWED : NEEDED;
}

static void judge_choice(const struct node *node, struct report *r,
			 const struct fabric_choice *choice, enum need need)
{
	const char *provider = env_text("SLUICE_PROVIDER");
	const int meant = provider && *provider;

	if (need == NOT_ALLOWED)
		report_add(r, VERDICT_INFO, section, "fabric-choice", NULL,
			   "not used, because SLUICE_TRANSPORT does not allow ofi: %s",
			   choice->sentence);
	else if (need == ALLOWED)
		report_add(r, VERDICT_INFO, section, "fabric-choice", NULL,
			   "used for ranks that RDMA does not reach: %s", choice->sentence);
	else if (choice->tcp && !meant)
		report_add(r, VERDICT_WARN, section, "fabric-choice",
			   "cards for RDMA or a fabric with its own provider are faster; set "
			   "SLUICE_PROVIDER to accept TCP without this warning",
			   "%s", choice->sentence);
	else
		report_add(r, VERDICT_OK, section, "fabric-choice", NULL, "%s", choice->sentence);
	if (choice->defect)
		report_add(r, need >= NEEDED ? VERDICT_WARN : VERDICT_INFO, section,
			   "fabric-version", NULL,
			   "this version of the provider has a known defect: %s", choice->defect);
	judge_interface(node, r, choice->interface, need >= NEEDED);
}

static void judge_absence(struct report *r, const char *why, enum need need)
{
	static const enum verdict verdicts[] = { [NOT_ALLOWED] = VERDICT_INFO,
						 [ALLOWED] = VERDICT_INFO,
						 [NEEDED] = VERDICT_WARN,
						 [NAMED] = VERDICT_FAIL };
	static const char *const remedies[] = {
		[NEEDED] =
			"without libfabric only ranks on this node are reached; correct the cause "
			"above, or SLUICE_PROVIDER and SLUICE_INTERFACE if they are set",
		[NAMED] = "correct SLUICE_PROVIDER or SLUICE_INTERFACE, or leave ofi out of "
			  "SLUICE_TRANSPORT",
	};

	report_add(r, verdicts[need], section, "fabric-choice", remedies[need], "%s", why);
}

void probe_fabric(const struct node *node, struct report *r)
{
	const enum need need = need_of(node);
	struct fabric_choice choice;

	if (*node->root)
		return;
	switch (ofi_choice(&choice)) {
	case 0: judge_choice(node, r, &choice, need); break;
	case -1: judge_absence(r, choice.sentence, need); break;
	default:
		report_add(r, VERDICT_INFO, section, "fabric-choice", NULL,
			   "not used: this build has no ofi transport");
	}
}
