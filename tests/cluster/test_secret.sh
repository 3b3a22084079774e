# SPDX-License-Identifier: BSD-3-Clause
# The keys that the ranks share must not be in any file. The test searches checkpoints, metrics, logs at debug
# level, everything that srun, PMIx, Slurm and the virtual cluster write, and /dev/shm. It searches while the
# job runs and after the job, and again after a job that was killed.
# To know the keys, the test gives the same key to all pairs of ranks. Checkpoints and metrics must have mode
# 0600.
. "$TOP/tests/cluster/lib.sh"
command -v cc >/dev/null || skip "no C compiler for the key that the test knows"
ldd "$BUILD/.libs/libsluice.so" | grep -qE 'lib(asan|tsan|ubsan)' && skip "sanitizers must be loaded first"
cluster=$(dirname "${SLURM_CONF:?no virtual cluster}")

# In two parts, so that neither this file nor the files made from it contain the key.
first=KEY.OF.A.PAIR.A second=KNOWN.TO.THE.TEST
cat >known.c <<E
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
typedef unsigned char *(*hmac)(const void *, const void *, int, const unsigned char *, size_t, unsigned char *, unsigned *);
unsigned char *HMAC(const void *md, const void *key, int key_len, const unsigned char *d, size_t n, unsigned char *out,
		    unsigned *len)
{
	if (strncmp(key, "Sluice: the key of two ranks", 32))
		return ((hmac)dlsym(RTLD_NEXT, "HMAC"))(md, key, key_len, d, n, out, len);
	memcpy(out, "$first", 15);
	memcpy(out + 15, "$second", 17);
	*len = 32;
	fputs("a key that is known\n", stderr);
	return out;
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

# Fails if a file contains the key, as bytes or as hexadecimal digits.
hex=$(printf %s "$first$second" | od -An -tx1 | tr -d ' \n')
search() { # WHEN
	local found
	found=$(grep -rlaiF -e "$first$second" -e "$hex" "$SCRATCH" "$cluster" /dev/shm 2>/dev/null)
	[ -z "$found" ] || fail "$1: a key is in" $found
}

# srun may end before Slurm has removed the files of PMIx.
search_after() { # WHEN
	local tries
	for ((tries = 0; tries < 100; tries++)); do
		compgen -G "$cluster/n*/spool/pmix.*" >/dev/null || break
		sleep 0.1
	done
	search "$1"
}

printf %s "$first$second" >planted
(search "a file that has it") >/dev/null && fail "the search does not find a key that is there"
rm planted

umask 0
export SLUICE_LOG=debug SLUICE_TRANSPORT=self,ofi SLUICE_INTERFACE=lo # over shm no key is needed
options="$small --recipe up=topk(0.01) --checkpoint saved --every 10 --metrics metrics"
job_start whole 4 $options --sleep 0:20:2
wait_lines metrics 19 30 || { show whole; fail "no 19 steps within 30 s"; }
search "while it runs"
wait "$job_pid" || { show whole; fail "the job failed"; }
search_after "after it"
grep -q 'a key that is known' whole.err.0 || fail "rank 0 did not take the keys from the test"
others=$(find saved metrics -type f ! -perm 0600)
[ -z "$others" ] || fail "these files do not have mode 0600:" $others

job_start killed 4 $options --metrics killed.metrics --sleep 0:20:2
wait_lines killed.metrics 19 30 || { show killed; fail "no 19 steps within 30 s"; }
kill -9 "$(ranks | awk '$1 == 0 { print $2 }')"
wait "$job_pid"
search_after "after a rank was killed"
echo "| searched $(find "$SCRATCH" "$cluster" -type f | wc -l) files"
