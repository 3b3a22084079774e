/* SPDX-License-Identifier: BSD-3-Clause
 * A libfabric inside one process, which the tests load instead of the real one (--wrap=dlopen,
 * dlsym, dlclose). It really copies memory between the endpoints of the process, and checks every
 * access like a card. The test chooses the provider's rules and the failures. All calls take one
 * lock. */
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
	/* absent is 1 if libfabric is not installed. no_providers is 1 if it has no providers.
	 * lacks names a function that is missing. */
	/* The number of cards, named cxi0 and so on. With 0, there is one without a PCI bus id.
	 * Like cxi and psm3 of libfabric 1.22, each card reports its PCI bus id. cxi0 and cxi1 have
	 * those of two_gpus.h. */
	int nics;
	int absent, no_providers;
	const char *lacks;
	uint32_t version, prov_version;
	/* The provider as fi_getinfo() describes it. It returns one entry for each card, or for
	 * each card and face, in the order of the faces. */
	const char *provider;
	int mr_mode;
	uint64_t mode; /* bits that the provider needs: FI_CONTEXT2, FI_RX_CQ_DATA */
	size_t cq_data_size, mr_key_size, tx_size, inject_size;
	const struct fake_ofi_face *faces; /* NULL: only the attributes above */
	int n_faces;
	const char *domain; /* name of a card; NULL: fake0 and so on */
	int ordered;        /* puts from one endpoint to another are placed in order */
	int has_fd;
	/* Device memory: the provider cannot register it, reads it, registers it but moves no byte,
	 * or refuses to register it. `device` is its address. */
	enum { HMEM_NONE, HMEM_READS, HMEM_DEAD, HMEM_REFUSED } hmem;
	uint8_t *device;
	size_t device_bytes;
	/* Behaviour. The atomic members may change while endpoints are in use. */
	int takes_receives;       /* a notice uses up a receive, and waits if there is none */
	atomic_int no_writedata;  /* fi_writedata() fails with ENOSYS although it was advertised */
	int data_by_call;         /* writemsg refuses data; writedata accepts it, if the provider
				     makes the keys and libfabric's variable is set */
	int unplaced;             /* a put completes before it is placed, whatever its flags */
	atomic_int notices_first; /* a notice comes before its own bytes, which breaks the rule */
	int names_nobody;         /* fi_getinfo()'s error if the hints ask for the senders'
				     addresses */
	atomic_int drops_notices; /* bytes arrive without a notice */
	int late;                 /* number of polls of the peer before an operation is done */
	int stall_after;          /* polls until one takes 1 s; no operation is done before */
	atomic_int holds;         /* operations do not progress while it is set */
	atomic_int refuses;       /* operations to another endpoint return EAGAIN forever */
	atomic_int resets;        /* the next put to another endpoint is lost with its connection */
	atomic_uint flips;        /* bits of an immediate that change on the way */
	atomic_int fails;         /* the next operation to another endpoint ends with this error */
	unsigned fail_call;       /* the number of the fallible call that fails, once; 0: none */
};

struct fake_ofi_counts {
	int objects, infos; /* open ones */
	int misuse;
	char first_misuse[128];
	unsigned calls; /* fallible ones */
	char failed[64];
	uint64_t notices, messages, receives_used, rights_errors, swapped;
	uint64_t early;      /* puts that completed before they were placed */
	uint64_t under_way;  /* bytes of unfinished puts, gets and messages */
	uint64_t registered; /* bytes of all registrations */
};

extern struct fake_ofi_settings fake_ofi;
extern struct fake_ofi_counts fake_ofi_counts;

/* Makes the fake simulate the provider net of libfabric 1.17, which supports everything. Nothing
 * may be open. */
void fake_ofi_reset(void);
void fake_ofi_plays_efa(void);    /* with the fabrics efa-direct and efa */
void fake_ofi_plays_cxi(int old); /* old: simulates a version before 2.5.0 */
void fake_ofi_plays_opx(void);
/* Returns NULL if nothing is open and no rule of the interface was broken; otherwise a message. */
const char *fake_ofi_leak(void);
#endif
