# SPDX-License-Identifier: BSD-3-Clause
# Ranks have different versions of the library. Every rank ends at once (after 1 to 5 s on an idle machine)
# and does not wait for a timeout, which is 60 s or more. All print the same sentence, which names both
# versions, two ranks and their nodes.
# limit: 300 s
. "$TOP/tests/cluster/lib.sh"

[ ! -e "$TOP/config.status" ] || skip "built in the source folder: build in a separate folder"
"$TOP/tests/other_version" "$BUILD" >other.log 2>&1 || { tail -n 20 other.log; fail "the other version does not build"; }

cat >mixed <<E
#!/bin/bash
echo \${EPOCHREALTIME/./} >$SCRATCH/began.\$SLURM_PROCID
if [ \$SLURM_PROCID = \$ODD_RANK ]; then exec $BUILD/other-version/sluice-train "\$@"; fi
exec $train "\$@"
E
chmod +x mixed
program=$SCRATCH/mixed
for odd in 2 0; do
	export ODD_RANK=$odd
	rm -f began.*
	job versions 4 $small && { show versions; fail "ranks of different versions ran a job together"; }
	took=$(($(now_ms) - $(sort -n began.* | tail -n 1) / 1000)) # without the time that srun needs to start them
	[ $took -lt 30000 ] || { show versions; fail "the ranks ended only after $took ms"; }
	other=$([ $odd = 0 ] && echo 1 || echo $odd)
	for rank in 0 1 2 3; do
		says versions.err.$rank 'wire [0-9]+\b.*wire 99|wire 99.*wire [0-9]+\b' || fail "rank $rank does not name both versions"
		says versions.err.$rank "rank 0 .*n[12].*rank $other .*n[12]" || fail "rank $rank does not name two ranks"
	done
	sentences=$(cat versions.err.* | grep -o 'rank 0 on node .*' | sort -u)
	[ "$(echo "$sentences" | wc -l)" = 1 ] || fail "the ranks print different sentences: $sentences"
	echo "| odd rank $odd, $took ms after the last rank's start: $sentences"
done
