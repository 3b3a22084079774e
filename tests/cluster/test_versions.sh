# SPDX-License-Identifier: BSD-3-Clause
# Ranks with different versions of the library: every rank ends at once (1 to 5 s where nothing else runs), by no
# timeout, which is 60 s and more, with one and the same sentence that names both versions, two ranks and their nodes.
# limit: 300 s
. "$TOP/tests/cluster/lib.sh"

[ ! -e "$TOP/config.status" ] || skip "built in the source folder: build in a folder of its own"
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
	job versions 4 $small && { show versions; fail "ranks of different versions work together"; }
	took=$(($(now_ms) - $(sort -n began.* | tail -n 1) / 1000)) # not counting what srun takes to start them
	[ $took -lt 30000 ] || { show versions; fail "it took $took ms"; }
	other=$([ $odd = 0 ] && echo 1 || echo $odd)
	for rank in 0 1 2 3; do
		says versions.err.$rank 'wire [0-9]+\b.*wire 99|wire 99.*wire [0-9]+\b' || fail "rank $rank does not name both versions"
		says versions.err.$rank "rank 0 .*n[12].*rank $other .*n[12]" || fail "rank $rank does not name two ranks"
	done
	sentences=$(cat versions.err.* | grep -o 'rank 0 on node .*' | sort -u)
	[ "$(echo "$sentences" | wc -l)" = 1 ] || fail "not the same sentence everywhere: $sentences"
	echo "| odd rank $odd, $took ms after the last rank's start: $sentences"
done
