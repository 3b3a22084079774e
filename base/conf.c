/* SPDX-License-Identifier: BSD-3-Clause
 * See conf.h. A setting can name code to load (SLUICE_GPU), so a file is read only if no other user
 * could have written it. */
#include "base/conf.h"
#include "base/error.h"
#include "base/log.h"
#include "base/module.h"
#include "base/nearest.h"
#include "sluice.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { REASON_BYTES = CONF_WHY_BYTES - 32 };

/* ---- the text of a file ----------------------------------------------------- */

static int is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static char *trim(char *text)
{
	char *end = text + strlen(text);

	while (end > text && is_space(end[-1]))
		*--end = '\0';
	while (is_space(*text))
		text++;
	return text;
}

static const struct env_entry *find_entry(const char *name)
{
	for (size_t i = 0; i < env_table_size; i++)
		if (strcmp(env_table[i].name, name) == 0)
			return &env_table[i];
	return NULL;
}

/* Takes one line, which may be overwritten. */
static int take_line(char *line, const struct conf_value *at,
		     struct conf_value values[ENV_ENTRIES_MAX], conf_unknown_fn unknown,
		     char why[REASON_BYTES])
{
	char *name = trim(line), *equals = strchr(name, '=');

	if (!*name || *name == '#')
		return 0;
	if (!equals || equals == name) {
		snprintf(why, REASON_BYTES, "is not NAME = VALUE: \"%.60s\"", name);
		return -1;
	}
	*equals = '\0';
	name = trim(name);

	const struct env_entry *entry = find_entry(name);

	if (!entry) {
		if (unknown)
			unknown(&(struct conf_value){ name, at->file, at->line });
		return 0;
	}
	if (entry->environment_only) {
		snprintf(why, REASON_BYTES,
			 "sets %s, which only the environment can set: remove the line", name);
		return -1;
	}

	struct conf_value *value = &values[entry - env_table];

	if (value->text && value->file == at->file) {
		snprintf(why, REASON_BYTES, "sets %s, which line %d has set already", name,
			 value->line);
		return -1;
	}
	*value = (struct conf_value){ trim(equals + 1), at->file, at->line };
	return 0;
}

int conf_parse(char *bytes, size_t n, const char *file, struct conf_value values[ENV_ENTRIES_MAX],
	       conf_unknown_fn unknown, char why[CONF_WHY_BYTES])
{
	struct conf_value at = { NULL, file, 0 };
	char *rest = bytes, *line, reason[REASON_BYTES];

	for (size_t i = 0; i < n; i++)
		if (((unsigned char)bytes[i] < ' ' && !is_space(bytes[i]) && bytes[i] != '\n') ||
		    bytes[i] == 0x7f) {
			snprintf(why, CONF_WHY_BYTES, "has a control character at byte %zu", i);
			return -1;
		}
	while ((line = strsep(&rest, "\n")) != NULL) {
		at.line++;
		if (take_line(line, &at, values, unknown, reason)) {
			blank_controls(reason);
			snprintf(why, CONF_WHY_BYTES, "line %d %s", at.line, reason);
			return -1;
		}
	}
	return 0;
}

/* ---- the files -------------------------------------------------------------- */

/* The contents of the files. Callers hold texts of the current contents, so these are never freed.
 * New contents become current only if a file has changed. */
struct conf {
	struct conf *older;
	struct conf_value values[ENV_ENTRIES_MAX];
	struct conf_file {
		char path[PATH_MAX]; /* "": there is no such file */
		char *bytes, *raw;   /* the file cut into texts, and the file as it was read */
		size_t n;
	} file[CONF_FILES];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct conf *_Atomic current; /* written under lock; read without it, because no contents are
					freed */

static void free_conf(struct conf *conf)
{
	for (int i = 0; conf && i < CONF_FILES; i++) {
		free(conf->file[i].bytes);
		free(conf->file[i].raw);
	}
	free(conf);
}

static int refuse(int code, const char *path, const char *why, int quiet)
{
	return (quiet ? fail_quietly : fail)(
		code, "%s %s; set SLUICE_CONF=off to start without files of settings", path, why);
}

static int read_all(int fd, struct conf_file *file)
{
	ssize_t got;

	file->bytes = malloc(CONF_FILE_BYTES + 1);
	file->raw = malloc(CONF_FILE_BYTES + 1);
	if (!file->bytes || !file->raw)
		return ENOMEM;
	while (file->n <= CONF_FILE_BYTES &&
	       (got = read(fd, file->raw + file->n, CONF_FILE_BYTES + 1 - file->n)) != 0) {
		if (got < 0 && errno != EINTR)
			return errno;
		file->n += got > 0 ? (size_t)got : 0;
	}
	if (file->n > CONF_FILE_BYTES)
		return EFBIG;
	memcpy(file->bytes, file->raw, file->n);
	file->bytes[file->n] = '\0';
	return 0;
}

/* The path has no symbolic links, so the file that is read is the file that was checked. */
static int read_conf(struct conf_file *file, int quiet)
{
	char why[PATH_MAX + 256] = "is not safe to use: ", *cause = why + strlen(why);
	struct stat status;
	int error = 0;

	/* The cause may be a directory above the file. */
	if (module_check_owners(file->path, cause, sizeof(why) - (size_t)(cause - why)))
		return refuse(SLUICE_EINVAL, file->path, why, quiet);

	int fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);

	if (fd < 0 || fstat(fd, &status))
		error = errno;
	else if (!S_ISREG(status.st_mode))
		error = EINVAL;
	else
		error = read_all(fd, file);
	if (fd >= 0)
		close(fd);
	if (!error)
		return 0;
	if (error == EINVAL)
		snprintf(why, sizeof(why), "is not a regular file");
	else if (error == EFBIG)
		snprintf(why, sizeof(why), "has more than %d bytes", CONF_FILE_BYTES);
	else
		snprintf(why, sizeof(why), "cannot be read: %s", errno_text(error));
	return refuse(error == ENOMEM ? SLUICE_ENOMEM : SLUICE_EIO, file->path, why, quiet);
}

/* Resolves the name of a file that may be absent. A directory that this process may not search,
 * such as the home of another user, has no file for it. */
static void resolve(const char *name, char path[PATH_MAX])
{
	if (!realpath(name, path))
		*path = '\0';
}

static void find_site_file(char path[PATH_MAX])
{
	char folder[PATH_MAX], name[PATH_MAX + 16];

	*path = '\0';
	if (!module_beside(SLUICE_CONF_DIR, folder, sizeof(folder))) {
		snprintf(name, sizeof(name), "%s/sluice.conf", folder);
		resolve(name, path);
	}
	if (!*path)
		resolve(SLUICE_CONF_DIR "/sluice.conf", path);
}

static void find_user_file(char path[PATH_MAX])
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	char name[PATH_MAX];
	int n = -1;

	*path = '\0';
	if (config && *config == '/')
		n = snprintf(name, sizeof(name), "%s/sluice/sluice.conf", config);
	else if (home && *home == '/')
		n = snprintf(name, sizeof(name), "%s/.config/sluice/sluice.conf", home);
	if (n > 0 && n < (int)sizeof(name))
		resolve(name, path);
}

/* Sets the paths of the files. Returns an error only for a file that SLUICE_CONF names. */
static int find_files(struct conf *conf, int quiet)
{
	const char *named = getenv("SLUICE_CONF");
	char why[256];

	if (!named || !*named) {
		find_site_file(conf->file[0].path);
		find_user_file(conf->file[1].path);
		return 0;
	}
	if (strcmp(named, "off") == 0 || realpath(named, conf->file[0].path))
		return 0;
	snprintf(why, sizeof(why), "of SLUICE_CONF cannot be read: %s", errno_text(errno));
	return refuse(SLUICE_EIO, named, why, quiet);
}

static void warn_of_unknown(const struct conf_value *unknown)
{
	const char *known[ENV_ENTRIES_MAX];

	for (size_t i = 0; i < env_table_size; i++)
		known[i] = env_table[i].name;

	const char *near = nearest_word(unknown->text, known, env_table_size);

	log_line(LOG_WARN, "runtime", "%s line %d: the setting %.60s is unknown and ignored%s%s%s",
		 unknown->file, unknown->line, unknown->text, near ? ": did you mean " : "",
		 near ? near : "", near ? "?" : "");
}

static int read_files(struct conf *conf, int quiet)
{
	char why[CONF_WHY_BYTES];
	int rc = find_files(conf, quiet);

	for (int i = 0; i < CONF_FILES && !rc; i++) {
		struct conf_file *file = &conf->file[i];

		if (!*file->path)
			continue;
		rc = read_conf(file, quiet);
		if (rc)
			break;
		if (conf_parse(file->bytes, file->n, file->path, conf->values,
			       quiet ? NULL : warn_of_unknown, why))
			return refuse(SLUICE_EINVAL, file->path, why, quiet);
	}
	return rc;
}

static int same_files(const struct conf *a, const struct conf *b)
{
	for (int i = 0; i < CONF_FILES; i++)
		if (strcmp(a->file[i].path, b->file[i].path) || a->file[i].n != b->file[i].n ||
		    (a->file[i].n && memcmp(a->file[i].raw, b->file[i].raw, a->file[i].n)))
			return 0;
	return 1;
}

/* The caller holds the lock. */
static int load(int quiet)
{
	struct conf *conf = calloc(1, sizeof(*conf));
	int rc = conf ? read_files(conf, quiet) : SLUICE_ENOMEM;

	if (!conf)
		return fail(rc, "no memory for the files of settings");
	if (rc || (current && same_files(current, conf))) {
		free_conf(conf);
		return rc;
	}
	conf->older = current;
	current = conf;
	return 0;
}

int conf_load(void)
{
	pthread_mutex_lock(&lock);
	int rc = load(0);
	pthread_mutex_unlock(&lock);
	return rc;
}

struct conf_value conf_value(size_t entry)
{
	const struct conf *conf = current;
	struct error_scope scope;

	if (!conf) {
		pthread_mutex_lock(&lock);
		error_begin(&scope);
		if (!current)
			load(1);
		error_end(&scope, 0);
		conf = current;
		pthread_mutex_unlock(&lock);
	}
	return conf ? conf->values[entry] : (struct conf_value){ 0 };
}
