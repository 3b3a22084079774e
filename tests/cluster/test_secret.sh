# SPDX-License-Identifier: BSD-3-Clause
# The key of the job is in no file: checkpoints, metrics, logs at debug level, what srun, Slurm and the virtual cluster
# write, and /dev/shm are searched while the job runs and after it, also after one that was killed. To know the key, the
# test gives the ranks random numbers that are none. Checkpoints and metrics have mode 0600.
# limit: 120 s
. "$TOP/tests/cluster/lib.sh"
command -v cc >/dev/null || skip "no C compiler for the random numbers that the test knows"
ldd "$BUILD/.libs/libsluice.so" | grep -qE 'lib(asan|tsan|ubsan)' && skip "a sanitizer wants to be loaded first"
cluster=$(dirname "${SLURM_CONF:?no virtual cluster}")

# In two parts, so that this file and what is made of it do not have it.
first=KEY.OF.THE.JOB. second=KNOWN.TO.THE.TEST
cat >known.c <<E
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>
ssize_t getrandom(void *to, size_t n, unsigned flags)
{
	if (n != 32)
		return syscall(SYS_getrandom, to, n, flags);
	memcpy(to, "$first", 15);
	memcpy((char *)to + 15, "$second", 17);
	fputs("a random number that is known\n", stderr);
	return 32;
}
E
cc -shared -fPIC -o known.so known.c || fail "known.c does not compile"
export LD_PRELOAD_OF_RANKS=$PWD/known.so
cat >ranks <<E
#!/bin/sh
LD_PRELOAD=\$LD_PRELOAD_OF_RANKS exec "$train" "\$@"
E
chmod +x ranks
program=$PWD/ranks

# Fails if a file has the key, as it is or in hexadecimal digits. While the job runs, PMIx has it in its own shared memory,
# in a folder of Slurm that only the user of the job can enter.
hex=$(printf %s "$first$second" | od -An -tx1 | tr -d ' \n')
search() { # WHEN [pmix]
	local found file
	found=$(grep -rlaiF -e "$first$second" -e "$hex" "$SCRATCH" "$cluster" /dev/shm 2>/dev/null)
	for file in $found; do
		case ${2-}$file in
		pmix*/pmix.*/pmix_dstor_*/*) [ "$(stat -c %a "${file%/pmix_dstor_*}")" = 700 ] && continue ;;
		esac
		fail "$1: the key of the job is in $file"
	done
}

# srun may end before Slurm has removed what was PMIx's.
search_after() { # WHEN
	local tries
	for ((tries = 0; tries < 100; tries++)); do
		compgen -G "$cluster/n*/spool/pmix.*" >/dev/null || break
		sleep 0.1
	done
	search "$1"
}

printf %s "$first$second" >planted
(search "a file that has it") >/dev/null && fail "the search does not find what is there"
rm planted

umask 0
export SLUICE_LOG=debug
options="$small --recipe up=topk(0.01) --checkpoint saved --every 10 --metrics metrics"
job_start whole 4 $options --sleep 0:20:2
wait_lines metrics 19 30 || { show whole; fail "no 19 steps within 30 s"; }
search "while it runs" pmix
wait "$job_pid" || { show whole; fail "the job failed"; }
search_after "after it"
grep -q 'a random number that is known' whole.err.0 || fail "rank 0 did not take its key from the test"
others=$(find saved metrics -type f ! -perm 0600)
[ -z "$others" ] || fail "these are not of mode 0600:" $others

job_start killed 4 $options --metrics killed.metrics --sleep 0:20:2
wait_lines killed.metrics 19 30 || { show killed; fail "no 19 steps within 30 s"; }
kill -9 "$(ranks | awk '$1 == 0 { print $2 }')"
wait "$job_pid"
search_after "after a rank was killed"
echo "| searched $(find "$SCRATCH" "$cluster" -type f | wc -l) files"
