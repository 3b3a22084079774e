# SPDX-License-Identifier: BSD-3-Clause
# Regions on reserved and on transparent huge pages are registered with the device, and the digest stays the
# same. Without reserved pages the job ends and says why.
. "$TOP/tests/vm/lib.sh"
pages=/proc/sys/vm/nr_hugepages
[ -e /sys/kernel/mm/hugepages/hugepages-2048kB ] || skip "this kernel has no huge pages of 2 MiB"
trap 'echo 0 >$pages' EXIT
export SLUICE_LOG=warn,rdma+info
train_on() { # KIND-OF-PAGES
	SLUICE_HUGE_PAGES=$1 "${2:-job_ok}" "$1" 2 "$train" --data "$LOGS/rows" --model mlp:1024,512 \
		--batch 16 --limit 32 --epochs 1 --seed 1 --dense --shards 2 --digest
}

train_on no
echo 160 >$pages
[ "$(cat $pages)" = 160 ] || skip "the machine has no memory for 160 huge pages"
for kind in reserved transparent; do
	train_on $kind
	[ "$(final $kind digest)" = "$(final no digest)" ] || fail "$kind: the digest differs"
	[ "$(bytes_over $kind verbs)" -gt 0 ] || fail "$kind: no byte over verbs"
	echo "| $kind: digest $(final $kind digest) as on small pages;" \
		"$(grep -ho 'region window: .*' $kind.err.0 | head -n 1)"
done
grep -q 'region window: all .* lie on reserved huge pages' reserved.err.0 ||
	{ show reserved; fail "the log does not say that pages are huge"; }
echo 0 >$pages
rm -f reserved.*
! train_on reserved job || fail "the job ran without reserved pages"
says=$(grep -ho 'cannot back region .* reserved huge pages of 2 MiB.*' reserved.err.* | head -n 1)
[ -n "$says" ] || { show reserved; fail "no rank says why"; }
echo "| none reserved: $says"
