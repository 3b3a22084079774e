# SPDX-License-Identifier: BSD-3-Clause
# Every named method trains on Fashion-MNIST with four ranks under srun. Synchronous methods end with the bits
# of four simulated ranks and move the same number of bytes.
# limit: 300 s
. "$TOP/tests/cluster/lib.sh"

methods=$("$train" --methods | sed -n 's/^\([a-z][a-z-]*\)$/\1/p')
[ "$(echo "$methods" | wc -l)" -ge 15 ] || fail "--methods lists $(echo "$methods" | wc -l) methods"
for method in $methods; do
	case $method in
	adamw | sgd | sgdm | muon)
		"$train" --simulate 2 --method "$method" --limit 8000 >"$SCRATCH/refused.out" 2>&1 &&
			fail "$method: sluice-train ran update=none"
		says "$SCRATCH/refused.out" "update=none leaves the step to the job" || fail "$method: no reason"
		echo "| $method: refused, because sluice-train has no optimizer for a mean"
		continue
		;;
	esac
	options="--model mlp:32 --limit 8000 --epochs 1 --batch 16 --seed 1 --method $method"
	case $method in
	# for convex losses, and gradients with little noise
	lag-* | laq) options="--model softmax --limit 8000 --epochs 10 --batch 500 --lr 0.02 --method $method" ;;
	esac
	case $method in
	lag-ps) options+=" --smoothness 200" ;;
	shard-adamw) options="$options --lr 0.004" ;;
	esac
	job_ok "$method" 4 $options --quiet
	loss=$(final "$method" loss)
	awk -v loss="$loss" 'BEGIN { exit !(loss < 2.2) }' || { show "$method"; fail "$method does not train: loss $loss"; }
	line="$method: accuracy $(final "$method" accuracy), $(final "$method" pushed) bytes pushed, $(final "$method" pulled) pulled"
	case $method in
	*asylpg*) echo "| $line" ; continue ;; # its result depends on the order in which pushes arrive
	esac
	"$train" --simulate 4 $options --quiet >"$SCRATCH/simulated.out" 2>"$SCRATCH/simulated.err" ||
		{ show simulated; fail "$method: the job of four simulated ranks failed"; }
	for field in digest pushed pulled; do
		[ "$(final "$method" $field)" = "$(final simulated $field)" ] ||
			fail "$method: $field is $(final "$method" $field), but $(final simulated $field)"
	done
	echo "| $line, digest $(final "$method" digest), the same as simulated"
done
