/* SPDX-License-Identifier: BSD-3-Clause
 * Preloaded into an honest rank by test_attack.sh: writes down what it sends when it connects, for
 * a replay. One line per rdma_connect() to the file $RECORD_CONNECT.RANK: "ADDRESS PORT
 * HEXDIGITS". */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>

static void record(struct rdma_cm_id *id, const struct rdma_conn_param *param)
{
	const char *file = getenv("RECORD_CONNECT"), *rank = getenv("SLURM_PROCID");
	const struct sockaddr_in *to = (const struct sockaddr_in *)rdma_get_peer_addr(id);
	const unsigned char *bytes = param ? param->private_data : NULL;
	char path[4096], address[INET_ADDRSTRLEN] = "?";
	FILE *out;

	if (!file || !rank)
		return;
	snprintf(path, sizeof(path), "%s.%s", file, rank);
	out = fopen(path, "a");
	if (!out)
		return;
	if (to->sin_family == AF_INET)
		inet_ntop(AF_INET, &to->sin_addr, address, sizeof(address));
	fprintf(out, "%s %u ", address, ntohs(to->sin_port));
	for (int i = 0; bytes && i < param->private_data_len; i++)
		fprintf(out, "%02x", bytes[i]);
	fprintf(out, "\n");
	fclose(out);
}

__attribute__((visibility("default"))) int rdma_connect(struct rdma_cm_id *id,
							struct rdma_conn_param *param)
{
	static int (*next)(struct rdma_cm_id *, struct rdma_conn_param *);

	if (!next)
		next = (int (*)(struct rdma_cm_id *, struct rdma_conn_param *))dlsym(
			RTLD_NEXT, "rdma_connect");
	record(id, param);
	return next(id, param);
}
