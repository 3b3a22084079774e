/* SPDX-License-Identifier: BSD-3-Clause
 * The probes of a node. Each adds its findings to the report; none changes anything. */
#ifndef INFO_PROBES_H
#define INFO_PROBES_H
#include "tools/info/node.h"
#include "tools/info/report.h"

void probe_sluice(const struct node *node, struct report *r); /* version, transports, settings */
void probe_rdma(const struct node *node, struct report *r);   /* devices, ports, GIDs, the choice */
void probe_fabric(const struct node *node, struct report *r); /* what libfabric offers */
void probe_memlock(const struct node *node, struct report *r);
void probe_shm(const struct node *node, struct report *r);
void probe_launcher(const struct node *node, struct report *r); /* PMIx, Slurm */
void probe_gpu(const struct node *node,
	       struct report *r);      /* driver, peer memory, IOMMU, ACS, and: */
void probe_nearness(struct report *r); /* distances between cards and GPUs of this machine */
/* Reports the card that each of `ranks` local ranks of this machine would use. */
void probe_cards_of_ranks(int ranks, struct report *r);

/* Opens the RDMA device that Sluice would use, and reports its behaviour. */
void probe_card(struct report *r);

/* Returns 1 if SLUICE_TRANSPORT allows the transport. */
int transport_allowed(const char *name);
/* Returns 1 if this build has the transport. */
int transport_built(const char *name);
/* Returns 1 if the transport is requested by name: in SLUICE_TRANSPORT, or verbs by
 * --need-verbs. */
int transport_named(const struct node *node, const char *name);

/* Calls the verbs transport's own choice for this machine. Returns 0 with a sentence about device,
 * port, GID and the reason; -1 with the reason why there is no device; 1 if this build has no
 * verbs. */
int verbs_choice(char sentence[FINDING_BYTES]);
/* Called after verbs_choice(). Returns 0 with a sentence if a rank may fork children, -1 with a
 * sentence if not, and 1 if this build has no verbs. */
int verbs_forks(char sentence[FINDING_BYTES]);
/* The choice of the transport over libfabric. sentence names provider, interface and version. tcp
 * is 1 for TCP. interface is the network interface or the provider's equivalent. defect is a known
 * defect of this version of the provider with its remedy, or NULL. */
struct fabric_choice {
	char sentence[FINDING_BYTES], interface[NAME_BYTES];
	int tcp;
	const char *defect;
};
int ofi_choice(struct fabric_choice *choice);

/* Returns a text such as "64 KiB", in one of a few buffers that are reused in turn. */
const char *bytes_text(uint64_t bytes);
#endif
