/* SPDX-License-Identifier: BSD-3-Clause
 * sluice.conf: the form, the order of the files, their owners, refusals, and origins. */
#include "base/conf.h"
#include "base/env.h"
#include "base/log.h"
#include "base/module.h"
#include "sluice.h"
#include "cases.h"
#include "scratch.h"

#include <errno.h>

static char folder[SCRATCH_PATH], warned[1024];
static int warnings;

static void keep_warning(int level, const char *line, void *context)
{
	(void)context;
	if (level != LOG_WARN)
		return;
	warnings++;
	snprintf(warned, sizeof(warned), "%s", line);
}

/* The build may lie below a directory of another user, where every file is refused. */
static int make_folder(void)
{
	char why[1024];

	if (scratch_make(folder))
		return -1;
	if (!module_check_owners(folder, why, sizeof(why)))
		return 0;
	scratch_remove(folder);
	return setenv("TMPDIR", "/tmp", 1) || scratch_make(folder);
}

/* Each test has its own directory for the user's file, and no other setting. */
static int begin_test(void **state)
{
	(void)state;
	while (environ && *environ) {
		char **one = environ;
		char name[128];

		while (*one && strncmp(*one, "SLUICE_", 7) != 0)
			one++;
		if (!*one)
			break;
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(*one, "="), *one);
		unsetenv(name);
	}
	warnings = 0;
	*warned = '\0';
	sluice_set_log(keep_warning, NULL);
	umask(022);
	if (make_folder() || setenv("XDG_CONFIG_HOME", folder, 1))
		return -1;
	return log_configure("warn");
}

static int end_test(void **state)
{
	(void)state;
	scratch_remove(folder);
	return 0;
}

#define CASE(name) TEST_WITH(name, begin_test, end_test)

/* Writes a file in the test's directory, and returns its path. */
static const char *write_text(const char *name, const char *text)
{
	static char path[SCRATCH_PATH + 64];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	assert_int_equal(scratch_write(path, text, strlen(text)), 0);
	return path;
}

static void write_user_file(const char *text)
{
	char path[SCRATCH_PATH + 16];

	snprintf(path, sizeof(path), "%s/sluice", folder);
	if (mkdir(path, 0700))
		assert_int_equal(errno, EEXIST);
	write_text("sluice/sluice.conf", text);
}

static struct settings loaded(void)
{
	struct settings s;

	if (env_load(&s))
		fail_msg("%s", sluice_last_error());
	return s;
}

static void expect_refused(int code, const char *phrase)
{
	struct settings s, before;

	memset(&before, 0x5a, sizeof(before));
	memset(&s, 0x5a, sizeof(s));
	assert_int_equal(env_load(&s), code);
	assert_memory_equal(&s, &before, sizeof(s));
	if (!strstr(sluice_last_error(), phrase))
		fail_msg("\"%s\" lacks \"%s\"", sluice_last_error(), phrase);
}

CASE(conf__settings_of_a_file_are_in_force)
{
	write_user_file("# a comment\n\n  SLUICE_LOST_AFTER =  9s \r\nSLUICE_SERVERS=2\n"
			"\tSLUICE_RECIPE = up=topk(0.01) down=all");
	struct settings s = loaded();

	assert_int_equal(s.patience.lost_after_ms, 9000);
	assert_int_equal(s.servers, 2);
	assert_string_equal(s.recipe, "up=topk(0.01) down=all");
	assert_string_equal(s.log, "warn");
	assert_int_equal(warnings, 0);
}

CASE(conf__environment_replaces_a_file)
{
	write_user_file("SLUICE_SERVERS = 2\nSLUICE_LOST_AFTER = 9s\n");
	setenv("SLUICE_SERVERS", "3", 1);
	setenv("SLUICE_LOST_AFTER", "", 1); /* counts as not set */
	struct settings s = loaded();

	assert_int_equal(s.servers, 3);
	assert_int_equal(s.patience.lost_after_ms, 9000);
}

CASE(conf__a_named_file_replaces_the_others)
{
	write_user_file("SLUICE_SERVERS = 2\n");
	setenv("SLUICE_CONF", write_text("other", "SLUICE_MESH = 7\n"), 1);
	struct settings s = loaded();

	assert_int_equal(s.servers, 0);
	assert_int_equal(s.mesh, 7);
	setenv("SLUICE_CONF", "off", 1);
	s = loaded();
	assert_int_equal(s.servers, 0);
	assert_int_equal(s.mesh, 64);
	unsetenv("SLUICE_CONF");
	assert_int_equal(loaded().servers, 2);
}

CASE(conf__an_empty_value_is_the_default)
{
	write_user_file("SLUICE_LOST_AFTER =\n");
	assert_int_equal(loaded().patience.lost_after_ms, 5000);
}

CASE(conf__a_later_file_replaces_values)
{
	struct conf_value values[ENV_ENTRIES_MAX] = { 0 };
	char site[] = "SLUICE_SERVERS=1\nSLUICE_MESH=5", user[] = "\nSLUICE_SERVERS=2",
	     why[CONF_WHY_BYTES];
	size_t found = 0;

	assert_int_equal(conf_parse(site, strlen(site), "site", values, NULL, why), 0);
	assert_int_equal(conf_parse(user, strlen(user), "user", values, NULL, why), 0);
	for (size_t i = 0; i < env_table_size; i++) {
		const int servers = !strcmp(env_table[i].name, "SLUICE_SERVERS");

		if (!values[i].text)
			continue;
		found++;
		assert_string_equal(values[i].text, servers ? "2" : "5");
		assert_string_equal(values[i].file, servers ? "user" : "site");
		assert_int_equal(values[i].line, 2);
	}
	assert_int_equal(found, 2);
}

CASE(conf__wrong_lines_are_refused_whole)
{
	write_user_file("SLUICE_MESH = 9\nSLUICE_LOST_AFTER = 9 parsecs\n");
	expect_refused(SLUICE_EINVAL,
		       "sluice.conf line 2: SLUICE_LOST_AFTER=\"9 parsecs\" is not a duration");
	write_user_file("SLUICE_SERVERS = 65536\n");
	setenv("SLUICE_SERVERS", "1", 1); /* the environment does not hide the error */
	expect_refused(SLUICE_EINVAL, "line 1: SLUICE_SERVERS=\"65536\" is outside 0 .. 65535");
	unsetenv("SLUICE_SERVERS");
	write_user_file("SLUICE_SERVERS = 1\n\nSLUICE_SERVERS = 2\n");
	expect_refused(SLUICE_EINVAL, "line 3 sets SLUICE_SERVERS, which line 1 has set already");
	write_user_file("SLUICE_SERVERS 1\n");
	expect_refused(SLUICE_EINVAL, "line 1 is not NAME = VALUE: \"SLUICE_SERVERS 1\"");
	write_user_file("=1\n");
	expect_refused(SLUICE_EINVAL, "line 1 is not NAME = VALUE");
	write_user_file("SLUICE_LOG = debgu\n");
	expect_refused(SLUICE_EINVAL, "did you mean \"debug\"?");
	write_user_file("SLUICE_LIBRARY = /tmp/x.so\n");
	expect_refused(SLUICE_EINVAL, "sets SLUICE_LIBRARY, which only the environment can set");
	write_user_file("SLUICE_LOG = \033[2J\n");
	expect_refused(SLUICE_EINVAL, "has a control character at byte 13");
	write_user_file("SLUICE_MESH = 9\n");
	assert_int_equal(loaded().mesh, 9);
}

CASE(conf__unknown_names_warn_and_do_nothing)
{
	write_user_file("SLUICE_MESH = 9\nSLUICE_LOST_AFTR = 9s\n");
	assert_int_equal(loaded().mesh, 9);
	assert_int_equal(warnings, 1);
	assert_non_null(strstr(warned, "line 2: the setting SLUICE_LOST_AFTR is unknown"));
	assert_non_null(strstr(warned, "did you mean SLUICE_LOST_AFTER?"));
	write_user_file("SLUICE_COFFEE = 1\nSLUICE_MESH = 9\nSLUICE_TEA = 2\n");
	assert_int_equal(loaded().mesh, 9);
	assert_int_equal(warnings, 3);
	assert_non_null(strstr(warned, "line 3: the setting SLUICE_TEA is unknown"));
}

CASE(conf__files_that_others_can_write_are_refused)
{
	char path[SCRATCH_PATH + 64];

	write_user_file("SLUICE_MESH = 9\n");
	snprintf(path, sizeof(path), "%s/sluice/sluice.conf", folder);
	assert_int_equal(chmod(path, 0666), 0);
	expect_refused(SLUICE_EINVAL, "can be written by others (mode 0666)");
	assert_non_null(strstr(sluice_last_error(), "sluice.conf is not safe to use: /"));
	assert_int_equal(chmod(path, 0644), 0);
	assert_int_equal(loaded().mesh, 9);
	if (chown(path, 4242, 4242))
		return; /* only root can give a file to another user, and not in every namespace */
	expect_refused(SLUICE_EINVAL, "belongs to user 4242");
	assert_non_null(strstr(sluice_last_error(), "set SLUICE_CONF=off"));
}

CASE(conf__what_is_no_file_is_refused)
{
	char large[CONF_FILE_BYTES + 2];

	setenv("SLUICE_CONF", "/nowhere/sluice.conf", 1);
	expect_refused(SLUICE_EIO, "/nowhere/sluice.conf of SLUICE_CONF cannot be read: "
				   "ENOENT");
	setenv("SLUICE_CONF", folder, 1);
	expect_refused(SLUICE_EIO, "is not a regular file");
	memset(large, '\n', sizeof(large) - 1);
	large[sizeof(large) - 1] = '\0';
	setenv("SLUICE_CONF", write_text("large", large), 1);
	expect_refused(SLUICE_EIO, "has more than 65536 bytes");
}

CASE(conf__the_dump_names_each_origin)
{
	char *text = NULL;
	size_t bytes;

	write_user_file("\nSLUICE_MESH = 9\nSLUICE_SERVERS = 2\n");
	setenv("SLUICE_SPIN", "7us", 1);
	struct settings s = loaded();
	FILE *to = open_memstream(&text, &bytes);

	assert_non_null(to);
	s.servers = 5;
	env_dump(&s, to);
	fclose(to);
	assert_non_null(strstr(text, "/sluice/sluice.conf line 2)\n"));
	assert_non_null(strstr(text, "SLUICE_MESH=9 (/"));
	assert_non_null(strstr(text, "SLUICE_SERVERS=5 (attribute)\n"));
	assert_non_null(strstr(text, "SLUICE_SPIN=7us (environment)\n"));
	assert_non_null(strstr(text, "SLUICE_LOST_AFTER=5s (default)\n"));
	free(text);
}

CASE(conf__settings_are_given_to_other_languages)
{
	char value[16];

	write_user_file("SLUICE_MESH = 9\nSLUICE_RECIPE = up=all down=all lr=1\n");
	loaded();
	assert_int_equal(sluice_setting("SLUICE_MESH", value, sizeof(value)), 1);
	assert_string_equal(value, "9");
	assert_int_equal(sluice_setting("SLUICE_RECIPE", value, sizeof(value)), 20);
	assert_string_equal(value, "up=all down=all"); /* cut */
	assert_int_equal(sluice_setting("SLUICE_LOST_AFTER", value, sizeof(value)), 2);
	assert_string_equal(value, "5s");
	assert_int_equal(sluice_setting("SLUICE_COFFEE", value, sizeof(value)), SLUICE_EINVAL);
	assert_int_equal(sluice_setting(NULL, value, sizeof(value)), SLUICE_EINVAL);
	assert_int_equal(sluice_setting("SLUICE_MESH", NULL, 1), SLUICE_EINVAL);
	assert_int_equal(sluice_setting("SLUICE_MESH", NULL, 0), 1);
	assert_string_equal(env_text("SLUICE_MESH"), "9");
	assert_null(env_text("SLUICE_LOST_AFTER"));
}

TEST(conf_table__files_and_environment_have_one_table)
{
	for (size_t i = 0; i < env_table_size; i++)
		assert_int_equal(env_table[i].environment_only,
				 !strcmp(env_table[i].name, "SLUICE_CONF") ||
					 !strcmp(env_table[i].name, "SLUICE_KERNELS") ||
					 !strcmp(env_table[i].name, "SLUICE_LIBRARY"));
}
