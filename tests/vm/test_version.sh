# SPDX-License-Identifier: BSD-3-Clause
# One rank has a Sluice with another wire version. All ranks stop at once (after 2 to 5 s on an idle machine),
# name both versions, and do not wait for a timeout, which is 60 s or more.
# quick: 1
. "$TOP/tests/vm/lib.sh"

other=$BUILD/other-version
[ -x "$other/sluice-train" ] || { tail -n 20 "$LOGS/other.log"; fail "the other version does not build"; }
# the program of rank 2
export RANK_HOOK="[ \$SLURM_PROCID != 2 ] || { export LD_LIBRARY_PATH=$other/.libs; shift; set -- $other/.libs/sluice-train \"\$@\"; }"
RANK_HOOK+='; echo ${EPOCHREALTIME/./} >began.$SLURM_PROCID'
job version 4 "$train" "${small[@]}" && { show version; fail "ranks of different versions ran a job together"; }
took=$(($(now_ms) - $(sort -n began.* | tail -n 1) / 1000))
[ $took -lt 30000 ] || { show version; fail "the ranks ended only after $took ms"; }
for rank in 0 1 2 3; do
	says version.err.$rank 'wire [0-9]+\b.*wire 99|wire 99.*wire [0-9]+\b' || fail "rank $rank does not name both versions"
done
echo "| $took ms after the last rank's start: $(grep -ho 'rank 0 on node .*' version.err.* | sort -u | head -n 1)"
