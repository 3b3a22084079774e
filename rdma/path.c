/* SPDX-License-Identifier: BSD-3-Clause
 * See path.h. The masks are those that the kernel requires for each step of a reliable connection,
 * see qp_state_table in drivers/infiniband/core/verbs.c. */
#include "rdma/path.h"
#include "base/error.h"
#include "rdma/queues.h"
#include "rdma/retry.h"
#include "sluice.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HOPS = 64 };

/* ---- choosing ---------------------------------------------------------------------- */

static int parse(const char *name, const char *text, int most, int *out)
{
	char *end = NULL;
	long value;

	*out = PATH_AS_RESOLVED;
	if (!text || !*text || !strcmp(text, "auto"))
		return SLUICE_OK;
	value = strtol(text, &end, 10);
	if (*end || value < 0 || value > most)
		return fail_quietly(SLUICE_EINVAL, "%s=\"%.40s\" is neither auto nor 0 .. %d", name,
				    text, most);
	*out = (int)value;
	return SLUICE_OK;
}

/* Returns the number in the first line of a file, after the last '=' if there is one. */
static int number_in(const char *path)
{
	FILE *file = fopen(path, "re");
	char line[64] = "", *at, *end;
	long value;

	if (!file)
		return PATH_AS_RESOLVED;
	if (!fgets(line, sizeof(line), file))
		*line = '\0';
	fclose(file);
	at = strrchr(line, '=') ? strrchr(line, '=') + 1 : line;
	value = strtol(at, &end, 10);
	return end == at || value < 0 || value > 255 ? PATH_AS_RESOLVED : (int)value;
}

/* Returns the traffic class that an administrator has set for the port. It may be set for all queue
 * pairs (by the mlx5 driver of MLNX_OFED, "Global tclass=106"), or for the queue pairs of rdma_cm
 * (by Linux). If it was not set, the class is 0. */
static int of_port(const struct verbs_device *device)
{
	char path[160];
	int value;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/tc/%d/traffic_class", device->name,
		 device->port);
	value = number_in(path);
	if (value > 0)
		return value;
	snprintf(path, sizeof(path), "/sys/kernel/config/rdma_cm/%s/ports/%d/default_roce_tos",
		 device->name, device->port);
	return number_in(path);
}

/* Returns the value, or 0 if rdma_cm would have to resolve it, which is not used here. */
static int known(int value)
{
	return value == PATH_AS_RESOLVED ? 0 : value;
}

int path_choose(const struct verbs_device *device, const char *traffic_class,
		const char *service_level, struct path_choice *out)
{
	int rc = parse("SLUICE_TRAFFIC_CLASS", traffic_class, 255, &out->traffic_class);

	if (!rc)
		rc = parse("SLUICE_SERVICE_LEVEL", service_level, 15, &out->service_level);
	if (rc)
		return rc;
	out->mtu = (uint8_t)device->port_attr.active_mtu;
	/* On InfiniBand, the service level matters instead, and the subnet manager has chosen
	 * it. */
	if (out->traffic_class == PATH_AS_RESOLVED && !device->infiniband) {
		out->traffic_class = of_port(device);
		if (out->traffic_class <= 0)
			out->traffic_class = PATH_TRAFFIC_CLASS;
	}
	if (verbs_device_by_gid(device)) {
		out->traffic_class = known(out->traffic_class);
		out->service_level = known(out->service_level);
	}
	return SLUICE_OK;
}

const char *path_text(int value, char text[16])
{
	if (value == PATH_AS_RESOLVED)
		return "as resolved";
	snprintf(text, 16, "%d", value);
	return text;
}

/* ---- joining ----------------------------------------------------------------------- */

static uint8_t lower_mtu(unsigned a, unsigned b)
{
	return (uint8_t)(a < b ? a : b);
}

/* Asks the connection manager for the attributes of the next state. */
static int ask_manager(struct rdma_cm_id *id, enum ibv_qp_state state, struct ibv_qp_attr *attr,
		       char why[PATH_WHY_BYTES])
{
	int mask; /* rdma_ucm of older kernels sets bits that libibverbs does not know */

	memset(attr, 0, sizeof(*attr));
	attr->qp_state = state;
	if (!rdma_init_qp_attr(id, attr, &mask))
		return 0;
	snprintf(why, PATH_WHY_BYTES, "rdma_init_qp_attr: %s", errno_text(errno));
	return -1;
}

static int move_to_state(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, const char *state,
			 char why[PATH_WHY_BYTES])
{
	const int err = ibv_modify_qp(qp, attr, IBV_QP_STATE | mask);

	if (err)
		snprintf(why, PATH_WHY_BYTES, "its queue pair does not reach the state %s: %s",
			 state, errno_text(err));
	return err ? -1 : 0;
}

static void choose_way(const struct path_choice *path, struct ibv_ah_attr *way)
{
	if (path->traffic_class != PATH_AS_RESOLVED)
		way->grh.traffic_class = (uint8_t)path->traffic_class; /* not used without a GRH */
	if (path->service_level != PATH_AS_RESOLVED)
		way->sl = (uint8_t)path->service_level;
}

struct ibv_ah_attr path_address(const struct path_choice *path, const struct verbs_device *device,
				const struct path_end *end)
{
	struct ibv_ah_attr to = { .dlid = end->lid, .port_num = device->port };

	if (end->global || verbs_device_global(device)) {
		to.is_global = 1;
		to.grh.dgid = end->gid;
		to.grh.sgid_index = (uint8_t)device->gid_index;
		to.grh.hop_limit = HOPS;
	}
	choose_way(path, &to);
	return to;
}

/* Sets the attributes of the next state that the connection manager would otherwise provide. */
static int set_attributes(const struct path_choice *path, const struct path_ends *ends,
			  enum ibv_qp_state state, struct ibv_qp_attr *attr,
			  char why[PATH_WHY_BYTES])
{
	const struct path_end *peer = &ends->peer;

	if (ends->id)
		return ask_manager(ends->id, state, attr, why);
	*attr = (struct ibv_qp_attr){
		.qp_state = state,
		.pkey_index = ends->device->pkey_index,
		.port_num = ends->device->port,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
		.ah_attr = path_address(path, ends->device, peer),
		.path_mtu = (enum ibv_mtu)peer->mtu,
		.dest_qp_num = peer->qpn,
		.rq_psn = peer->psn,
		.sq_psn = ends->psn,
		.max_dest_rd_atomic = (uint8_t)peer->reads,
		.max_rd_atomic = (uint8_t)peer->reads,
	};
	return 0;
}

int path_join(const struct path_choice *path, struct ibv_qp *qp, const struct path_ends *ends,
	      unsigned peer_mtu, uint32_t reads, char why[PATH_WHY_BYTES])
{
	struct ibv_qp_attr attr;
	uint8_t mtu;

	if (set_attributes(path, ends, IBV_QPS_INIT, &attr, why) ||
	    move_to_state(qp, &attr, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "INIT",
			  why) ||
	    set_attributes(path, ends, IBV_QPS_RTR, &attr, why))
		return -1;
	if (ends->peer_gid && attr.ah_attr.is_global &&
	    memcmp(attr.ah_attr.grh.dgid.raw, ends->peer_gid, sizeof(attr.ah_attr.grh.dgid.raw)) !=
		    0) {
		snprintf(why, PATH_WHY_BYTES,
			 "the connection leads to a GID other than the one in the peer's proof");
		return -1;
	}
	choose_way(path, &attr.ah_attr);
	mtu = lower_mtu(attr.path_mtu, path->mtu);
	if (peer_mtu)
		mtu = lower_mtu(mtu, peer_mtu);
	attr.path_mtu = (enum ibv_mtu)mtu;
	attr.min_rnr_timer = PATH_RNR_TIMER;
	attr.max_dest_rd_atomic = lower_mtu(attr.max_dest_rd_atomic, reads);
	if (move_to_state(qp, &attr,
			  IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
			  "RTR", why) ||
	    set_attributes(path, ends, IBV_QPS_RTS, &attr, why))
		return -1;
	attr.timeout = RETRY_ACK_TIMEOUT;
	attr.retry_cnt = attr.rnr_retry = QUEUES_RETRIES;
	attr.max_rd_atomic = lower_mtu(attr.max_rd_atomic, reads);
	return move_to_state(qp, &attr,
			     IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				     IBV_QP_MAX_QP_RD_ATOMIC,
			     "RTS", why) ?
		       -1 :
		       mtu;
}
