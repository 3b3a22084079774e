/* SPDX-License-Identifier: BSD-3-Clause
 * Where modules are looked for and which are refused. This program copies itself into simulated
 * installations and runs there, if necessary as another user, because module_find() depends on the
 * path of the program. The Makefile configures it for the prefix /nowhere/p. */
#include "base/module.h"
#include "cases.h"

#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MODULE "libsluice_cuda.so"
enum { USER = 65533, STRANGER = 65534, TEXT_BYTES = 2 * PATH_MAX };

static char top[] = "/tmp/sluice-module.XXXXXX";

/* Returns the path of a file or directory of the installation. The last few results stay valid. */
static const char *at(const char *name)
{
	static char paths[4][128];
	static int next;
	char *path = paths[next++ % 4];

	snprintf(path, sizeof(paths[0]), "%s/%s", top, name);
	return path;
}

static void make_folder(const char *name, mode_t mode)
{
	assert_int_equal(mkdir(at(name), mode), 0);
	assert_int_equal(chmod(at(name), mode), 0);
}

static void make_program(const char *name)
{
	int from = open("/proc/self/exe", O_RDONLY), to = open(at(name), O_WRONLY | O_CREAT, 0755);
	struct stat status;

	assert_int_equal(fstat(from, &status), 0);
	for (off_t done = 0; done < status.st_size;)
		assert_true(sendfile(to, from, &done, (size_t)(status.st_size - done)) > 0);
	close(from);
	close(to);
}

static void make_module(const char *name)
{
	int file = open(at(name), O_WRONLY | O_CREAT, 0755);

	assert_true(file >= 0);
	close(file);
}

/* Makes top/bin/program, and the module where the program finds it. */
static int setup(void **state)
{
	strcpy(strrchr(top, '.') + 1, "XXXXXX");
	if (!mkdtemp(top) || chmod(top, 0755))
		return -1;
	make_folder("bin", 0755);
	make_program("bin/program");
	make_folder("lib", 0755);
	make_folder("lib/sluice", 0755);
	make_module("lib/sluice/" MODULE);
	return 0;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *place)
{
	return remove(path);
}

static int teardown(void **state)
{
	return nftw(top, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* Runs the program as the user (0: this one) and returns the result of module_find(): "+" or "-",
 * then the text. */
static const char *find(const char *program, uid_t user)
{
	static char text[TEXT_BYTES];
	int out[2], status;
	size_t n = 0;
	ssize_t got;

	assert_int_equal(pipe(out), 0);
	pid_t pid = fork();

	if (!pid) {
		dup2(out[1], STDOUT_FILENO);
		close(out[0]);
		if (user && (setgid(user) || setuid(user)))
			_exit(1);
		execl(at(program), program, "find", (char *)NULL);
		_exit(1);
	}
	close(out[1]);
	while ((got = read(out[0], text + n, sizeof(text) - 1 - n)) > 0)
		n += (size_t)got;
	text[n] = 0;
	close(out[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	return text;
}

static void found(const char *program, uid_t user, const char *module)
{
	char expected[TEXT_BYTES];

	snprintf(expected, sizeof(expected), "+%s", at(module));
	assert_string_equal(find(program, user), expected);
}

/* because: the problem of the file at path. */
static void refused(const char *program, uid_t user, const char *path, const char *because)
{
	char expected[TEXT_BYTES];

	snprintf(expected, sizeof(expected), "-%s/lib/sluice/%s is not loaded, because %s %s", top,
		 MODULE, at(path), because);
	assert_string_equal(find(program, user), expected);
}

static void give_to(const char *name, uid_t user)
{
	assert_int_equal(lchown(at(name), user, user), 0);
}

static void need_root(void)
{
	if (!geteuid())
		return;
	print_message("only root can make files of other users\n");
	skip();
}

#define CASE(name) TEST_WITH(name, setup, teardown)

CASE(find__program_in_bin__the_module_of_its_prefix)
{
	found("bin/program", 0, "lib/sluice/" MODULE);
	assert_int_equal(unlink(at("lib/sluice/" MODULE)), 0);
	assert_non_null(strstr(find("bin/program", 0), MODULE " is neither in "));
}

CASE(find__program_elsewhere__does_not_climb)
{
	static const char *const folders[] = { "any", "bin/below", "sbin" };

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		char program[64], expected[256];

		make_folder(folders[i], 0755);
		snprintf(program, sizeof(program), "%s/program", folders[i]);
		make_program(program);
		snprintf(expected, sizeof(expected),
			 "-" MODULE " is not in /nowhere/p/lib/sluice, and %s is not in an "
			 "installed directory, which would end in /bin",
			 at(program));
		assert_string_equal(find(program, 0), expected);
	}
}

CASE(find__others_can_write__is_refused)
{
	static const struct {
		const char *name;
		mode_t mode;
	} open_to_others[] = { { "lib", 0757 },
			       { "lib/sluice", 0757 },
			       { "lib/sluice", 01777 }, /* others can create files there */
			       { "lib/sluice/" MODULE, 0757 } };

	for (size_t i = 0; i < sizeof(open_to_others) / sizeof(open_to_others[0]); i++) {
		char because[64];

		assert_int_equal(chmod(at(open_to_others[i].name), open_to_others[i].mode), 0);
		snprintf(because, sizeof(because), "can be written by others (mode %04o)",
			 open_to_others[i].mode);
		refused("bin/program", 0, open_to_others[i].name, because);
		assert_int_equal(chmod(at(open_to_others[i].name), 0755), 0);
	}
	assert_int_equal(chmod(at("lib"), 01777), 0); /* like /tmp, as a part of the path */
	found("bin/program", 0, "lib/sluice/" MODULE);
}

CASE(find__a_group_can_write__is_refused_unless_it_is_the_owners)
{
	need_root();
	assert_int_equal(lchown(at("lib"), 0, USER), 0);
	assert_int_equal(chmod(at("lib"), 0775), 0);
	refused("bin/program", 0, "lib", "can be written by others (mode 0775)");
	assert_int_equal(lchown(at("lib"), USER, USER), 0);
	found("bin/program", USER, "lib/sluice/" MODULE);
}

CASE(find__of_another_user__is_refused)
{
	static const char *const names[] = { "lib", "lib/sluice", ("lib/sluice/" MODULE) };

	need_root();
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		give_to(names[i], STRANGER);
		refused("bin/program", USER, names[i],
			"belongs to user 65534, and not to user 65533, to root or to the owner of "
			"the installation");
		give_to(names[i], USER);
		found("bin/program", USER, "lib/sluice/" MODULE);
	}
	/* The owner of the program could have changed its code anyway. */
	give_to("bin/program", STRANGER);
	give_to("lib", STRANGER);
	found("bin/program", USER, "lib/sluice/" MODULE);
}

/* A user has copied a program to a directory in /tmp, next to which every user can make a directory
 * named lib. */
CASE(find__copy_beside_a_strangers_lib__loads_nothing)
{
	need_root();
	give_to("lib", STRANGER);
	give_to("lib/sluice", STRANGER);
	give_to("lib/sluice/" MODULE, STRANGER);
	make_folder("job", 0755);
	make_program("job/program");
	give_to("job", USER);
	give_to("job/program", USER);
	assert_int_equal(find("job/program", USER)[0], '-');
	give_to("bin", USER);
	give_to("bin/program", USER);
	assert_int_equal(find("bin/program", USER)[0], '-');
}

CASE(find__symbolic_link__gives_what_it_leads_to)
{
	make_folder("store", 0755);
	make_module("store/" MODULE);
	assert_int_equal(unlink(at("lib/sluice/" MODULE)), 0);
	assert_int_equal(symlink(at("store/" MODULE), at("lib/sluice/" MODULE)), 0);
	found("bin/program", 0, "store/" MODULE);
	assert_int_equal(chmod(at("store"), 0777), 0);
	assert_non_null(strstr(find("bin/program", 0), "store can be written by others"));
}

int main(int argc, char **argv)
{
	char path[PATH_MAX];

	if (argc == 2 && !strcmp(argv[1], "find")) {
		printf("%c", module_find(MODULE, path, sizeof(path)) ? '-' : '+');
		printf("%s", path);
		return 0;
	}
	return run_cases(NULL, NULL);
}
