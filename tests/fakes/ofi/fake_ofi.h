/* SPDX-License-Identifier: BSD-3-Clause
 * A libfabric inside one process, which the tests load in place of the real one (--wrap=dlopen,
 * dlsym, dlclose): memory is really copied between the endpoints of the process, every access is
 * checked as a card does, and the test chooses the provider's rules and what goes wrong. Its calls
 * take one lock. */
#ifndef TESTS_FAKE_OFI_H
#define TESTS_FAKE_OFI_H
#include <rdma/fabric.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* One way to use a provider: a fabric, or a mode of registration. fi_getinfo() lists those that the
 * hints allow. */
struct fake_ofi_face {
	const char *fabric;
	int mr_mode;
	uint64_t mode;
	size_t mr_key_size;
	int takes_receives, direct; /* direct: see fake_ofi_plays_efa() */
};

struct fake_ofi_settings {
	/* The library: 1: it is not installed; it has no provider; a function that it lacks. */
	/* Cards of the provider, named cxi0 and so on; 0: one without a place. Like cxi and psm3 of
	 * libfabric 1.22, each says its PCI bus id: that of two_gpus.h for cxi0 and cxi1. */
	int nics;
	int absent, no_providers;
	const char *lacks;
	uint32_t version, prov_version;
	/* The provider, as fi_getinfo() describes it: by one entry for each card, or by one for
	 * each card and face, the faces in their order. */
	const char *provider;
	int mr_mode;
	uint64_t mode; /* that it needs: FI_CONTEXT2, FI_RX_CQ_DATA */
	size_t cq_data_size, mr_key_size, tx_size, inject_size;
	const struct fake_ofi_face *faces; /* NULL: it has the attributes above */
	int n_faces;
	const char *domain; /* of a card; NULL: fake0 and so on */
	int ordered;        /* puts of one endpoint to another are placed in their order */
	int has_fd;
	/* Device memory: that it registers none, reads it, registers it and moves nothing, or
	 * refuses to register it; and where it is. */
	enum { HMEM_NONE, HMEM_READS, HMEM_DEAD, HMEM_REFUSED } hmem;
	uint8_t *device;
	size_t device_bytes;
	/* What it does; the atomic ones change while endpoints are at work. */
	int takes_receives;       /* a notice uses up a receive, and waits where there is none */
	atomic_int no_writedata;  /* ENOSYS, although it promised */
	int data_by_call;         /* writemsg refuses data; writedata has it, with the provider's
				     keys and if the variable of libfabric is set */
	int unplaced;             /* a put completes before it is in place, whatever its flags */
	atomic_int notices_first; /* breaks the rule: a notice comes before its own bytes */
	int names_nobody;         /* getinfo's error where senders are to be named */
	atomic_int drops_notices; /* bytes arrive, and nobody is told */
	int late;                 /* so many polls of the peer pass before an operation is done */
	atomic_int holds;         /* nothing is done while it is set */
	atomic_int refuses;       /* EAGAIN for ever for what goes to another endpoint */
	atomic_int resets;        /* the next put of another endpoint is lost with its connection */
	atomic_uint flips;        /* bits of an immediate that are changed on the way */
	atomic_int fails;         /* the next operation of another endpoint ends with this error */
	unsigned fail_call;       /* the number of the fallible call that fails, once; 0: none */
};

struct fake_ofi_counts {
	int objects, infos; /* that are open */
	int misuse;
	char first_misuse[128];
	unsigned calls; /* fallible ones */
	char failed[64];
	uint64_t notices, messages, receives_used, rights_errors, swapped;
	uint64_t early;     /* puts that were complete before they were in place */
	uint64_t under_way; /* bytes of puts, gets and messages that are not done */
};

extern struct fake_ofi_settings fake_ofi;
extern struct fake_ofi_counts fake_ofi_counts;

/* Provider net of libfabric 1.17, which has everything; nothing may be open. */
void fake_ofi_reset(void);
void fake_ofi_plays_efa(void);    /* with the fabrics efa-direct and efa */
void fake_ofi_plays_cxi(int old); /* old: before 2.5.0 */
void fake_ofi_plays_opx(void);
/* NULL if nothing is left open, and no rule of the interface was broken; else a sentence. */
const char *fake_ofi_leak(void);
#endif
