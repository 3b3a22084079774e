/* SPDX-License-Identifier: BSD-3-Clause
 * Reports which libraries sluice_init() would use, and what Slurm's own programs report about
 * Slurm. */
#include "rdma/auth.h"
#include "tools/info/probes.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static const char section[] = "Launcher";

/* Loads a library as sluice_init() would, and finds one of its functions and the library's path.
 * Returns NULL if the library is missing. */
static void *find_function(const char *file, const char *symbol, char path[LINE_BYTES])
{
	void *handle = dlopen(file, RTLD_LAZY | RTLD_LOCAL);
	void *address = handle ? dlsym(handle, symbol) : NULL;
	Dl_info info;
	char *real;

	if (!address || !dladdr(address, &info) || !info.dli_fname)
		return NULL;
	real = realpath(info.dli_fname, NULL);
	snprintf(path, LINE_BYTES, "%s", real ? real : info.dli_fname);
	free(real);
	return address;
}

static void pmix(struct report *r)
{
#ifdef HAVE_PMIX
	/* The function is looked up by name, so that only slurm/ includes PMIx's header. */
	const char *(*version)(void);
	char path[LINE_BYTES];
	void *address = find_function("libpmix.so.2", "PMIx_Get_version", path);

	if (address) {
		memcpy(&version, &address, sizeof(version));
		report_add(r, VERDICT_OK, section, "pmix", NULL, "%.160s, from %.200s", version(),
			   path);
		return;
	}
	report_add(r, VERDICT_WARN, section, "pmix",
		   "install libpmix2 (RHEL: pmix), or start the ranks with torchrun",
		   "libpmix.so.2 is missing: jobs under srun --mpi=pmix are not possible");
#else
	report_add(r, VERDICT_WARN, section, "pmix",
		   "install libpmix-dev, configure --with-pmix=yes and build again",
		   "this build has no PMIx: jobs of one process only");
#endif
}

/* Reports the libraries that this build can use, and what is impossible without those that are
 * missing. Libfabric has its own section. */
static void libraries(struct report *r)
{
	static const struct {
		const char *name, *file, *symbol, *without, *remedy;
	} used[] = {
#ifdef HAVE_VERBS
		{ "libibverbs", "libibverbs.so.1", "ibv_get_device_list", "no RDMA",
		  "install ibverbs-providers (RHEL: rdma-core)" },
		{ "librdmacm", "librdmacm.so.1", "rdma_create_id", "no RDMA over Ethernet",
		  "install librdmacm1 (RHEL: librdmacm)" },
#endif
#if defined HAVE_VERBS || defined HAVE_LIBFABRIC
		{ "libcrypto", auth_library, "HMAC", "no network between nodes",
		  "install libssl3 (RHEL: openssl-libs)" },
#endif
#ifdef HAVE_HWLOC
		{ "libhwloc", "libhwloc.so.15", "hwloc_topology_init",
		  "processors and network cards are not chosen by their distance",
		  "install libhwloc15 (RHEL: hwloc-libs)" },
#endif
		{ NULL, NULL, NULL, NULL, NULL },
	};
	char path[LINE_BYTES];

	for (size_t i = 0; used[i].name; i++)
		if (find_function(used[i].file, used[i].symbol, path))
			report_add(r, VERDICT_INFO, section, used[i].name, NULL, "%s", path);
		else
			report_add(r, VERDICT_WARN, section, used[i].name, used[i].remedy,
				   "%s is missing: %s", used[i].file, used[i].without);
}

static void first_line(char *text)
{
	text[strcspn(text, "\n")] = '\0';
}

static void slurm(const struct node *node, struct report *r)
{
	static const char *const ask_version[] = { "srun", "--version", NULL };
	static const char *const ask_plugins[] = { "srun", "--mpi=list", NULL };
	char text[1024], plugins[1024];
	enum asked asked = node_ask(node, ask_version, text, sizeof(text));

	if (asked == ASKED_ABSENT) {
		report_add(r, VERDICT_INFO, section, "slurm", NULL, "there is no srun in PATH");
		return;
	}
	/* srun reads slurm.conf, or requests it, even to print its version. */
	if (asked) {
		report_add(r, VERDICT_WARN, section, "slurm",
			   "set SLURM_CONF to the slurm.conf of the cluster, or install that file "
			   "where this srun looks for it (/etc/slurm/slurm.conf)",
			   asked == ASKED_SILENT ? "srun is in PATH, but does not answer%s" :
						   "srun is in PATH, but fails: %.300s",
			   asked == ASKED_SILENT ? "" : text);
		return;
	}
	first_line(text);
	report_add(r, VERDICT_INFO, section, "slurm", NULL, "%s", text);
	if (node_ask(node, ask_plugins, plugins, sizeof(plugins)))
		report_add(r, VERDICT_WARN, section, "slurm-pmix",
			   "look at slurm.conf and SLURM_CONF",
			   "srun --mpi=list does not answer: %.200s", plugins);
	else if (strstr(plugins, "pmix"))
		report_add(r, VERDICT_OK, section, "slurm-pmix", NULL,
			   "srun --mpi=pmix is there (%.200s)", plugins);
	else
		report_add(r, VERDICT_FAIL, section, "slurm-pmix",
			   "install Slurm's PMIx plugin (Debian: slurm-wlm-basic-plugins and "
			   "libpmix2) on every node",
			   "srun --mpi=list does not show pmix: %.200s", plugins);
	if (getenv("SLURM_JOB_ID"))
		report_add(r, VERDICT_INFO, section, "slurm-job", NULL, "job %s, step %s, mpi %s",
			   getenv("SLURM_JOB_ID"),
			   getenv("SLURM_STEP_ID") ? getenv("SLURM_STEP_ID") : "none",
			   getenv("SLURM_MPI_TYPE") ? getenv("SLURM_MPI_TYPE") : "unknown");
}

void probe_launcher(const struct node *node, struct report *r)
{
	pmix(r);
	slurm(node, r);
	libraries(r);
}
