/* SPDX-License-Identifier: BSD-3-Clause
 * See probe.h. */
#include "job/probe.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "rdma/auth.h"
#include "rdma/card_list.h"
#include "sluice.h"
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/errqueue.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A datagram: label, from, to, and index of the address, u32 each; time u64; tag. */
enum {
	AT_LABEL = 0,
	AT_FROM = 4,
	AT_TO = 8,
	AT_ADDRESS = 12,
	AT_TIME = 16,
	AT_TAG = 24,
	DATAGRAM_BYTES = AT_TAG + AUTH_TAG_BYTES,
	SERVED_AT_ONCE = 64,
	ASKS_OF_ALL = 4 /* every fourth question goes to all addresses of a peer */
};

struct probed {
	struct in6_addr address[PROBE_ADDRESSES];
	in_port_t port; /* in network order; 0: the peer cannot be asked */
	int n;
	unsigned asks;      /* so far */
	atomic_uint proven; /* bit i: address i has answered */
	_Atomic uint64_t answered_ns, refused_ns;
};

struct probe {
	int rank, size, fd;
	int low, high; /* the range of SLUICE_PORTS; 0: any port */
	int v4_only;   /* this kernel has no IPv6 */
	struct in6_addr own[PROBE_ADDRESSES];
	int n_own;
	in_port_t port;
	const struct peer_keys *keys; /* NULL: no questions are sent or answered */
	struct probed *peers;         /* [size] */
};

/* ---- this rank's addresses --------------------------------------------------------- */

static struct in6_addr mapped(const struct in_addr *v4)
{
	struct in6_addr a = { 0 };
	a.s6_addr[10] = a.s6_addr[11] = 0xff;
	memcpy(a.s6_addr + 12, v4, 4);
	return a;
}

/* Returns 0 if other nodes cannot use the address to reach this node. */
static int take_address(const struct sockaddr *from, struct in6_addr *out)
{
	if (from && from->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const void *)from;
		*out = mapped(&in->sin_addr);
		return 1;
	}
	if (!from || from->sa_family != AF_INET6)
		return 0;
	*out = ((const struct sockaddr_in6 *)(const void *)from)->sin6_addr;
	return !IN6_IS_ADDR_LINKLOCAL(out);
}

static void add_own(struct probe *p, const struct in6_addr *address)
{
	for (int i = 0; i < p->n_own; i++)
		if (IN6_ARE_ADDR_EQUAL(&p->own[i], address))
			return;
	if (p->n_own < PROBE_ADDRESSES)
		p->own[p->n_own++] = *address;
}

/* Finds this node's address on the network that leads to the launcher, which serves as control
 * network. Returns 1 if there is one. */
static int toward_launcher(struct in6_addr *out)
{
	const char *text = getenv("SLURM_LAUNCH_NODE_IPADDR");
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(9) }, from;
	socklen_t n = sizeof(from);
	if (!text || !*text)
		text = getenv("MASTER_ADDR");
	if (!text || inet_pton(AF_INET, text, &to.sin_addr) != 1)
		return 0;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int found = fd >= 0 && !connect(fd, (struct sockaddr *)&to, sizeof(to)) &&
		    !getsockname(fd, (struct sockaddr *)&from, &n) &&
		    ntohl(from.sin_addr.s_addr) >> 24 != IN_LOOPBACKNET;
	if (found)
		*out = mapped(&from.sin_addr);
	if (fd >= 0)
		close(fd);
	return found;
}

/* Returns 0 for a network card, and 1 for an interface without one, such as a bond or a bridge. An
 * RDMA card comes last with 2, because its network may be the one that is down. */
static int kind_of(const char *interface)
{
	char path[80];
	snprintf(path, sizeof(path), "/sys/class/net/%.40s/device/infiniband", interface);
	if (!access(path, F_OK))
		return 2;
	snprintf(path, sizeof(path), "/sys/class/net/%.40s/device", interface);
	return access(path, F_OK) ? 1 : 0;
}

static void find_addresses(struct probe *p, const char *allowed)
{
	struct ifaddrs *all = NULL;
	struct in6_addr address;
	if (getifaddrs(&all))
		all = NULL;
	if (card_list_is_open(allowed) && toward_launcher(&address))
		add_own(p, &address);
	for (int kind = 0; kind < 3; kind++)
		for (int family = 0; family < 2; family++)
			for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
				char text[INET6_ADDRSTRLEN];
				if (!take_address(i->ifa_addr, &address) ||
				    IN6_IS_ADDR_V4MAPPED(&address) != !family ||
				    !(i->ifa_flags & IFF_UP) ||
				    (i->ifa_flags & IFF_LOOPBACK && card_list_is_open(allowed)) ||
				    kind_of(i->ifa_name) != kind)
					continue;
				if (family)
					inet_ntop(AF_INET6, &address, text, sizeof(text));
				else
					inet_ntop(AF_INET, address.s6_addr + 12, text,
						  sizeof(text));
				if (card_list_allows(allowed, i->ifa_name, text, NULL))
					add_own(p, &address);
			}
	freeifaddrs(all);
}

/* ---- opening and closing ----------------------------------------------------------- */

/* Binds to a free port of SLUICE_PORTS, or lets the kernel choose. port points into the address. */
static int bind_socket(const struct probe *p, struct sockaddr *at, socklen_t n, in_port_t *port)
{
	const int span = p->high - p->low + 1;
	if (!p->high)
		return bind(p->fd, at, n);
	for (int i = 0; i < span; i++) {
		*port = htons((uint16_t)(p->low + (p->rank + i) % span));
		if (!bind(p->fd, at, n))
			return 0;
		if (errno != EADDRINUSE)
			break;
	}
	return -1;
}

static int open_socket(struct probe *p)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_addr = in6addr_any };
	struct sockaddr_in any4 = { .sin_family = AF_INET };
	const int on = 1, off = 0, kind = SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
	socklen_t n = sizeof(any);
	p->fd = socket(AF_INET6, kind, 0);
	if (p->fd >= 0 && !setsockopt(p->fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) &&
	    !bind_socket(p, (struct sockaddr *)&any, sizeof(any), &any.sin6_port)) {
		setsockopt(p->fd, IPPROTO_IPV6, IPV6_RECVERR, &on, sizeof(on));
	} else {
		if (p->fd >= 0)
			close(p->fd);
		p->v4_only = 1;
		p->fd = socket(AF_INET, kind, 0);
		if (p->fd < 0 ||
		    bind_socket(p, (struct sockaddr *)&any4, sizeof(any4), &any4.sin_port))
			return -1;
	}
	/* Without this option the kernel reports refusals only for connected sockets. */
	setsockopt(p->fd, IPPROTO_IP, IP_RECVERR, &on, sizeof(on));
	if (getsockname(p->fd, (struct sockaddr *)&any, &n))
		return -1;
	p->port = any.sin6_port; /* sockaddr_in and sockaddr_in6 have the port at the same offset */
	return 0;
}

int probe_check(const char *allowed)
{
	int rc = card_list_check("SLUICE_CONTROL_INTERFACE", allowed, 0);

	return rc ? fail(rc, "%s", sluice_last_error()) : SLUICE_OK;
}

/* Without the setting a node may well have no such network. With it, the user expects one. */
static void log_no_address(int rank, const char *allowed)
{
	static const char effect[] = "a link that is down for SLUICE_LOST_AFTER counts as a lost "
				     "rank";

	if (card_list_is_open(allowed))
		log_line(LOG_INFO, "runtime", "this node has no address in the control network; %s",
			 effect);
	else
		log_line(LOG_WARN, "runtime",
			 "rank %d: SLUICE_CONTROL_INTERFACE=%s names no interface of this node "
			 "that is up, so %s; name one",
			 rank, allowed, effect);
}

int probe_open(int rank, int size, const char *allowed, const char *ports, struct probe **out)
{
	struct probe *p = *out = calloc(1, sizeof(*p));
	if (p)
		p->fd = -1;
	if (p)
		p->peers = calloc((size_t)size, sizeof(*p->peers));
	if (!p || !p->peers)
		return fail(SLUICE_ENOMEM, "no memory to probe %d ranks", size);
	p->rank = rank;
	p->size = size;
	if (*ports && env_ports(ports, &p->low, &p->high))
		return fail(SLUICE_EINVAL, "\"%.40s\" is not a range of ports", ports);
	if (open_socket(p))
		return fail(SLUICE_ENOMEM, "no UDP socket for the control network: %s%s%s",
			    errno_text(errno),
			    *ports && errno == EADDRINUSE ?
				    "; each rank of a node needs a free port of SLUICE_PORTS=" :
				    "",
			    *ports && errno == EADDRINUSE ? ports : "");
	find_addresses(p, allowed);
	if (!p->n_own)
		log_no_address(rank, allowed);
	return 0;
}

void probe_close(struct probe **probe)
{
	struct probe *p = *probe;
	if (!p)
		return;
	if (p->fd >= 0)
		close(p->fd);
	free(p->peers);
	free(p);
	*probe = NULL;
}

/* The record has the port (u16), the number of addresses (u16), and addresses of 16 bytes each. */
size_t probe_record(const struct probe *p, uint8_t bytes[PROBE_RECORD_BYTES])
{
	put_le16(bytes, ntohs(p->port));
	put_le16(bytes + 2, (uint16_t)p->n_own);
	memcpy(bytes + 4, p->own, (size_t)p->n_own * 16);
	return 4 + (size_t)p->n_own * 16;
}

int probe_meet(struct probe *p, int peer, const uint8_t *bytes, size_t n)
{
	struct probed *t = &p->peers[peer];
	const size_t count = n >= 4 ? get_le16(bytes + 2) : 0;
	if (!n)
		return 0;
	if (n < 4 || count > PROBE_ADDRESSES || n != 4 + count * 16 || !get_le16(bytes))
		return fail(SLUICE_EWIRE,
			    "the record of rank %d has no valid address in the control network "
			    "(%zu bytes)",
			    peer, n);
	t->port = htons(get_le16(bytes));
	t->n = (int)count;
	memcpy(t->address, bytes + 4, count * 16);
	return 0;
}

void probe_admit(struct probe *p, const struct peer_keys *keys)
{
	p->keys = keys;
}

int probe_fd(const struct probe *p)
{
	return p->fd;
}

/* ---- datagrams --------------------------------------------------------------------- */

static int make_tag(const struct probe *p, uint32_t peer, const uint8_t *datagram,
		    uint8_t tag[AUTH_KEY_BYTES])
{
	return p->keys ? auth_hmac(p->keys->key[peer], datagram, AT_TAG, tag) : SLUICE_EINVAL;
}

static int sign_datagram(const struct probe *p, uint8_t datagram[DATAGRAM_BYTES])
{
	uint8_t tag[AUTH_KEY_BYTES];
	int rc = make_tag(p, get_le32(datagram + AT_TO), datagram, tag);
	if (!rc)
		memcpy(datagram + AT_TAG, tag, AUTH_TAG_BYTES);
	return rc;
}

static int is_genuine(const struct probe *p, const uint8_t *datagram, ssize_t n)
{
	uint8_t tag[AUTH_KEY_BYTES];
	const uint32_t from = n == DATAGRAM_BYTES ? get_le32(datagram + AT_FROM) : UINT32_MAX;
	return from < (uint32_t)p->size && get_le32(datagram + AT_TO) == (uint32_t)p->rank &&
	       !make_tag(p, from, datagram, tag) &&
	       auth_equal(datagram + AT_TAG, tag, AUTH_TAG_BYTES);
}

/* A send may report the error of an earlier datagram instead of sending. Each error is reported
 * once, so the send is repeated. */
static void send_to(const struct probe *p, const uint8_t *datagram, const struct sockaddr *to,
		    socklen_t n)
{
	for (int tries = 0; tries < 2; tries++)
		if (sendto(p->fd, datagram, DATAGRAM_BYTES, MSG_NOSIGNAL, to, n) >= 0)
			return;
}

void probe_ask(struct probe *p, int peer, uint64_t now_ns)
{
	struct probed *t = &p->peers[peer];
	uint8_t datagram[DATAGRAM_BYTES];
	const unsigned proven = atomic_load(&t->proven);
	const unsigned which = proven && t->asks++ % ASKS_OF_ALL ? proven : ~0u;
	put_le32(datagram + AT_LABEL, AUTH_ASK);
	put_le32(datagram + AT_FROM, (uint32_t)p->rank);
	put_le32(datagram + AT_TO, (uint32_t)peer);
	put_le64(datagram + AT_TIME, now_ns);
	for (int i = 0; i < t->n; i++) {
		const struct sockaddr_in6 to = { .sin6_family = AF_INET6,
						 .sin6_port = t->port,
						 .sin6_addr = t->address[i] };
		struct sockaddr_in to4 = { .sin_family = AF_INET, .sin_port = t->port };
		if (!(which >> i & 1))
			continue;
		put_le32(datagram + AT_ADDRESS, (uint32_t)i);
		if (sign_datagram(p, datagram))
			return;
		memcpy(&to4.sin_addr, t->address[i].s6_addr + 12, 4);
		if (!p->v4_only)
			send_to(p, datagram, (const struct sockaddr *)&to, sizeof(to));
		else if (IN6_IS_ADDR_V4MAPPED(&t->address[i]))
			send_to(p, datagram, (const struct sockaddr *)&to4, sizeof(to4));
	}
}

static void take_datagram(struct probe *p, uint8_t datagram[DATAGRAM_BYTES],
			  const struct sockaddr *from, socklen_t n)
{
	const uint32_t label = get_le32(datagram + AT_LABEL), peer = get_le32(datagram + AT_FROM);
	const uint32_t at = get_le32(datagram + AT_ADDRESS);
	const uint64_t asked_ns = get_le64(datagram + AT_TIME);
	struct probed *t = &p->peers[peer];
	if (label == AUTH_ASK) {
		put_le32(datagram + AT_LABEL, AUTH_BEAT);
		put_le32(datagram + AT_FROM, (uint32_t)p->rank);
		put_le32(datagram + AT_TO, peer);
		if (!sign_datagram(p, datagram))
			send_to(p, datagram, from, n);
	} else if (label == AUTH_BEAT && at < PROBE_ADDRESSES && asked_ns <= now_ns()) {
		atomic_fetch_or(&t->proven, 1u << at);
		if (asked_ns > atomic_load(&t->answered_ns))
			atomic_store(&t->answered_ns, asked_ns);
	}
}

/* ---- refusals ---------------------------------------------------------------------- */

/* Records that this address and port refused a question. */
static void note_refusal(struct probe *p, const struct in6_addr *to, in_port_t port)
{
	for (int r = 0; r < p->size; r++) {
		struct probed *t = &p->peers[r];
		for (int i = 0; i < t->n; i++)
			if (t->port == port && IN6_ARE_ADDR_EQUAL(&t->address[i], to) &&
			    atomic_load(&t->proven) >> i & 1)
				atomic_store(&t->refused_ns, now_ns());
	}
}

/* Handles one refusal. Returns 0 if there is none left. */
static int take_refusal(struct probe *p)
{
	union {
		struct sockaddr any;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} to = { .any.sa_family = AF_UNSPEC };
	uint8_t bytes[DATAGRAM_BYTES];
	_Alignas(struct cmsghdr) uint8_t control[512];
	struct iovec part = { bytes, sizeof(bytes) };
	struct msghdr m = { .msg_name = &to,
			    .msg_namelen = sizeof(to),
			    .msg_iov = &part,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	if (recvmsg(p->fd, &m, MSG_ERRQUEUE) < 0)
		return 0;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		struct sock_extended_err e;
		if (!(c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVERR) &&
		    !(c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_RECVERR))
			continue;
		memcpy(&e, CMSG_DATA(c), sizeof(e));
		if (e.ee_errno != ECONNREFUSED || e.ee_origin == SO_EE_ORIGIN_LOCAL)
			continue;
		if (to.any.sa_family == AF_INET) {
			const struct in6_addr address = mapped(&to.in.sin_addr);
			note_refusal(p, &address, to.in.sin_port);
		} else if (to.any.sa_family == AF_INET6) {
			note_refusal(p, &to.in6.sin6_addr, to.in6.sin6_port);
		}
	}
	return 1;
}

void probe_serve(struct probe *p)
{
	for (int i = 0; i < SERVED_AT_ONCE; i++) {
		uint8_t datagram[DATAGRAM_BYTES +
				 1]; /* the additional byte detects a datagram that is too long */
		struct sockaddr_storage from;
		socklen_t n = sizeof(from);
		ssize_t got = recvfrom(p->fd, datagram, sizeof(datagram), 0,
				       (struct sockaddr *)&from, &n);
		const int empty = got < 0 && errno == EAGAIN;
		if (got >= 0 && is_genuine(p, datagram, got))
			take_datagram(p, datagram, (struct sockaddr *)&from, n);
		else if (got < 0 && !take_refusal(p) && empty)
			return;
	}
}

uint64_t probe_answered_ns(const struct probe *p, int peer)
{
	return atomic_load(&p->peers[peer].answered_ns);
}

uint64_t probe_refused_ns(const struct probe *p, int peer)
{
	return atomic_load(&p->peers[peer].refused_ns);
}
