/* SPDX-License-Identifier: BSD-3-Clause
 * Reads the settings of env_table.c from the environment and from sluice.conf. sluice_init() loads
 * them once. */
#include "base/env.h"
#include "base/conf.h"
#include "base/error.h"
#include "base/log.h"
#include "base/nearest.h"
#include "sluice.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { WHY_BYTES = 256, WORDS_MAX = 16, PREFIX_BYTES = 7 /* "SLUICE_" */ };

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
		return -1; /* a fraction of a rank or of a byte makes no sense */
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
		return "a duration: write a number with us, ms, s, m or h; a number without a "
		       "unit is in seconds";
	if (kind == ENV_MICROSECONDS)
		return "a duration: write a number with us, ms, s, m or h; a number without a "
		       "unit is in microseconds";
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

	if (word_index(text, known, n_known) < 0)
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
		if (word_index(words[i], known, n_known) < 0)
			return refuse_list_word(words[i], known, n_known, why);
	if (word_index(known[0], words, n) >= 0)
		return set_text(entry, text, out, why);
	snprintf(whole, sizeof(whole), "%s,%s", known[0], text);
	return set_text(entry, whole, out, why);
}

/* ---- environment, files and defaults ---------------------------------------- */

static int is_set(const struct env_entry *entry)
{
	const char *text = getenv(entry->name);

	return text && *text;
}

int env_lists(const char *list, const char *word)
{
	const size_t n = strlen(word);

	for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',')
		if (!strncmp(at, word, n) && (at[n] == ',' || !at[n]))
			return 1;
	return 0;
}

const char *env_text(const char *name)
{
	for (size_t i = 0; i < env_table_size; i++)
		if (strcmp(env_table[i].name, name) == 0) {
			const char *text = is_set(&env_table[i]) ? getenv(name) :
								   conf_value(i).text;

			return text && *text ? text : NULL;
		}
	return NULL;
}

/* Returns the text that the environment or a file gives to the setting. If there is none, or if it
 * is "", returns the default. */
static const char *text_of(const struct env_entry *entry, const struct conf_value *from_file)
{
	const char *text = is_set(entry) ? getenv(entry->name) : from_file->text;

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
	const char *known[ENV_ENTRIES_MAX];
	size_t n = strcspn(assignment, "=");
	size_t n_known = 0;

	if (n >= sizeof(name))
		n = sizeof(name) - 1;
	memcpy(name, assignment, n);
	name[n] = '\0';
	for (; n_known < env_table_size; n_known++) {
		if (strcmp(name, env_table[n_known].name) == 0)
			return;
		known[n_known] = env_table[n_known].name + PREFIX_BYTES;
	}

	/* The common prefix is left out of the comparison, because it would make all names look
	 * alike. */
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

/* Sets one setting. Refuses a wrong value in a file even if the environment replaces it. */
static int set_entry(size_t i, struct settings *settings)
{
	const struct env_entry *entry = &env_table[i];
	const struct conf_value in_file = conf_value(i);
	char why[WHY_BYTES];

	if (in_file.text && *in_file.text && set_value(entry, in_file.text, settings, why))
		return fail(SLUICE_EINVAL, "%s line %d: %s=\"%.80s\" %s", in_file.file,
			    in_file.line, entry->name, in_file.text, why);

	const char *text = text_of(entry, &in_file);

	if (set_value(entry, text, settings, why))
		return fail(SLUICE_EINVAL, "environment variable %s=\"%.80s\" %s", entry->name,
			    text, why);
	return 0;
}

int env_load(struct settings *out)
{
	struct settings settings;
	int rc = conf_load();

	memset(&settings, 0, sizeof(settings));
	for (size_t i = 0; i < env_table_size && !rc; i++)
		rc = set_entry(i, &settings);
	if (!rc)
		rc = log_configure(settings.log);
	if (rc)
		return rc;
	for (char **assignment = environ; assignment && *assignment; assignment++)
		if (strncmp(*assignment, "SLUICE_", PREFIX_BYTES) == 0)
			warn_if_unknown(*assignment);
	memcpy(out, &settings, sizeof(settings));
	return SLUICE_OK;
}

int sluice_setting(const char *name, char *value, size_t bytes)
{
	if (!value && bytes)
		return fail(SLUICE_EINVAL, "sluice_setting: value is NULL, but has %zu bytes",
			    bytes);
	for (size_t i = 0; name && i < env_table_size; i++)
		if (strcmp(env_table[i].name, name) == 0) {
			const struct conf_value in_file = conf_value(i);

			return snprintf(value, bytes, "%s", text_of(&env_table[i], &in_file));
		}
	return fail(SLUICE_EINVAL,
		    "sluice_setting: there is no setting \"%.60s\"; sluice(7) lists them",
		    name ? name : "(NULL)");
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
		const struct conf_value in_file = conf_value(i);

		fprintf(to, "%s=", entry->name);
		print_value(entry, settings, to);
		if (set_value(entry, text_of(entry, &in_file), &expected, why) ||
		    !same_value(entry, &expected, settings))
			fputs(" (attribute)\n", to);
		else if (is_set(entry))
			fputs(" (environment)\n", to);
		else if (in_file.text)
			fprintf(to, " (%s line %d)\n", in_file.file, in_file.line);
		else
			fputs(" (default)\n", to);
	}
}
