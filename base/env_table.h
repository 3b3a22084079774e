/* SPDX-License-Identifier: BSD-3-Clause
 * The one table of settings. sluice(7), sluice.conf(5) and the debug dump are made from it. */
#ifndef BASE_ENV_TABLE_H
#define BASE_ENV_TABLE_H
#include <stddef.h>
#include <stdint.h>

struct settings {
	char conf[1024];    /* SLUICE_CONF: "", "off" or a file */
	char transport[64]; /* SLUICE_TRANSPORT: comma list, default "self,shm,verbs,ofi"; "self" is
			       always included */
	char device[256];   /* SLUICE_DEVICE: a list of names, ports and exclusions; "": any */
	struct verbs_settings {
		char gid_net[64];         /* SLUICE_GID_NET: a network; "": any */
		char gid_index[16];       /* SLUICE_GID_INDEX: "auto" or a number */
		char memory_windows[8];   /* SLUICE_MEMORY_WINDOWS: "auto", "yes" or "no" */
		char relaxed_ordering[8]; /* SLUICE_RELAXED_ORDERING: "auto", "no" or "all" */
		char traffic_class[16];   /* SLUICE_TRAFFIC_CLASS: "auto" or a number */
		char service_level[16];   /* SLUICE_SERVICE_LEVEL: "auto" or a number */
	} verbs;
	char huge_pages[16]; /* SLUICE_HUGE_PAGES: "no", "transparent" or "reserved" */
	char provider[32];   /* SLUICE_PROVIDER: the provider of libfabric; "": Sluice chooses */
	char interface[256]; /* SLUICE_INTERFACE: a list of names and addresses; "": any */
	char ports[16];      /* SLUICE_PORTS: "LOW-HIGH"; "": any */
	char log[128];       /* SLUICE_LOG, default "warn" */
	char advice[8];      /* SLUICE_ADVICE: "yes" or "no" */
	struct monitoring {
		char top[8];        /* SLUICE_TOP: "yes" or "no" */
		char metrics[1024]; /* SLUICE_METRICS: a file; "": none */
		int metrics_port;   /* SLUICE_METRICS_PORT, 0 = none */
		char trace[1024];   /* SLUICE_TRACE: a file; "": none */
	} monitoring;
	char recipe[512];    /* SLUICE_RECIPE, default "" (the library's default recipe) */
	char on_failure[16]; /* SLUICE_ON_FAILURE: "abort" or "continue" */
	int servers;         /* SLUICE_SERVERS, 0 */
	struct patience {
		int lost_after_ms;      /* SLUICE_LOST_AFTER, 5s */
		int link_lost_after_ms; /* SLUICE_LINK_LOST_AFTER, 60s */
		int warn_after_ms;      /* SLUICE_WARN_AFTER, 10s */
		int wait_timeout_ms;    /* SLUICE_WAIT_TIMEOUT, 600s */
		int boot_timeout_ms;    /* SLUICE_BOOT_TIMEOUT, 60s: limit for exchanges with the
					   launcher and for connecting */
	} patience;
	char control_interface[256]; /* SLUICE_CONTROL_INTERFACE: as SLUICE_INTERFACE */
	int mesh;                    /* SLUICE_MESH, 64 */
	int spin_us;                 /* SLUICE_SPIN, 50us: how long a wait polls before it sleeps */
	int threads;                 /* SLUICE_THREADS, 0 = by the processors of this rank */
	char placement[8];           /* SLUICE_PLACEMENT: "auto" or "no" */
	char kernels[16];    /* SLUICE_KERNELS: "auto", or the one version of the kernels to use */
	char gpu[256];       /* SLUICE_GPU: "auto", "off", or the file of the GPU module */
	char key_file[1024]; /* SLUICE_KEY_FILE; "": no file */
	char library[1024];  /* SLUICE_LIBRARY: read by the Python package before this library */
	int gpu_blocks;      /* SLUICE_GPU_BLOCKS, 0 = as many as are resident */
	char device_shards[8]; /* SLUICE_DEVICE_SHARDS: "auto", "no" or "yes" */
	uint64_t memory_bytes; /* SLUICE_MEMORY, 0 = no limit; "8G", "512M", or plain bytes */
};

enum env_kind {
	ENV_TEXT,
	ENV_COUNT,
	ENV_MILLISECONDS, /* durations: us, ms, s, m, h; a plain number is seconds ... */
	ENV_MICROSECONDS, /* as ENV_MILLISECONDS, but a plain number is microseconds */
	ENV_PORTS,        /* LOW-HIGH, as env_ports() reads it */
	ENV_BYTES,        /* K, M, G and T are powers of 1024; a plain number is bytes */
	ENV_CHOICE,       /* one of the words of range */
	ENV_LIST          /* a comma list of words of range; the first word is always included */
};

struct env_entry {
	const char *name; /* "SLUICE_LOG" */
	enum env_kind kind;
	const char *fallback; /* default as text, parsed like a value */
	const char *range;    /* "1ms .. 1h" (enforced), or the words separated by '|' */
	const char *help;     /* one or two sentences for the manual page, in mdoc */
	size_t offset, bytes; /* position and size of the field in struct settings */
	int environment_only; /* 1: a file must not set it */
};
enum { ENV_ENTRIES_MAX = 64 }; /* env_table has at most this number of entries */
extern const struct env_entry env_table[];
extern const size_t env_table_size;
#endif
