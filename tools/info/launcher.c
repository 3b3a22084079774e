/* SPDX-License-Identifier: BSD-3-Clause
 * Reports which PMIx library this program loaded, and what Slurm's own programs report about
 * Slurm. */
#include "tools/info/probes.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static const char section[] = "Launcher";

/* Returns the file of the library that has a symbol, or "" if none has it. */
static const char *library_of(const char *symbol)
{
	static char path[LINE_BYTES];
	void *address = dlsym(RTLD_DEFAULT, symbol);
	Dl_info info;
	char *real;

	if (!address || !dladdr(address, &info) || !info.dli_fname)
		return "";
	real = realpath(info.dli_fname, NULL);
	snprintf(path, sizeof(path), "%s", real ? real : info.dli_fname);
	free(real);
	return path;
}

static void pmix(struct report *r)
{
#ifdef HAVE_PMIX
	/* The function is looked up by name, so that only slurm/ includes PMIx's header. */
	const char *(*version)(void);
	void *address = dlsym(RTLD_DEFAULT, "PMIx_Get_version");

	/* Some linkers drop libraries that seem unused. In that case this loads the library that
	 * sluice_init() would use. */
	if (!address && dlopen("libpmix.so.2", RTLD_LAZY | RTLD_GLOBAL))
		address = dlsym(RTLD_DEFAULT, "PMIx_Get_version");
	if (address) {
		memcpy(&version, &address, sizeof(version));
		report_add(r, VERDICT_OK, section, "pmix", NULL, "%.160s, from %.200s", version(),
			   library_of("PMIx_Get_version"));
		return;
	}
	report_add(r, VERDICT_WARN, section, "pmix", "install libpmix2",
		   "libpmix is not found at run time");
#else
	report_add(r, VERDICT_WARN, section, "pmix",
		   "install libpmix-dev, configure --with-pmix=yes and build again",
		   "this build has no PMIx: jobs of one process only");
#endif
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
	const char *path;

	pmix(r);
	slurm(node, r);
	path = library_of("ibv_get_device_list");
	if (*path)
		report_add(r, VERDICT_INFO, section, "libibverbs", NULL, "%s", path);
	path = library_of("rdma_create_id");
	if (*path)
		report_add(r, VERDICT_INFO, section, "librdmacm", NULL, "%s", path);
}
