/* SPDX-License-Identifier: BSD-3-Clause
 * sluice_transports(): the counters of each transport, and refusals. */
#include "job/lines.h"
#include "ranks.h"
#include "sluice_region.h"
#include "cases.h"
#include <string.h>

static sluice_transport_stats of(sluice_job *job, const char *name)
{
	sluice_transport_stats all[8] = { { .size = sizeof all[0] } };
	size_t n = 0;
	CHECK_OK(sluice_transports(job, all, 8, &n));
	for (size_t i = 0; i < n; i++)
		if (!strcmp(all[i].name, name))
			return all[i];
	CHECK(name == NULL); /* this transport is not open */
	return all[0];
}

TEST_IN_JOB(puts_and_gets__known_sizes__are_counted_exactly_by_transport, 2)
{
	sluice_region *region = NULL;
	static uint8_t bytes[3 << 20];
	log_capture();
	CHECK_OK(sluice_region_open(job, sizeof bytes, &region));
	sluice_transport_stats shm = of(job, "shm"), self = of(job, "self");
	CHECK(!shm.by_polling && !self.by_polling);
	CHECK(shm.puts > 0 && shm.notifies > 0 && shm.notifies <= shm.puts); /* the bootstrap's */
	if (rank == 0) {
		for (int i = 0; i < 5; i++)
			CHECK_OK(sluice_region_put(region, 1, 0, bytes, 1000, i == 0));
		CHECK_OK(sluice_region_put(region, 1, 0, bytes, sizeof bytes, 0));
		CHECK_OK(sluice_region_get(region, 1, 0, bytes, 70000, 0));
		CHECK_OK(sluice_region_put(region, 0, 0, bytes, 123, 1));
		CHECK(sluice_region_put(region, 1, 1, bytes, sizeof bytes, 0) == SLUICE_EINVAL);
	}
	sluice_transport_stats shm2 = of(job, "shm"), self2 = of(job, "self");
	/* 3 MiB are sent in 3 pieces. */
	CHECK(shm2.puts - shm.puts == (rank ? 0 : 8));
	CHECK(shm2.put_bytes - shm.put_bytes == (rank ? 0 : 5000 + sizeof bytes));
	CHECK(shm2.notifies - shm.notifies == (rank ? 0 : 1));
	/* Heartbeats are minutes apart (lost_after), so at most the first one is read in between if
	 * the progress thread was late. */
	uint64_t beats = shm2.gets - shm.gets - (rank ? 0 : 1);
	CHECK(beats <= 1);
	CHECK(shm2.get_bytes - shm.get_bytes == (rank ? 0 : 70000) + PULSE_BYTES * beats);
	CHECK(self2.puts - self.puts == (rank ? 0 : 1) &&
	      self2.put_bytes - self.put_bytes == (rank ? 0 : 123));
	CHECK_OK(sluice_barrier(job));
	sluice_region_close(&region);
}

/* The struct in a program that was compiled with a later header. */
struct later {
	sluice_transport_stats known;
	uint64_t unknown;
};

TEST_IN_JOB(arguments__of_older_and_newer_programs__are_served_or_refused, 1)
{
	sluice_transport_stats one = { .size = sizeof one }, zero = { .size = 0 };
	struct later later[4];
	size_t n = 99;
	log_capture();
	CHECK_OK(sluice_transports(job, NULL, 0, &n));
	CHECK(n >= 2 && n < 99);
	CHECK_OK(sluice_transports(job, &one, 1, &n)); /* returns only the first of several
							  transports */
	CHECK(n >= 2 && !strcmp(one.name, "self") && one.size == sizeof one);
	memset(later, 0xff, sizeof later);
	later[0].known.size = sizeof later[0];
	CHECK_OK(sluice_transports(job, &later[0].known, 4, &n));
	CHECK(!strcmp(later[1].known.name, "shm") && !later[1].unknown && !later[0].unknown);
	n = 77;
	CHECK(sluice_transports(NULL, &one, 1, &n) == SLUICE_EINVAL);
	CHECK(sluice_transports(job, &one, 1, NULL) == SLUICE_EINVAL);
	CHECK(sluice_transports(job, NULL, 1, &n) == SLUICE_EINVAL);
	CHECK(sluice_transports(job, &zero, 1, &n) == SLUICE_EINVAL &&
	      error_says("size", "sizeof"));
	CHECK(n == 77);
}
