/* SPDX-License-Identifier: BSD-3-Clause
 * The table of environment variables: defaults, units, ranges, refusals, the dump. */
#include "base/env.h"
#include "base/log.h"
#include "sluice.h"
#include "cases.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int warnings;
static char last_warning[1024];

static void count_warnings(int level, const char *line, void *context)
{
	if (level != LOG_WARN)
		return;
	warnings++;
	snprintf(last_warning, sizeof(last_warning), "%s", line);
}

/* Starts each test without any other SLUICE_* variable, whatever the environment of the caller has,
 * and without the files sluice.conf of this machine. */
static int clean_environment(void **state)
{
	for (size_t i = 0; environ && environ[i];) {
		char name[128];

		snprintf(name, sizeof(name), "%.*s", (int)strcspn(environ[i], "="), environ[i]);
		if (strncmp(name, "SLUICE_", 7) == 0)
			unsetenv(name);
		else
			i++;
	}
	warnings = 0;
	last_warning[0] = '\0';
	sluice_set_log(count_warnings, NULL);
	return setenv("SLUICE_CONF", "off", 1) ? -1 : log_configure("warn");
}

#define CASE(name) TEST_WITH(name, clean_environment, NULL)

CASE(env_load__defaults)
{
	struct settings s;

	assert_int_equal(env_load(&s), 0);
	assert_string_equal(s.transport, "self,shm,verbs,ofi");
	assert_string_equal(s.log, "warn");
	assert_string_equal(s.recipe, "");
	assert_string_equal(s.on_failure, "abort");
	assert_int_equal(s.servers, 0);
	assert_int_equal(s.patience.lost_after_ms, 5000);
	assert_int_equal(s.patience.warn_after_ms, 10000);
	assert_int_equal(s.patience.wait_timeout_ms, 600000);
	assert_int_equal(s.patience.boot_timeout_ms, 60000);
	assert_int_equal(s.spin_us, 50);
	assert_int_equal(s.memory_bytes, 0);
	assert_int_equal(warnings, 0);
}

CASE(env_load__empty_value_is_the_default)
{
	struct settings s;

	setenv("SLUICE_LOST_AFTER", "", 1);
	setenv("SLUICE_LOG", "", 1);
	assert_int_equal(env_load(&s), 0);
	assert_int_equal(s.patience.lost_after_ms, 5000);
	assert_string_equal(s.log, "warn");
}

static void expect_duration(const char *text, int ms)
{
	struct settings s;

	setenv("SLUICE_LOST_AFTER", text, 1);
	if (env_load(&s))
		fail_msg("%s: %s", text, sluice_last_error());
	assert_int_equal(s.patience.lost_after_ms, ms);
}

CASE(env_load__durations_in_every_unit)
{
	expect_duration("5s", 5000);
	expect_duration("500ms", 500);
	expect_duration("2m", 120000);
	expect_duration("1h", 3600000);
	expect_duration("200000us", 200);
	expect_duration("7", 7000);
	expect_duration("1.5", 1500);
	expect_duration("0.25s", 250);
	expect_duration("100ms", 100);
	expect_duration("0000005s", 5000);
}

CASE(env_load__plain_spin_is_microseconds)
{
	struct settings s;

	setenv("SLUICE_SPIN", "200", 1);
	assert_int_equal(env_load(&s), 0);
	assert_int_equal(s.spin_us, 200);
	setenv("SLUICE_SPIN", "1.5ms", 1);
	assert_int_equal(env_load(&s), 0);
	assert_int_equal(s.spin_us, 1500);
	setenv("SLUICE_SPIN", "0", 1);
	assert_int_equal(env_load(&s), 0);
	assert_int_equal(s.spin_us, 0);
}

static void expect_bytes(const char *text, uint64_t bytes)
{
	struct settings s;

	setenv("SLUICE_MEMORY", text, 1);
	if (env_load(&s))
		fail_msg("%s: %s", text, sluice_last_error());
	assert_true(s.memory_bytes == bytes);
}

CASE(env_load__bytes_in_every_unit)
{
	expect_bytes("4096", 4096);
	expect_bytes("1K", 1024);
	expect_bytes("512M", 512ull << 20);
	expect_bytes("8G", 8ull << 30);
	expect_bytes("8g", 8ull << 30);
	expect_bytes("1.5G", 3ull << 29);
	expect_bytes("1024T", 1ull << 50);
}

static void expect_refused(const char *name, const char *value, const char *phrase)
{
	struct settings s, before;

	memset(&before, 0x5a, sizeof(before));
	memset(&s, 0x5a, sizeof(s));
	setenv(name, value, 1);
	assert_int_equal(env_load(&s), SLUICE_EINVAL);
	assert_memory_equal(&s, &before, sizeof(s));
	if (!strstr(sluice_last_error(), phrase) || !strstr(sluice_last_error(), name) ||
	    !strstr(sluice_last_error(), value))
		fail_msg("\"%s\" does not name %s, %s or \"%s\"", sluice_last_error(), name, value,
			 phrase);
	unsetenv(name);
}

CASE(env_load__values_without_meaning_are_refused)
{
	expect_refused("SLUICE_LOST_AFTER", "soon", "is not a duration");
	expect_refused("SLUICE_LOST_AFTER", "5x", "us, ms, s, m or h");
	expect_refused("SLUICE_LOST_AFTER", "5 s", "is not a duration");
	expect_refused("SLUICE_LOST_AFTER", "5s5", "is not a duration");
	expect_refused("SLUICE_LOST_AFTER", "5.s", "is not a duration");
	expect_refused("SLUICE_LOST_AFTER", "-5", "is not a duration");
	expect_refused("SLUICE_LOST_AFTER", "1e3", "is not a duration");
	expect_refused("SLUICE_LOST_AFTER", "0.12345678", "is not a duration");
	expect_refused("SLUICE_SPIN", "0.5", "without a unit is in microseconds");
	expect_refused("SLUICE_MEMORY", "8Q", "K, M, G or T");
	expect_refused("SLUICE_MEMORY", "0.5", "is not a size");
	expect_refused("SLUICE_KERNELS", "avx3", "did you mean \"avx2\"?");
	expect_refused("SLUICE_SERVERS", "two", "is not a whole number, 0 .. 65535");
	expect_refused("SLUICE_SERVERS", "2K", "is not a whole number");
	expect_refused("SLUICE_SERVERS", "1.0", "is not a whole number");
}

CASE(env_load__ports_are_a_range_or_refused)
{
	static const char *const wrong[] = { "20000",       "-20000", "20000-",
					     "20063-20000", "0-100",  "1-65536",
					     "1-99999999",  "a-b",    "20000-20063x",
					     "20000:20063", "1--2",   " 1-2" };
	struct settings s;
	int low, high;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		expect_refused("SLUICE_PORTS", wrong[i], "is not a range of ports");
	setenv("SLUICE_PORTS", "20000-20063", 1);
	assert_int_equal(env_load(&s), 0);
	assert_string_equal(s.ports, "20000-20063");
	assert_int_equal(env_ports("1-65535", &low, &high), 0);
	assert_true(low == 1 && high == 65535);
	assert_int_equal(env_ports("7000-7000", &low, &high), 0);
}

CASE(env_load__values_out_of_range_are_refused)
{
	expect_refused("SLUICE_LOST_AFTER", "0", "is outside 100ms .. 1h");
	expect_refused("SLUICE_LOST_AFTER", "99ms", "is outside 100ms .. 1h");
	expect_refused("SLUICE_LOST_AFTER", "3601", "is outside 100ms .. 1h");
	expect_refused("SLUICE_LOST_AFTER", "18446744073709551617", "is outside");
	expect_refused("SLUICE_LOST_AFTER", "99999999999999999999999999h", "is outside");
	expect_refused("SLUICE_SERVERS", "65536", "is outside 0 .. 65535");
	expect_refused("SLUICE_MEMORY", "1025T", "is outside 0 .. 1024T");
	expect_refused("SLUICE_MEMORY", "18446744073709551615T", "is outside");
	expect_refused("SLUICE_SPIN", "2s", "is outside 0us .. 1s");
}

CASE(env_load__transport_list)
{
	struct settings s;

	setenv("SLUICE_TRANSPORT", "shm", 1);
	assert_int_equal(env_load(&s), 0);
	assert_string_equal(s.transport, "self,shm"); /* self is always included */
	setenv("SLUICE_TRANSPORT", "self", 1);
	assert_int_equal(env_load(&s), 0);
	assert_string_equal(s.transport, "self");
	setenv("SLUICE_TRANSPORT", "shm,self", 1);
	assert_int_equal(env_load(&s), 0);
	assert_string_equal(s.transport, "shm,self");
	expect_refused("SLUICE_TRANSPORT", "self,smh",
		       "unknown word \"smh\", did you mean \"shm\"?; known: self, shm");
	expect_refused("SLUICE_TRANSPORT", "shm,", "unknown word \"\"");
	expect_refused("SLUICE_TRANSPORT",
		       "shm,shm,shm,shm,shm,shm,shm,shm,shm,shm,shm,shm,shm,shm,shm,shm,shm",
		       "at most 63 fit");
}

CASE(env_load__choice_and_log_name_the_nearest)
{
	expect_refused("SLUICE_ON_FAILURE", "abrt", "did you mean \"abort\"?");
	expect_refused("SLUICE_LOG", "debgu", "did you mean \"debug\"?");
}

CASE(env_load__log_takes_effect)
{
	struct settings s;

	setenv("SLUICE_LOG", "slurm+debug", 1);
	assert_int_equal(env_load(&s), 0);
	assert_true(log_enabled(LOG_DEBUG, "slurm"));
	assert_false(log_enabled(LOG_DEBUG, "rdma"));
}

CASE(env_load__too_long_text_is_refused)
{
	char text[600];
	struct settings s;

	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	setenv("SLUICE_RECIPE", text, 1);
	assert_int_equal(env_load(&s), SLUICE_EINVAL);
	assert_non_null(strstr(sluice_last_error(), "has 599 characters, but at most 511 fit"));
}

CASE(env_load__unknown_variable_warns_with_the_nearest)
{
	struct settings s;

	setenv("SLUICE_LOST_AFTR", "5s", 1);
	assert_int_equal(env_load(&s), 0);
	assert_int_equal(warnings, 1);
	assert_non_null(strstr(last_warning,
			       "SLUICE_LOST_AFTR is unknown, so it is ignored: did you mean "
			       "SLUICE_LOST_AFTER?"));
	unsetenv("SLUICE_LOST_AFTR");
	setenv("SLUICE_COFFEE", "black", 1);
	assert_int_equal(env_load(&s), 0);
	assert_int_equal(warnings, 2);
	assert_non_null(strstr(last_warning, "SLUICE_COFFEE is unknown"));
	assert_null(strstr(last_warning, "did you mean"));
}

CASE(env_load__unknown_variable_is_silent_at_level_error)
{
	struct settings s;

	setenv("SLUICE_COFFEE", "black", 1);
	setenv("SLUICE_LOG", "error", 1);
	assert_int_equal(env_load(&s), 0);
	assert_int_equal(warnings, 0);
}

static void dump(const struct settings *s, char *text, size_t cap)
{
	FILE *file = tmpfile();

	assert_non_null(file);
	env_dump(s, file);
	rewind(file);
	text[fread(text, 1, cap - 1, file)] = '\0';
	fclose(file);
}

CASE(env_dump__shows_value_and_origin)
{
	struct settings s;
	char text[4096];

	setenv("SLUICE_MEMORY", "1536M", 1);
	setenv("SLUICE_WARN_AFTER", "2500ms", 1);
	setenv("SLUICE_SERVERS", "2", 1);
	assert_int_equal(env_load(&s), 0);
	s.servers = 3;
	s.patience.lost_after_ms = 9000;
	dump(&s, text, sizeof(text));
	assert_non_null(strstr(text, "SLUICE_TRANSPORT=self,shm,verbs,ofi (default)\n"));
	assert_non_null(strstr(text, "SLUICE_MEMORY=1536M (environment)\n"));
	assert_non_null(strstr(text, "SLUICE_WARN_AFTER=2500ms (environment)\n"));
	assert_non_null(strstr(text, "SLUICE_SERVERS=3 (attribute)\n"));
	assert_non_null(strstr(text, "SLUICE_LOST_AFTER=9s (attribute)\n"));
	assert_non_null(strstr(text, "SLUICE_WAIT_TIMEOUT=10m (default)\n"));
	assert_non_null(strstr(text, "SLUICE_SPIN=50us (default)\n"));
}

CASE(env_dump__values_read_back_to_the_same_settings)
{
	struct settings s, again;
	char text[4096];

	setenv("SLUICE_MEMORY", "123456789", 1);
	setenv("SLUICE_SPIN", "1234us", 1);
	setenv("SLUICE_BOOT_TIMEOUT", "90s", 1);
	assert_int_equal(env_load(&s), 0);
	dump(&s, text, sizeof(text));
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		char *equals = strchr(line, '=');
		char *origin = strstr(line, " (");

		assert_non_null(equals);
		assert_non_null(origin);
		*equals = *origin = '\0';
		setenv(line, equals + 1, 1);
	}
	assert_int_equal(env_load(&again), 0);
	assert_memory_equal(&s, &again, sizeof(s));
	assert_int_equal(warnings, 0);
}

TEST(env_table__entries_are_complete)
{
	for (size_t i = 0; i < env_table_size; i++) {
		const struct env_entry *e = &env_table[i];

		assert_memory_equal(e->name, "SLUICE_", 7);
		assert_true(strlen(e->help) > 20);
		assert_int_equal(e->help[strlen(e->help) - 1], '.');
		assert_true(e->offset + e->bytes <= sizeof(struct settings));
		for (size_t j = 0; j < i; j++)
			assert_string_not_equal(e->name, env_table[j].name);
	}
}
