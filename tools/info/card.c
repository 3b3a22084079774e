/* SPDX-License-Identifier: BSD-3-Clause
 * --card: opens the RDMA device that Sluice would use, and measures its behaviour. */
#include "tools/info/probes.h"
#ifdef HAVE_VERBS
#include "base/env.h"
#include "rdma/card_facts.h"
#include "rdma/queues.h"
#include "sluice.h"
#include <errno.h>
#include <string.h>

static const char section[] = "Card";

enum { QUEUE_DEPTH = 64 };

static void report_windows(const struct card_facts *f, struct report *r)
{
	if (*f->no_windows)
		report_add(r, VERDICT_INFO, section, "card-windows", NULL,
			   "none: %s; each peer gets its own protection domain", f->no_windows);
	else
		report_add(r, VERDICT_INFO, section, "card-windows", NULL,
			   "memory windows of type 2B work; the driver binds up to %s to one",
			   bytes_text(f->longest_window));
}

static void report_connection(const struct card_facts *f, struct report *r)
{
	const struct ibv_qp_attr *client = &f->side[0], *server = &f->side[1];
	const struct ibv_ah_attr *way = &client->ah_attr;

	report_add(r, VERDICT_INFO, section, "card-rnr", NULL,
		   "if a peer has no receive posted, the card repeats a send after %.2f ms (timer "
		   "%u) as the client, and %.2f ms (timer %u) as the server",
		   card_facts_rnr_us(client->min_rnr_timer) / 1000, client->min_rnr_timer,
		   card_facts_rnr_us(server->min_rnr_timer) / 1000, server->min_rnr_timer);
	report_add(r, VERDICT_INFO, section, "card-class", NULL,
		   "traffic class %u (DSCP %u), service level %u",
		   way->is_global ? way->grh.traffic_class : 0,
		   way->is_global ? way->grh.traffic_class >> 2 : 0, way->sl);
	report_add(r, VERDICT_INFO, section, "card-mtu", NULL, "packets of %u bytes",
		   client->path_mtu ? 128u << client->path_mtu : 0);
	report_add(r, VERDICT_INFO, section, "card-ack-timeout", NULL,
		   "%.1f ms, %u retries as the client; %.1f ms, %u retries as the server",
		   4.096e-3 * (double)(1u << client->timeout % 32), client->retry_cnt,
		   4.096e-3 * (double)(1u << server->timeout % 32), server->retry_cnt);
}

void probe_card(struct report *r)
{
	struct settings settings;
	struct card_facts f;
	int rc = env_load(&settings);
	const struct transport_config config = {
		.queue_depth = QUEUE_DEPTH,
		.device = settings.device,
		.gid_index = settings.verbs.gid_index,
		.gid_net = settings.verbs.gid_net,
		.traffic_class = settings.verbs.traffic_class,
		.service_level = settings.verbs.service_level,
		.interface = settings.interface,
		.memory_windows = settings.verbs.memory_windows,
		.relaxed_ordering = settings.verbs.relaxed_ordering,
		.lost_after_ms = settings.patience.lost_after_ms,
		.link_lost_after_ms = settings.patience.link_lost_after_ms
	};

	if (!rc)
		rc = card_facts_measure(&config, &f);
	if (rc) {
		report_add(r, VERDICT_FAIL, section, "card", "see the section RDMA", "%s",
			   sluice_last_error());
		return;
	}
	report_add(r, VERDICT_OK, section, "card", NULL,
		   "%s port %d was opened twice and connected to itself", f.device, f.port);
	report_windows(&f, r);
	report_add(r, VERDICT_INFO, section, "card-inline", NULL, "%u bytes in a request",
		   f.inline_bytes);
	report_add(r, VERDICT_INFO, section, "card-pinned", NULL,
		   "%s for a queue pair of %u requests", bytes_text(f.pair_pinned), f.requests);
	report_connection(&f, r);
	report_add(r, VERDICT_INFO, section, "card-relaxed", NULL, "relaxed ordering is %s",
		   f.relaxed ? "accepted" : "refused");
	report_add(r, VERDICT_INFO, section, "card-dma-buf", NULL, "%s%s",
		   f.dmabuf ? "the driver registers none: " : "the driver registers them",
		   f.dmabuf ? strerror(f.dmabuf) : "");
}
#else
void probe_card(struct report *r)
{
	report_add(r, VERDICT_FAIL, "Card", "card", "build Sluice with rdma-core's headers",
		   "this build has no verbs transport");
}
#endif
