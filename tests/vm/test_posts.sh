# SPDX-License-Identifier: BSD-3-Clause
# In each step, every remote pair of a worker and a shard needs one write, one read and one notice, and no
# other large transfer. A preloaded wrapper counts the posts, and the test compares two jobs of different
# lengths.
# quick: 1
. "$TOP/tests/vm/lib.sh"

preload=$(program tests/vm/count_posts.so)
[ -e "$preload" ] || fail "no $preload"
export RANK_HOOK="export LD_PRELOAD=$preload"

counted() { # NAME LIMIT: prints sums over the ranks: posts of 7 kinds, their doorbells, and steps
	export COUNT_POSTS=$SCRATCH/$1.posts
	job_ok "$1" 4 "$train" "${small[@]}" --shards 8 --recipe "$sparse" --epochs 1 --limit "$2"
	[ "$(ls "$1".posts.* 2>/dev/null | wc -l)" = 4 ] || { show "$1"; fail "$1: not all four ranks were counted"; }
	awk -v steps="$(final "$1" steps)" '{ for (i = 0; i < 7; i++) { n[i] += $(3 * i + 2); n[7 + i] += $(3 * i + 3) } }
		END { for (i = 0; i < 14; i++) printf "%d ", n[i]; print steps }' "$1".posts.*
}
read -r -a short < <(counted short 32)
read -r -a long < <(counted long 128)
steps=$((long[14] - short[14]))
[ $steps -gt 0 ] || fail "no difference in steps: ${short[*]}; ${long[*]}"
names=(push notice small write read control other)
for i in 0 1 2 3 4 5 6; do
	more[i]=$((long[i] - short[i]))
	bells[i]=$((long[i + 7] - short[i + 7]))
	echo "${names[i]}: ${short[i]} in ${short[14]} steps, ${long[i]} in ${long[14]}; doorbells: ${short[i + 7]} and ${long[i + 7]}"
done
# four workers and eight shards, two on each rank, so there are 24 remote pairs
echo "| $steps steps of 24 remote (worker, shard): ${more[0]} writes by ${bells[0]} doorbells, ${more[4]} reads by ${bells[4]}, ${more[1]} notices by ${bells[1]}, ${more[3]} other large writes, ${more[2]} small ones (heartbeats, credits), ${more[5]} of barriers and sums"
for i in 0 1 4; do
	[ "${more[i]}" = $((24 * steps)) ] || fail "${names[i]}: ${more[i]}, not $((24 * steps))"
done
[ "${more[3]}" = 0 ] && [ "${more[6]}" = 0 ] || fail "there are requests of other kinds"
# Each worker has three peers, and both shards of a peer share a doorbell for each kind of request.
for i in 0 1 4; do
	[ "${bells[i]}" -le $((12 * steps)) ] || fail "${names[i]}: ${bells[i]} doorbells, more than $((12 * steps))"
done
