/* SPDX-License-Identifier: BSD-3-Clause
 * The table of settings. It has no code, so that the reader of sluice.conf can use it without the
 * reader of the environment. */
#include "base/env_table.h"

#define FIELD(member)                                                                              \
	.offset = offsetof(struct settings, member), .bytes = sizeof(((struct settings *)0)->member)

const struct env_entry env_table[] = {
	{ "SLUICE_CONF", ENV_TEXT, "", "off or a file",
	  "File of settings to read in place of the site's file and the user's file. off reads no "
	  "file. sluice.conf(5) describes the files.",
	  FIELD(conf), .environment_only = 1 },
	{ "SLUICE_TRANSPORT", ENV_LIST, "self,shm,verbs,ofi", "self|shm|verbs|ofi",
	  "Transports that may be used to reach other ranks. A rank that none of them reaches is "
	  "an error, never a silent fallback. For each pair of ranks Sluice takes the first of "
	  "shm, verbs and ofi that connects them. The transport ofi, over libfabric, is opened "
	  "only where a pair needs it. When the variable is set, each transport it names must work "
	  "on this node.",
	  FIELD(transport) },
	{ "SLUICE_DEVICE", ENV_TEXT, "", "NAME[:PORT][,[^]NAME...]",
	  "RDMA devices that the verbs transport may use: a list of names, in which [0-3] stands "
	  "for a number, * for any text and ^ for an exclusion, such as mlx5_[0-3],^mlx5_2. A "
	  "list that begins with ^ excludes all its entries. A rank takes one that has an active "
	  "port and a usable address: the one nearest to its GPU in the PCIe tree, or without a "
	  "GPU nearest to its processors. If several devices of one link layer and speed are "
	  "equally near, the ranks of a node take them in turn. Two ranks whose cards share no "
	  "network connect through other cards of their nodes that share one.",
	  FIELD(device) },
	{ "SLUICE_GID_INDEX", ENV_TEXT, "auto", "auto or 0 .. 255",
	  "Entry of the GID table whose address the verbs transport uses: auto, or a number from 0 "
	  "to 255. On Ethernet, auto takes the first routable RoCEv2 entry, IPv4 before IPv6. On "
	  "InfiniBand without IP it takes entry 0. A link-local RoCEv2 entry is used only if it "
	  "is named here.",
	  FIELD(verbs.gid_index) },
	{ "SLUICE_GID_NET", ENV_TEXT, "", "a network such as 10.1.0.0/16",
	  "The network whose addresses the verbs transport uses, if a card has addresses in "
	  "several networks. Without it, each pair of ranks takes two addresses of one network.",
	  FIELD(verbs.gid_net) },
	{ "SLUICE_MEMORY_WINDOWS", ENV_CHOICE, "auto", "auto|yes|no",
	  "How the verbs transport limits the memory that a peer can access. yes uses memory "
	  "windows of type 2B, bound to that peer's queue pair. no uses a separate protection "
	  "domain with its registrations for each peer. auto uses windows if the device has them "
	  "and a test shows that they work.",
	  FIELD(verbs.memory_windows) },
	{ "SLUICE_TRAFFIC_CLASS", ENV_TEXT, "auto", "auto or 0 .. 255",
	  "Traffic class of the verbs transport's packets on Ethernet: the DSCP times 4, plus 2 "
	  "if switches may mark congestion (ECN). auto takes the class that an administrator has "
	  "set for the port, or else 106, which is DSCP 26 with ECN. The network must treat the "
	  "class as lossless or mark its packets. Otherwise packets may be dropped under load.",
	  FIELD(verbs.traffic_class) },
	{ "SLUICE_SERVICE_LEVEL", ENV_TEXT, "auto", "auto or 0 .. 15",
	  "Service level of the verbs transport's packets: on InfiniBand the number that the "
	  "subnet manager maps to virtual lanes, on a VLAN the priority. auto takes the number "
	  "that the kernel resolves for the connection, and 0 on InfiniBand without IP.",
	  FIELD(verbs.service_level) },
	{ "SLUICE_RELAXED_ORDERING", ENV_CHOICE, "auto", "auto|no|all",
	  "Whether a network card may write and read memory out of order, which is faster on many "
	  "machines. auto allows it for a model's memory, which is used only after a completion. "
	  "all also allows it for regions of sluice_region_open(3), whose memory the program must "
	  "then not poll. Cards that cannot do it ignore it.",
	  FIELD(verbs.relaxed_ordering) },
	{ "SLUICE_HUGE_PAGES", ENV_CHOICE, "no", "no|transparent|reserved",
	  "Pages on which the regions of 2 MiB and more lie: windows, logs and staging memory of "
	  "models, and those of sluice_region_open(3). transparent asks the kernel to replace "
	  "small pages by huge ones of 2 MiB when a region is opened, and warns if it cannot. "
	  "reserved takes pages that an administrator has reserved (vm.nr_hugepages); without "
	  "enough of them the region is not opened. See MEMORY.",
	  FIELD(huge_pages) },
	{ "SLUICE_PROVIDER", ENV_TEXT, "", "a provider of libfabric",
	  "Provider that the ofi transport uses. If it is not set, Sluice takes the first one of "
	  "efa, cxi, opx, psm3, tcp and net that works on this node. efa-direct names the fabric "
	  "of that name, which the provider efa has since libfabric 2.1.",
	  FIELD(provider) },
	{ "SLUICE_INTERFACE", ENV_TEXT, "", "NAME or ADDRESS[,[^]NAME...]",
	  "Network interfaces that the verbs and ofi transports may use, by name or address: a "
	  "list like that of SLUICE_DEVICE. If it names none, ofi leaves out loopback and bridges "
	  "of containers. With TCP, Sluice takes the first interface, IPv4 before IPv6. With "
	  "other providers, ranks of a node take the cards as SLUICE_DEVICE describes.",
	  FIELD(interface) },
	{ "SLUICE_PORTS", ENV_PORTS, "", "LOW-HIGH",
	  "Ports on which a rank accepts TCP connections of the ofi transport, and UDP of the "
	  "control network, such as 20000-20063. A firewall between the nodes must let them "
	  "through. Each rank of a node needs one port. Without the variable the kernel chooses "
	  "the ports. It replaces libfabric's FI_TCP_PORT_LOW_RANGE and FI_TCP_PORT_HIGH_RANGE.",
	  FIELD(ports) },
	{ "SLUICE_LOG", ENV_TEXT, "warn", "LEVEL or MODULE+LEVEL[,MODULE+LEVEL...]",
	  "What is logged: a level, or pairs of a module and its level, such as "
	  "all+warn,rdma+debug. Levels are error, warn, info and debug, modules are all, runtime, "
	  "rdma, slurm and compress.",
	  FIELD(log) },
	{ "SLUICE_ADVICE", ENV_CHOICE, "yes", "yes|no",
	  "Whether rank 0 warns, once for a model, when its first steps would have taken less time "
	  "without compression. sluice_recipe(7) describes the measurement.",
	  FIELD(advice) },
	{ "SLUICE_TOP", ENV_CHOICE, "yes", "yes|no",
	  "Whether sluice-top(1), SLUICE_METRICS and SLUICE_METRICS_PORT can show this rank. With "
	  "yes, the rank writes its progress into a memory file of 22 KiB, which only processes of "
	  "its user can read.",
	  FIELD(monitoring.top) },
	{ "SLUICE_METRICS", ENV_TEXT, "", "a file",
	  "File of metrics in OpenMetrics text for the textfile collector of Prometheus's "
	  "node_exporter, such as /var/lib/node_exporter/sluice-%j.prom. The lowest rank of each "
	  "node replaces it every 5 seconds with the numbers of the job's ranks on the node, and "
	  "removes it in sluice_finalize(3). See METRICS AND TRACES.",
	  FIELD(monitoring.metrics) },
	{ "SLUICE_METRICS_PORT", ENV_COUNT, "0", "0 .. 65535",
	  "Port of 127.0.0.1 at which the lowest rank of each node serves the same text over HTTP. "
	  "With 0 it opens no port. Every user of the node can read it.",
	  FIELD(monitoring.metrics_port) },
	{ "SLUICE_TRACE", ENV_TEXT, "", "a file",
	  "File of a trace of the last steps of all ranks, for Perfetto or chrome://tracing. See "
	  "METRICS AND TRACES.",
	  FIELD(monitoring.trace) },
	{ "SLUICE_RECIPE", ENV_TEXT, "", "a recipe",
	  "Recipe of models that are opened without one. "
	  "When it is not set either, the default recipe of the library is used.",
	  FIELD(recipe) },
	{ "SLUICE_ON_FAILURE", ENV_CHOICE, "abort", "abort|continue",
	  "What a rank does when another one is lost: abort ends the job with a message that names "
	  "the lost rank and its node; continue lets the job continue without a lost worker and "
	  "needs dedicated servers (SLUICE_SERVERS), of which none may be lost.",
	  FIELD(on_failure) },
	{ "SLUICE_SERVERS", ENV_COUNT, "0", "0 .. 65535",
	  "Number of dedicated servers: the last ranks, which only own shards. With 0 the workers "
	  "own the shards.",
	  FIELD(servers) },
	{ "SLUICE_LOST_AFTER", ENV_MILLISECONDS, "5s", "100ms .. 1h",
	  "A rank is lost if its process gives no sign of life for this long. A process that "
	  "answers over the control network lives, even if the link to it is down.",
	  FIELD(patience.lost_after_ms) },
	{ "SLUICE_LINK_LOST_AFTER", ENV_MILLISECONDS, "60s", "100ms .. 1h",
	  "A rank whose process lives is lost if no byte passes the link to it for this long. "
	  "Choose more than a link of the fabric takes to train again after its port, its cable "
	  "or a switch went down. A value below SLUICE_LOST_AFTER counts as that value.",
	  FIELD(patience.link_lost_after_ms) },
	{ "SLUICE_CONTROL_INTERFACE", ENV_TEXT, "", "a list",
	  "Network interfaces over which ranks ask whether the process of a rank lives while the "
	  "link to it is down, as names or addresses in the form of SLUICE_DEVICE without ports. "
	  "Without it, ranks use up to three interfaces: first the one that leads to the node of "
	  "srun, and then interfaces without an RDMA device. See LOSING A PEER.",
	  FIELD(control_interface) },
	{ "SLUICE_WARN_AFTER", ENV_MILLISECONDS, "10s", "100ms .. 24h",
	  "When a rank is alive but silent for this long, the others report that they wait for it.",
	  FIELD(patience.warn_after_ms) },
	{ "SLUICE_WAIT_TIMEOUT", ENV_MILLISECONDS, "600s", "100ms .. 168h",
	  "The longest wait for another rank. After it the waiting call fails. It must be longer "
	  "than any work of one rank alone between two steps, such as an evaluation.",
	  FIELD(patience.wait_timeout_ms) },
	{ "SLUICE_BOOT_TIMEOUT", ENV_MILLISECONDS, "60s", "100ms .. 24h",
	  "The longest time for each exchange with the launcher, and for connecting to the other "
	  "ranks.",
	  FIELD(patience.boot_timeout_ms) },
	{ "SLUICE_MESH", ENV_COUNT, "64", "1 .. 65535",
	  "Number of ranks up to which all of them connect with each other at the start. In a "
	  "larger job a rank connects with the dedicated servers, or else with one rank in 64, "
	  "which forward control messages. Two other ranks connect when they first share a shard, "
	  "a region or a group. All ranks need the same value.",
	  FIELD(mesh) },
	{ "SLUICE_SPIN", ENV_MICROSECONDS, "50us", "0us .. 1s",
	  "How long a wait polls before it sleeps. A plain number is in microseconds.",
	  FIELD(spin_us) },
	{ "SLUICE_THREADS", ENV_COUNT, "0", "0 .. 256",
	  "Number of threads that a rank uses to fold, select, encode, sum, update and apply in "
	  "models of 2^20 parameters or more. The result is the same for any number. With 0 it is "
	  "the number of processors of this rank, at most 4. If the ranks of a machine share "
	  "processors, it is this rank's share of them. More than 16 threads only select. Each "
	  "thread takes up to 1 MiB, which the plan of a model does not count.",
	  FIELD(threads) },
	{ "SLUICE_PLACEMENT", ENV_CHOICE, "auto", "auto|no",
	  "Where the progress thread runs. auto keeps it on the processors next to the RDMA "
	  "device that it serves. Without a device it stays on the package of the thread that "
	  "called sluice_init(). It never leaves the processors that the launcher gave this rank. "
	  "no leaves the choice to the kernel.",
	  FIELD(placement) },
	{ "SLUICE_KERNELS", ENV_CHOICE, "auto", "auto|avx512|avx2|portable",
	  "Which version of the kernels for selection and for coding messages is used; all give "
	  "the same results. auto takes the best version that the processor supports. The other "
	  "values are for tests and measurements. avx512 is faster than avx2 only in selections "
	  "with many candidates.",
	  FIELD(kernels), .environment_only = 1 },
	{ "SLUICE_GPU", ENV_TEXT, "auto", "auto, off or a file",
	  "The module for gradients and parameters in GPU memory, loaded when such memory is "
	  "first seen. auto means the module that was installed with the library, even if the "
	  "whole installation was moved. It is refused if users other than root, the user of the "
	  "process and the owner of the library could have changed it. off loads no module.",
	  FIELD(gpu) },
	{ "SLUICE_KEY_FILE", ENV_TEXT, "", "a file",
	  "A file of 32 to 4096 random bytes, the same for all ranks of a job. A rank without it, "
	  "or with a different one, is refused by name when the job begins, even if it knows "
	  "everything that the ranks received from the launcher or the store. The file must be a "
	  "regular file that belongs to the user or to root and has mode 0600.",
	  FIELD(key_file) },
	{ "SLUICE_LIBRARY", ENV_TEXT, "", "the file of libsluice.so",
	  "The library that the Python package loads. Without it the package looks for "
	  "libsluice.so.0 as the dynamic linker does, then in the directory that pkg-config "
	  "names, and then for the library inside the package, which a wheel has. The library "
	  "ignores it.",
	  FIELD(library), .environment_only = 1 },
	{ "SLUICE_GPU_BLOCKS", ENV_COUNT, "0", "0 .. 65535",
	  "Maximum number of GPU blocks that the kernels of pushes and pulls use. A limit leaves "
	  "room for other work on the GPU. With 0 they use the whole GPU.",
	  FIELD(gpu_blocks) },
	{ "SLUICE_DEVICE_SHARDS", ENV_CHOICE, "auto", "auto|no|yes",
	  "Whether the shards of a rank sum, update and publish on a GPU. With auto they do so if "
	  "the parameters are in GPU memory and the recipe allows it. With yes they use the GPU "
	  "of the parameters, or else the one that the local rank selects. See device_shards in "
	  "sluice_model_open(3).",
	  FIELD(device_shards) },
	{ "SLUICE_MEMORY", ENV_BYTES, "0", "0 .. 1024T",
	  "A model that needs more memory than this on a rank is not opened. 0 sets no limit.",
	  FIELD(memory_bytes) },
};
enum { ENTRIES = sizeof(env_table) / sizeof(env_table[0]) };
_Static_assert((int)ENTRIES <= (int)ENV_ENTRIES_MAX, "ENV_ENTRIES_MAX is too small");
const size_t env_table_size = ENTRIES;
