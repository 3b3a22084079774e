/* SPDX-License-Identifier: BSD-3-Clause
 * The table of SLUICE_* variables and its parser. sluice_init() loads the settings once; envdoc
 * makes the man page's list from the same table. */
#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "base/nearest.h"
#include "sluice.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define FIELD(member) offsetof(struct settings, member), sizeof(((struct settings *)0)->member)

const struct env_entry env_table[] = {
	{ "SLUICE_TRANSPORT", ENV_LIST, "self,shm,verbs,ofi", "self|shm|verbs|ofi",
	  "Transports that may be used to reach other ranks. A rank that none of them reaches is "
	  "an error, never a silent fallback. For each pair of ranks Sluice takes the first of "
	  "shm, verbs and ofi that connects them. The transport ofi, over libfabric, is opened "
	  "only where a pair needs it. When the variable is set, each transport it names must work "
	  "on this node.",
	  FIELD(transport) },
	{ "SLUICE_DEVICE", ENV_TEXT, "", "NAME[:PORT][,[^]NAME...]",
	  "RDMA devices that the verbs transport may use: a list of names, in which [0-3] stands "
	  "for a number, * for any text and ^ for an exclusion, such as mlx5_[0-3],^mlx5_2. A list "
	  "that begins with ^ excludes all its entries. A rank takes one of those with an active "
	  "port and a usable address: the nearest to its GPU in the PCIe tree, or without a GPU "
	  "the nearest to its processors. Ranks of a node take turns where several are as near "
	  "and of one link layer and speed. Two ranks whose cards share no network connect through "
	  "other cards of their nodes that do.",
	  FIELD(device) },
	{ "SLUICE_GID_INDEX", ENV_TEXT, "auto", "auto or 0 .. 255",
	  "Entry of the GID table whose address the verbs transport uses. A number from 0 to 255; "
	  "auto takes the first routable RoCEv2 one on Ethernet, IPv4 before IPv6, and entry 0 on "
	  "InfiniBand without IP. A link-local RoCEv2 one is used only if it is named here.",
	  FIELD(gid_index) },
	{ "SLUICE_GID_NET", ENV_TEXT, "", "a network such as 10.1.0.0/16",
	  "The network whose addresses the verbs transport uses, where a card has addresses in "
	  "several. Without it, a card is known by all of its addresses, and each pair of ranks "
	  "takes two of one network.",
	  FIELD(gid_net) },
	{ "SLUICE_MEMORY_WINDOWS", ENV_CHOICE, "auto", "auto|yes|no",
	  "How the verbs transport limits the memory that a peer can access. yes uses memory "
	  "windows of type 2B, bound to that peer's queue pair. no uses a separate protection "
	  "domain with its registrations for each peer. auto uses windows if the device has them "
	  "and a test shows that they work.",
	  FIELD(memory_windows) },
	{ "SLUICE_TRAFFIC_CLASS", ENV_TEXT, "auto", "auto or 0 .. 255",
	  "Traffic class of the verbs transport's packets on Ethernet: the DSCP times 4, plus 2 if "
	  "switches may mark congestion (ECN). auto takes the class that an administrator gave to "
	  "the port, else 106, which is DSCP 26 with ECN. The network must treat it as lossless or "
	  "mark it; with another class, packets may be dropped under load.",
	  FIELD(traffic_class) },
	{ "SLUICE_SERVICE_LEVEL", ENV_TEXT, "auto", "auto or 0 .. 15",
	  "Service level of the verbs transport's packets: on InfiniBand the one that the subnet "
	  "manager maps to virtual lanes, on a VLAN the priority. auto takes the one that the "
	  "kernel resolves for the connection, and 0 on InfiniBand without IP.",
	  FIELD(service_level) },
	{ "SLUICE_RELAXED_ORDERING", ENV_CHOICE, "auto", "auto|no|all",
	  "Whether a network card may write and read memory out of order, which is faster on many "
	  "machines. auto allows it for a model's memory, which is used only after a completion. "
	  "all also allows it for regions of sluice_region_open(3), whose memory the program must "
	  "then not poll. Cards that cannot do it ignore it.",
	  FIELD(relaxed_ordering) },
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
	  "list like that of SLUICE_DEVICE. Where it names none, ofi leaves out loopback and "
	  "bridges of containers. With TCP, Sluice takes the first one, IPv4 before IPv6. With "
	  "other providers, ranks of a node take the cards as SLUICE_DEVICE describes.",
	  FIELD(interface) },
	{ "SLUICE_PORTS", ENV_PORTS, "", "LOW-HIGH",
	  "Ports on which a rank accepts TCP connections of the ofi transport, and UDP of the "
	  "control network, such as 20000-20063: those that a firewall lets through between the "
	  "nodes. Each rank of a node needs one. Without the variable the kernel chooses. It "
	  "replaces libfabric's FI_TCP_PORT_LOW_RANGE and FI_TCP_PORT_HIGH_RANGE.",
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
	  "Without it these are the interface that leads to the node of srun, and then interfaces "
	  "without an RDMA device; three of them are used. See LOSING A PEER.",
	  FIELD(control_interface) },
	{ "SLUICE_WARN_AFTER", ENV_MILLISECONDS, "10s", "100ms .. 24h",
	  "When a rank is alive but silent for this long, the others report that they wait for it.",
	  FIELD(patience.warn_after_ms) },
	{ "SLUICE_WAIT_TIMEOUT", ENV_MILLISECONDS, "600s", "100ms .. 168h",
	  "The longest wait for another rank. After it the waiting call fails. It must be longer "
	  "than what one rank does alone between two steps, such as an evaluation.",
	  FIELD(patience.wait_timeout_ms) },
	{ "SLUICE_BOOT_TIMEOUT", ENV_MILLISECONDS, "60s", "100ms .. 24h",
	  "Bounds each exchange with the launcher, and connecting to the other ranks.",
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
	{ "SLUICE_PLACEMENT", ENV_CHOICE, "auto", "auto|no",
	  "Where the progress thread runs. auto keeps it on the processors next to the RDMA "
	  "device that it serves. Without a device it stays on the package of the thread that "
	  "called sluice_init(). It never leaves the processors that the launcher gave this rank. "
	  "no leaves the choice to the kernel.",
	  FIELD(placement) },
	{ "SLUICE_KERNELS", ENV_CHOICE, "auto", "auto|avx512|avx2|portable",
	  "Which version of the kernels for selection and for coding messages is used; all give "
	  "the same results. auto takes the best that the processor has. The other values are for "
	  "tests and measurements. avx512 differs from avx2 only in selection, where many "
	  "coordinates are candidates.",
	  FIELD(kernels) },
	{ "SLUICE_GPU", ENV_TEXT, "auto", "auto, off or a file",
	  "The module for gradients and parameters in GPU memory, loaded when such memory is first "
	  "seen. auto means the one that was installed with the library, also if the whole "
	  "installation was moved; it is refused if users other than root, the user of the process "
	  "and the owner of the library could have changed it. off loads none.",
	  FIELD(gpu) },
	{ "SLUICE_KEY_FILE", ENV_TEXT, "", "a file",
	  "A file of 32 to 4096 random bytes, the same for all ranks of a job. A rank without it, "
	  "or with a different one, is refused by name when the job begins, even if it knows "
	  "everything that the ranks received from the launcher or the store. The file must be a "
	  "regular file that belongs to the user or to root and has mode 0600.",
	  FIELD(key_file) },
	{ "SLUICE_LIBRARY", ENV_TEXT, "", "the file of libsluice.so",
	  "The library that the Python package loads. Without it the package looks for "
	  "libsluice.so.0 as the dynamic linker does, and then in the directory that pkg-config "
	  "names. The library ignores it.",
	  FIELD(library) },
	{ "SLUICE_GPU_BLOCKS", ENV_COUNT, "0", "0 .. 65535",
	  "Maximum number of GPU blocks that the kernels of pushes and pulls use. A limit leaves "
	  "room for other work on the GPU. With 0 they use the whole GPU.",
	  FIELD(gpu_blocks) },
	{ "SLUICE_DEVICE_SHARDS", ENV_CHOICE, "auto", "auto|no|yes",
	  "Whether the shards of a rank sum, update and publish on a GPU. auto: if the parameters "
	  "are in GPU memory and the recipe allows it. yes: on the GPU of the parameters, or else "
	  "on the one that the local rank selects. See device_shards in sluice_model_open(3).",
	  FIELD(device_shards) },
	{ "SLUICE_MEMORY", ENV_BYTES, "0", "0 .. 1024T",
	  "A model that needs more memory than this on a rank is not opened. 0 sets no limit.",
	  FIELD(memory_bytes) },
};
enum { WHY_BYTES = 256, WORDS_MAX = 16, PREFIX_BYTES = 7 /* "SLUICE_" */ };
enum { ENTRIES = sizeof(env_table) / sizeof(env_table[0]) };
const size_t env_table_size = ENTRIES;

/* ---- numbers with units ---------------------------------------------------- */

struct unit {
	const char *name;
	uint64_t factor;
};

/* Durations are counted in microseconds. */
static const struct unit time_units[] = { { "us", 1 },       { "ms", 1000 },      { "s", 1000000 },
					  { "m", 60000000 }, { "h", 3600000000 }, { NULL, 0 } };
static const struct unit byte_units[] = { { "K", 1ull << 10 },
					  { "M", 1ull << 20 },
					  { "G", 1ull << 30 },
					  { "T", 1ull << 40 },
					  { NULL, 0 } };
static const struct unit no_units[] = { { NULL, 0 } };

static uint64_t multiply_saturated(uint64_t a, uint64_t b)
{
	uint64_t product;

	return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

/* Reads DIGITS[.DIGITS][UNIT]. strtod() cannot be used, because its decimal point depends on the
 * locale. Returns -1 if the text has another form, otherwise 0. A value beyond 64 bits is read as
 * UINT64_MAX. */
static int read_quantity(const char *text, const struct unit *units, uint64_t plain_factor,
			 uint64_t *out)
{
	uint64_t whole = 0, fraction = 0, scale = 1;
	const char *p = text;

	if (*p < '0' || *p > '9')
		return -1;
	for (; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(whole, 10, &whole) ||
		    __builtin_add_overflow(whole, (uint64_t)(*p - '0'), &whole))
			whole = UINT64_MAX / 10; /* larger than the limit of any range */
	if (*p == '.') {
		for (p++; *p >= '0' && *p <= '9' && scale < 1000000; p++) {
			fraction = fraction * 10 + (uint64_t)(*p - '0');
			scale *= 10;
		}
		if (scale == 1)
			return -1;
	}

	uint64_t factor = plain_factor;

	if (*p) {
		const struct unit *u = units;

		while (u->name && strcasecmp(u->name, p) != 0)
			u++;
		if (!u->name)
			return -1;
		factor = u->factor;
	} else if (scale > 1 && plain_factor == 1) {
		return -1; /* ranks and bytes cannot be split */
	}

	uint64_t value = multiply_saturated(whole, factor);
	uint64_t part = fraction * factor / scale; /* the product is below 10^6 * 2^40 */

	*out = value > UINT64_MAX - part ? UINT64_MAX : value + part;
	return 0;
}

static int is_number(enum env_kind kind)
{
	return kind == ENV_COUNT || kind == ENV_MILLISECONDS || kind == ENV_MICROSECONDS ||
	       kind == ENV_BYTES;
}

/* Reads a value in the unit of its kind: microseconds, bytes, or a plain count. */
static int read_setting(enum env_kind kind, const char *text, uint64_t *out)
{
	if (kind == ENV_MILLISECONDS)
		return read_quantity(text, time_units, 1000000, out);
	if (kind == ENV_MICROSECONDS)
		return read_quantity(text, time_units, 1, out);
	if (kind == ENV_BYTES)
		return read_quantity(text, byte_units, 1, out);
	return read_quantity(text, no_units, 1, out);
}

static const char *number_form(enum env_kind kind)
{
	if (kind == ENV_MILLISECONDS)
		return "a duration: write a number with us, ms, s, m or h (without: seconds)";
	if (kind == ENV_MICROSECONDS)
		return "a duration: write a number with us, ms, s, m or h (without: microseconds)";
	if (kind == ENV_BYTES)
		return "a size: write a number of bytes, or one with K, M, G or T";
	return "a whole number";
}

static void store_number(const struct env_entry *entry, uint64_t number, struct settings *out)
{
	char *field = (char *)out + entry->offset;

	if (entry->kind == ENV_MILLISECONDS)
		number = (number + 500) / 1000;
	if (entry->bytes == sizeof(uint64_t)) {
		memcpy(field, &number, sizeof(number));
	} else {
		int narrow = (int)number; /* cannot overflow, because the entry's range ends
					     below INT_MAX */

		memcpy(field, &narrow, sizeof(narrow));
	}
}

static int set_number(const struct env_entry *entry, const char *text, struct settings *out,
		      char why[WHY_BYTES])
{
	uint64_t number, least, most;
	char range[64];

	if (read_setting(entry->kind, text, &number)) {
		snprintf(why, WHY_BYTES, "is not %s, %s", number_form(entry->kind), entry->range);
		return -1;
	}

	snprintf(range, sizeof(range), "%s", entry->range);
	char *dots = strstr(range, " .. ");

	if (!dots) {
		snprintf(why, WHY_BYTES, "cannot be checked against the range %s", entry->range);
		return -1;
	}
	*dots = '\0';
	if (read_setting(entry->kind, range, &least) ||
	    read_setting(entry->kind, dots + 4, &most) || number < least || number > most) {
		snprintf(why, WHY_BYTES, "is outside %s", entry->range);
		return -1;
	}
	store_number(entry, number, out);
	return 0;
}

/* ---- texts and words ------------------------------------------------------- */

/* Splits list[] in place at its separators. */
static size_t cut_words(char *list, const char *separators, const char *words[WORDS_MAX])
{
	size_t n = 0;
	char *word;

	while (n < WORDS_MAX && (word = strsep(&list, separators)) != NULL)
		words[n++] = word;
	return n;
}

static int refuse_list_word(const char *word, const char *const *known, size_t n_known,
			    char why[WHY_BYTES])
{
	const char *near = nearest_word(word, known, n_known);
	int n = snprintf(why, WHY_BYTES, "has an unknown word \"%.40s\"%s%s%s; known: ", word,
			 near ? ", did you mean \"" : "", near ? near : "", near ? "\"?" : "");

	for (size_t i = 0; i < n_known && n > 0 && n < WHY_BYTES; i++)
		n += snprintf(why + n, WHY_BYTES - (size_t)n, "%s%s", i ? ", " : "", known[i]);
	return -1;
}

static int is_known(const char *word, const char *const *known, size_t n_known)
{
	for (size_t i = 0; i < n_known; i++)
		if (strcmp(word, known[i]) == 0)
			return 1;
	return 0;
}

static int set_text(const struct env_entry *entry, const char *text, struct settings *out,
		    char why[WHY_BYTES])
{
	size_t n = strlen(text);

	if (n >= entry->bytes) {
		snprintf(why, WHY_BYTES, "has %zu characters, but at most %zu fit", n,
			 entry->bytes - 1);
		return -1;
	}
	memcpy((char *)out + entry->offset, text, n + 1);
	return 0;
}

static int read_port(const char *text, char **end)
{
	const long port = *text >= '0' && *text <= '9' ? strtol(text, end, 10) : 0;

	return port >= 1 && port <= 65535 ? (int)port : 0;
}

int env_ports(const char *text, int *low, int *high)
{
	char *end;

	*low = read_port(text, &end);
	if (!*low || *end != '-')
		return -1;
	*high = read_port(end + 1, &end);
	return *high < *low || *end ? -1 : 0;
}

static int set_ports(const struct env_entry *entry, const char *text, struct settings *out,
		     char why[WHY_BYTES])
{
	int low, high;

	if (!*text || !env_ports(text, &low, &high))
		return set_text(entry, text, out, why);
	snprintf(why, WHY_BYTES,
		 "is not a range of ports: write LOW-HIGH with 1 <= LOW <= HIGH <= 65535, such as "
		 "20000-20063");
	return -1;
}

static int set_choice(const struct env_entry *entry, const char *text, struct settings *out,
		      char why[WHY_BYTES])
{
	char choices[128];
	const char *known[WORDS_MAX];

	snprintf(choices, sizeof(choices), "%s", entry->range);
	size_t n_known = cut_words(choices, "|", known);

	if (!is_known(text, known, n_known))
		return refuse_list_word(text, known, n_known, why);
	return set_text(entry, text, out, why);
}

/* Stores the list, which always contains the first known word: if the text lacks it, the word is
 * put in front. */
static int set_list(const struct env_entry *entry, const char *text, struct settings *out,
		    char why[WHY_BYTES])
{
	char choices[128], list[128], whole[192];
	const char *known[WORDS_MAX], *words[WORDS_MAX];

	if (strlen(text) >= sizeof(list))
		return set_text(entry, text, out,
				why); /* set_text() refuses a text of this length */
	snprintf(choices, sizeof(choices), "%s", entry->range);
	snprintf(list, sizeof(list), "%s", text);

	size_t n_known = cut_words(choices, "|", known);
	size_t n = cut_words(list, ",", words);

	for (size_t i = 0; i < n; i++)
		if (!is_known(words[i], known, n_known))
			return refuse_list_word(words[i], known, n_known, why);
	if (is_known(known[0], words, n))
		return set_text(entry, text, out, why);
	snprintf(whole, sizeof(whole), "%s,%s", known[0], text);
	return set_text(entry, whole, out, why);
}

/* ---- the environment ------------------------------------------------------- */

static const char *text_of(const struct env_entry *entry, const char **origin)
{
	const char *text = getenv(entry->name);

	*origin = text && *text ? "environment" : "default";
	return text && *text ? text : entry->fallback;
}

static int set_value(const struct env_entry *entry, const char *text, struct settings *out,
		     char why[WHY_BYTES])
{
	if (is_number(entry->kind))
		return set_number(entry, text, out, why);
	if (entry->kind == ENV_PORTS)
		return set_ports(entry, text, out, why);
	if (entry->kind == ENV_CHOICE)
		return set_choice(entry, text, out, why);
	if (entry->kind == ENV_LIST)
		return set_list(entry, text, out, why);
	return set_text(entry, text, out, why);
}

/* assignment is an entry of the environment, such as "SLUICE_X=1". */
static void warn_if_unknown(const char *assignment)
{
	char name[128];
	const char *known[ENTRIES];
	size_t n = strcspn(assignment, "=");
	size_t n_known = 0;

	if (n >= sizeof(name))
		n = sizeof(name) - 1;
	memcpy(name, assignment, n);
	name[n] = '\0';
	for (; n_known < ENTRIES; n_known++) {
		if (strcmp(name, env_table[n_known].name) == 0)
			return;
		known[n_known] = env_table[n_known].name + PREFIX_BYTES;
	}

	/* The comparison leaves out the common prefix, which would make all names look alike. */
	const char *near = nearest_word(name + PREFIX_BYTES, known, n_known);

	if (near)
		log_line(LOG_WARN, "runtime",
			 "the environment variable %s is unknown, so it is ignored: did you mean "
			 "SLUICE_%s?",
			 name, near);
	else
		log_line(LOG_WARN, "runtime",
			 "the environment variable %s is unknown, so it is ignored: sluice(7) "
			 "lists the known ones",
			 name);
}

int env_load(struct settings *out)
{
	struct settings settings;

	memset(&settings, 0, sizeof(settings));
	for (size_t i = 0; i < env_table_size; i++) {
		const char *origin;
		const char *text = text_of(&env_table[i], &origin);
		char why[WHY_BYTES];

		if (set_value(&env_table[i], text, &settings, why))
			return fail(SLUICE_EINVAL, "environment variable %s=\"%.80s\" %s",
				    env_table[i].name, text, why);
	}

	int rc = log_configure(settings.log);

	if (rc)
		return rc;
	for (char **assignment = environ; assignment && *assignment; assignment++)
		if (strncmp(*assignment, "SLUICE_", PREFIX_BYTES) == 0)
			warn_if_unknown(*assignment);
	memcpy(out, &settings, sizeof(settings));
	return SLUICE_OK;
}

/* Prints the number in the largest unit that needs no fraction. */
static void print_quantity(uint64_t number, const struct unit *units, FILE *to)
{
	const struct unit *best = NULL;

	for (const struct unit *u = units; u->name; u++)
		if (number > 0 && number % u->factor == 0)
			best = u;
	fprintf(to, "%llu%s", (unsigned long long)(best ? number / best->factor : number),
		best ? best->name : "");
}

static void print_value(const struct env_entry *entry, const struct settings *settings, FILE *to)
{
	const char *field = (const char *)settings + entry->offset;
	uint64_t number = 0;
	int narrow;

	if (!is_number(entry->kind)) {
		fputs(field, to);
		return;
	}
	if (entry->bytes == sizeof(number)) {
		memcpy(&number, field, sizeof(number));
	} else {
		memcpy(&narrow, field, sizeof(narrow));
		number = narrow < 0 ? 0 : (uint64_t)narrow;
	}
	if (entry->kind == ENV_MILLISECONDS)
		print_quantity(number * 1000, time_units, to);
	else if (entry->kind == ENV_MICROSECONDS)
		print_quantity(number, time_units, to);
	else
		print_quantity(number, entry->kind == ENV_BYTES ? byte_units : no_units, to);
}

static int same_value(const struct env_entry *entry, const struct settings *a,
		      const struct settings *b)
{
	const char *field_a = (const char *)a + entry->offset;
	const char *field_b = (const char *)b + entry->offset;

	if (is_number(entry->kind))
		return memcmp(field_a, field_b, entry->bytes) == 0;
	return strcmp(field_a, field_b) == 0;
}

void env_dump(const struct settings *settings, FILE *to)
{
	struct settings expected;
	char why[WHY_BYTES];

	memset(&expected, 0, sizeof(expected));
	for (size_t i = 0; i < env_table_size; i++) {
		const struct env_entry *entry = &env_table[i];
		const char *origin;
		const char *text = text_of(entry, &origin);

		if (set_value(entry, text, &expected, why) ||
		    !same_value(entry, &expected, settings))
			origin = "attribute";
		fprintf(to, "%s=", entry->name);
		print_value(entry, settings, to);
		fprintf(to, " (%s)\n", origin);
	}
}
