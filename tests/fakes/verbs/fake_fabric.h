/* SPDX-License-Identifier: BSD-3-Clause
 * A network card and its connection manager inside one process, linked instead of libibverbs and
 * librdmacm. It really copies memory between the queue pairs of the process (one or more threads
 * for several ranks), and checks every access like a card. The test chooses the failures.
 * fake_verbs.c is the card, fake_wires.c its queue pairs, fake_placing.c the way of their packets
 * to memory, fake_datagrams.c the queue pairs for datagrams, fake_cm.c the connection manager. All
 * calls of the fake take one lock. */
#ifndef TESTS_FAKE_FABRIC_H
#define TESTS_FAKE_FABRIC_H
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stddef.h>
#include <stdint.h>

enum fake_cm_mode {
	FAKE_CM_ANSWERS,
	FAKE_CM_SILENT, /* a connect never completes */
};

/* How the bytes of a WRITE reach the peer's memory. Packets on their way are placed when completion
 * queues are polled. */
enum fake_placing {
	FAKE_AT_ONCE, /* when the request is executed, and in order */
	/* Packets are placed in any order, also those of several WRITEs and to one address, as with
	 * adaptive routing. The completion of a WRITE comes after the packets of this one and of
	 * all before it on its queue pair. */
	FAKE_IN_ANY_ORDER,
	FAKE_AFTER_COMPLETION /* the completion comes first, which no card may do */
};

/* What happens to a datagram. */
enum fake_fate { FAKE_PASSES, FAKE_IS_LOST, FAKE_COMES_TWICE, FAKE_COMES_LATE };

enum { FAKE_PKEYS = 4, FAKE_LID = 7 };

/* Properties and behaviour of the device. fake_reset() sets up a device that supports everything
 * and keeps every rule. */
struct fake_settings {
	struct ibv_device_attr attr;
	uint32_t max_inline, max_message;
	int devices;                   /* number of devices: 1: fake0; 2: also fake1; ... */
	int port_down;                 /* bit i: the port of device i is down */
	int no_dmabuf, no_peermem;     /* registering device memory this way is refused */
	int dead_dmabuf, dead_peermem; /* registering this way works, but no byte moves */
	int no_alloc_mw;               /* windows are advertised, but the library has no call for
					  them */
	int no_relaxed;                /* registering with relaxed ordering is refused */
	int no_bind;                   /* windows are advertised, but binding one fails */
	enum ibv_fork_status fork;     /* the fork protection of the kernel, or the one already
					  requested */
	uint64_t (*pair_bytes)(const struct ibv_qp_cap *cap); /* see fake_profile */
	enum ibv_transport_type transport;
	uint8_t link_layer;
	int no_ip;                  /* no IP address leads to the device */
	uint16_t pkeys[FAKE_PKEYS]; /* the partition keys of the port */
	int no_lid;                 /* the port has no LID, so packets need a GRH */
	/* Sees each datagram that leaves, with the numbers of its queue pairs. NULL: all datagrams
	 * pass. */
	enum fake_fate (*tap)(const uint8_t *bytes, size_t n, uint32_t from, uint32_t to);
	int async; /* the next asynchronous event is this enum ibv_event_type + 1; 0: none comes */
	uint64_t longest_window; /* posting the binding of a longer one is refused; 0: none */
	uint32_t takes; /* number of receives that a connected queue pair takes from its queue
			   in advance */
	int last_looks; /* number of polls of the device's events before LAST_WQE_REACHED
			   appears */
	int moved;      /* addresses lead to fake1, which happens when a bond fails over */
	int no_resize;  /* completion queues keep their size */
	/* Each place of a completion queue pins this number of bytes. mlx5: 64; 0: a queue is
	 * memory of the kernel. */
	uint64_t cqe_bytes;
	int cqe_exact;        /* the number of places is not rounded */
	uint64_t pinned_most; /* ibv_resize_cq() does not pin more than this; 0: no limit */
	int no_last_wqe;      /* LAST_WQE_REACHED never appears */
	int polls_most;       /* a poll returns at most this number of completions; 0: no limit */
	int frees_taken; /* a place for a receive is free once a queue pair has taken the receive */
	/* If not 0, the next chain of receives for a connected queue pair is refused at this
	 * one, counted from 1 (ibv_post_recv(3): those before it are posted). */
	uint32_t refused_receive;
	int held;   /* work requests wait for fake_release() */
	int silent; /* work requests get no completion until the queue pair ends */
	int lazy;   /* datagrams leave when the queue for their completions is polled */
	enum fake_placing placing;
	/* Called without the lock when a completion queue is about to be armed. NULL: nothing is
	 * called. */
	void (*arming)(void);
	enum fake_cm_mode cm;
	uint8_t mtu; /* enum ibv_mtu of the ports opened from now on */
	/* The next executed work request of this opcode ends with this status (IBV_WC_SUCCESS:
	 * none). */
	enum ibv_wc_status fail_status;
	enum ibv_wr_opcode fail_opcode;
	uint32_t next_imm;  /* replaces the next immediate; 0: none */
	int next_plain;     /* 1: the next message with an immediate arrives without it */
	unsigned fail_call; /* the number of the fallible call that fails, once; 0: none */
	/* Called with the lock held for each chain that is posted. NULL: nothing is called. */
	void (*looks_at)(const struct ibv_qp *qp, const struct ibv_send_wr *chain);
};

struct fake_counts {
	int contexts, pds, mrs, mws, cqs, srqs, qps, channels, cm_channels, ids, ahs;
	int unacked;       /* unacknowledged events of all kinds */
	int forks_guarded; /* calls of ibv_fork_init() */
	int forks_huge;    /* 1: one of them found RDMAV_HUGEPAGES_SAFE */
	int opened;        /* calls of ibv_open_device() */
	int qps_made;      /* calls of ibv_create_qp() that succeeded */
	int misuse;        /* objects closed in the wrong order, or with events or users left */
	char first_misuse[128];
	uint64_t doorbells; /* calls of ibv_post_send() */
	uint64_t writes, writes_with_imm, reads, binds, invalidations;
	uint64_t bytes_written, bytes_read;
	uint64_t overtakers;  /* packets placed before an earlier one of their queue pair */
	int last_vector;      /* of the last completion queue with a channel */
	uint64_t pinned;      /* bytes pinned by registrations, queue pairs and completion queues,
				 as VmPin in /proc/self/status */
	uint64_t overflows;   /* posts into a full send queue */
	int most_completions; /* size of the largest completion queue */
	int receives_posted;  /* in shared queues, less those that messages took */
	uint64_t cq_overruns, no_receive, access_errors;
	uint64_t receives_leaked;  /* receives kept by queue pairs that ended before
				      LAST_WQE_REACHED */
	uint64_t srq_full;         /* receives refused because the queue was full */
	uint32_t reads_at_once;    /* the largest number of READs that one queue pair had in
				      flight */
	uint32_t most_outstanding; /* the largest number of work requests in one send queue */
	uint64_t connects;
	uint64_t datagrams_sent, datagrams_received;
	uint64_t datagrams_vanished; /* no queue pair took them, or a key was wrong */
	unsigned calls;              /* fallible ones */
	char failed[64];             /* name of the call that was made to fail */
};

extern struct fake_settings fake;
extern struct fake_counts fake_counts;

/* Resets everything. Nothing may be open. */
void fake_reset(void);

/* The cards as their drivers present them to users, from the source of rdma-core 65 (commit
 * 691953d8) and of Linux 6.12. */
enum fake_card { FAKE_MLX5, FAKE_MLX4, FAKE_BNXT_RE, FAKE_IRDMA, FAKE_IONIC, FAKE_RXE, FAKE_CARDS };
struct fake_profile {
	const char *driver;
	int windows;             /* windows of type 2B are advertised */
	int no_alloc_mw;         /* the user's library has no call for them */
	int no_last_wqe;         /* no event reports that a queue pair has taken its last receive */
	int frees_taken;         /* see fake_settings */
	uint64_t longest_window; /* 0: the driver has no limit */
	/* Returns the bytes of a queue pair's queues that the kernel pins; NULL: it pins none. */
	uint64_t (*pair_bytes)(const struct ibv_qp_cap *cap);
	int no_srq; /* there are no shared receive queues */
};
extern const struct fake_profile fake_profiles[FAKE_CARDS];
/* Gives the new card the limits of a profile. Limits in bytes are divided by scale, so that a test
 * reaches them with less memory. */
void fake_be(enum fake_card card, uint64_t scale);
/* Returns 0 if no object is left open, otherwise a message. */
const char *fake_leak(void);
void fake_lock(void); /* recursive */
void fake_unlock(void);
/* Adds `more` to the number of open objects, a member of fake_counts. */
void fake_count(int *objects, int more);
/* Returns 1 if this call must fail, with errno set. */
int fake_fails(const char *call, int error);
void fake_misuse(const char *text);

/* Executes the held work requests of all queue pairs. With backwards, the newest come first. */
void fake_release(int backwards);
/* Declares [base, base + n) to be device memory that is mapped by dma-buf fd (or -1). n = 0: there
 * is none. */
void fake_device_memory(void *base, size_t n);
/* Posts an event of that type to the id of each connection. index counts connections by age; -1
 * means all. */
void fake_cm_event(enum rdma_cm_event_type type, int status, const void *bytes, size_t n);
/* Breaks every connection, so both queue pairs fail. With told, both sides get DISCONNECTED. */
void fake_cm_cut(int told);
/* Breaks all connected queue pairs, whatever connected them. Neither side gets an event. */
void fake_pairs_cut(void);
/* Delivers the datagrams that come late. */
void fake_deliver_late(void);
/* Sends a datagram from the queue pair of this number, without the tap. */
void fake_inject(const void *bytes, size_t n, uint32_t from, uint32_t to, uint32_t qkey);
/* Returns 1 if some registration of [base, base + n) has relaxed ordering. */
int fake_relaxed(const void *base, size_t n);
/* Returns 1 if some registration lets a peer write into [base, base + n). */
int fake_remote_writable(const void *base, size_t n);

/* ---- shared by the parts of the fake ---- */
enum { INLINE_BYTES = 256, FAKE_DEVICES = 40 };

struct fake_receive {
	uint64_t wr_id;
	struct ibv_sge sge;
};

struct fake_qp {
	struct ibv_qp qp;
	struct fake_qp *next, *peer;
	uint32_t dest, max_inline;
	struct ibv_qp_attr attr;       /* all attributes set so far */
	uint8_t port_mtu;              /* known once rdma_cm knows the queue pair */
	struct fake_receive *receives; /* ring of a queue pair without a shared queue */
	uint32_t max_receives, first_receive, n_receives;
	struct fake_wr *wrs; /* ring of wr_capacity; those in [first, end) are not executed yet */
	uint32_t capacity;
	uint64_t pinned;
	uint64_t first, end, retired; /* numbers of work requests; see wrs */
	uint32_t reads, max_reads;
	uint32_t taken; /* receives taken from the shared queue for later messages of this queue
			   pair */
	int looks;      /* remaining polls before LAST_WQE_REACHED is reported; 0: it is not due */
	int stopped;    /* the queue pair is in the error state */
};
struct fake_wr {
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	uint8_t bytes[INLINE_BYTES];
};

struct fake_mr {
	struct ibv_mr mr;
	struct fake_mr *next;
	uint8_t *host; /* address of the bytes of mr.addr in this process */
	int access, dead, windows;
	void *mapped;
};

struct fake_mw {
	struct ibv_mw mw;
	struct fake_mw *next;
	struct fake_mr *mr; /* NULL: bound to nothing */
	struct fake_qp *qp;
	uint32_t key; /* the card's key; the user may change mw.rkey */
	uint64_t address, bytes;
	unsigned access;
};

struct fake_cqe {
	struct ibv_wc wc;
	struct fake_qp *qp;   /* the queue pair with the send queue entry that it frees, or NULL */
	struct fake_srq *srq; /* the queue with the place that it frees, or NULL */
	uint64_t retires;
	uint64_t after; /* the last packet that must be placed before it */
};

struct fake_cq {
	struct ibv_cq cq;
	struct fake_cq *next;
	struct fake_cqe *entries;
	int capacity, first, count, armed, pending, unacked;
	uint64_t pinned;
};

struct fake_srq {
	struct ibv_srq srq;
	uint64_t *wr_ids;
	uint32_t capacity, first, count;
	uint32_t in_use; /* receives taken by queue pairs whose completions were not polled yet */
};

extern struct fake_mr *fake_mrs;
extern struct fake_mw *fake_mws;
extern struct fake_cq *fake_cqs;
extern struct fake_qp *fake_qps;
extern struct ibv_srq *fake_first_srq; /* the oldest, or NULL */

struct fake_cq *fake_cq_of(struct ibv_cq *cq);
void fake_complete(struct fake_cq *cq, struct fake_cqe cqe);
void fake_unbind(struct fake_mw *window);
int fake_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int fake_req_notify_cq(struct ibv_cq *cq, int solicited);
int fake_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int fake_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
enum ibv_wc_status fake_send_datagram(struct fake_qp *q, const struct fake_wr *f);
/* Returns where a work request of the queue pair reads or writes, or NULL if it may not access that
 * memory. */
uint8_t *fake_local_bytes(const struct fake_qp *q, const struct ibv_sge *sge, int write);
/* fake_gid() returns the GID of the port. fake_leads_here() returns 1 if an address is that of the
 * port. */
const uint8_t *fake_gid(void);
int fake_leads_here(const struct ibv_ah_attr *to);
/* Moves bytes like a card: a word that is aligned on both sides is never torn, even if a processor
 * accesses it at the same time. */
void fake_move_bytes(uint8_t *to, const uint8_t *from, uint32_t n);
/* Cuts the bytes into packets of at most `most` bytes, which reach the memory `to` of the queue
 * pair's side as fake.placing says. */
void fake_send_packets(const struct fake_qp *qp, uint8_t *to, const uint8_t *from, uint32_t n,
		       uint32_t most);
/* Returns the number of the last packet that was sent. */
uint64_t fake_last_packet(void);
/* Returns 1 if a completion must wait for a packet. */
int fake_waits(const struct fake_cqe *e);
/* Places a random part of the packets that are on their way. */
void fake_place_some(void);
/* Places all packets for a queue pair (NULL: for all). */
void fake_place_all(const struct fake_qp *qp);
/* Sends the waiting datagrams whose completions go to this queue. */
void fake_send_waiting(const struct ibv_cq *cq);
int fake_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
struct ibv_context *fake_context(void);
/* Returns the context of the device to which addresses lead. */
struct ibv_context *fake_route(void);
struct fake_qp *fake_qp_of(struct ibv_qp *qp);
struct fake_qp *fake_qp_numbered(uint32_t number);
void fake_qp_error(struct fake_qp *qp);
/* Returns the queue pair whose LAST_WQE_REACHED is due, and counts a poll. */
struct fake_qp *fake_last_wqe(void);
/* Allocates zeroed memory, which free() releases. Uses calls that no test replaces to make the
 * library fail. */
void *fake_new(size_t n);
int fake_pulse(int fd);
void fake_drain(int fd);
#endif
