# SPDX-License-Identifier: BSD-3-Clause
# Named methods that cover the parts of a recipe end with the same bits over verbs and with simulated ranks:
# various selections, agreed supports, few bits, omitted uploads, transforms, Adam at the shards, local steps
# and averages of parameters.
. "$TOP/tests/vm/lib.sh"

for method in global scalecom sketched ecx laq pqasgd sparse-average demo shard-adamw \
	local4 sparseloco streaming-diloco; do
	case $method in
	*loco | local4) inner=(--inner adamw) ;;
	*) inner=() ;;
	esac
	options=("${small[@]}" --digest --method "$method" --lr 0.002 ${inner[@]+"${inner[@]}"})
	simulated "$method" 4 "${options[@]}"
	job_ok "$method-verbs" 4 "$train" "${options[@]}"
	wanted=$(final "$method" digest) verbs=$(final "$method-verbs" digest)
	echo "| $method: digest of simulated ranks $wanted, over verbs $verbs; bytes over verbs $(bytes_over "$method-verbs" verbs)"
	[ -n "$wanted" ] || { show "$method"; fail "$method: no digest"; }
	[ "$wanted" = "$verbs" ] || fail "$method: the digests differ"
	[ "$(bytes_over "$method-verbs" verbs)" -gt 0 ] || fail "$method: no byte over verbs"
done
