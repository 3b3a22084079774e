/* SPDX-License-Identifier: BSD-3-Clause
 * Feeds files, or all files of folders, to a fuzz target without a fuzzer, with any compiler. */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { INPUT_BYTES = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned replayed;

static int replay_file(const char *path)
{
	uint8_t *input = malloc(INPUT_BYTES);
	FILE *file = fopen(path, "rb");
	size_t n;
	int bad;

	if (!input || !file) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		free(input);
		if (file)
			fclose(file);
		return 1;
	}
	n = fread(input, 1, INPUT_BYTES, file);
	bad = ferror(file) || !feof(file);
	fclose(file);
	if (bad)
		fprintf(stderr, "%s: cannot be read, or larger than %d bytes\n", path,
			INPUT_BYTES - 1);
	else
		LLVMFuzzerTestOneInput(input, n);
	replayed++;
	free(input);
	return bad;
}

static int replay(const char *path)
{
	struct dirent *entry;
	struct stat status;
	int bad = 0;
	DIR *folder;

	if (stat(path, &status) == 0 && !S_ISDIR(status.st_mode))
		return replay_file(path);
	folder = opendir(path);
	if (!folder) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		return 1;
	}
	while ((entry = readdir(folder))) {
		char name[4096];

		if (entry->d_name[0] == '.')
			continue;
		snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		bad |= replay(name);
	}
	closedir(folder);
	return bad;
}

int main(int argc, char **argv)
{
	int bad = 0;

	if (argc < 2) {
		printf("usage: %s FILE-OR-FOLDER...\n", argv[0]);
		return 77;
	}
	for (int i = 1; i < argc; i++)
		bad |= replay(argv[i]);
	if (!replayed) {
		fprintf(stderr, "no input was found\n");
		bad = 1;
	}
	printf("%u inputs replayed\n", replayed);
	return bad;
}
