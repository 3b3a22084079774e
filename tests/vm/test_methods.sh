# SPDX-License-Identifier: BSD-3-Clause
# Named methods that cover the parts of a recipe end with the same bits over verbs and over shared memory:
# various selections, agreed supports, few bits, omitted uploads, transforms, Adam at the shards, local steps
# and averages of parameters.
. "$TOP/tests/vm/lib.sh"

for method in global scalecom sketched ecx laq pqasgd sparse-average demo shard-adamw \
	local4 sparseloco streaming-diloco; do
	case $method in
	*loco | local4) inner=(--inner adamw) ;;
	*) inner=() ;;
	esac
	for transport in shm verbs; do
		SLUICE_TRANSPORT=$transport job_ok "$method-$transport" 4 \
			"$train" "${small[@]}" --digest --method "$method" --lr 0.002 ${inner[@]+"${inner[@]}"}
	done
	shm=$(final "$method-shm" digest) verbs=$(final "$method-verbs" digest)
	echo "| $method: digest over shm $shm, over verbs $verbs; bytes over verbs $(bytes_over "$method-verbs" verbs)"
	[ -n "$shm" ] || { show "$method-shm"; fail "$method: no digest"; }
	[ "$shm" = "$verbs" ] || fail "$method: the digests differ"
	[ "$(bytes_over "$method-verbs" verbs)" -gt 0 ] || fail "$method: no byte over verbs"
done
