# SPDX-License-Identifier: BSD-3-Clause
# Nodes without Slurm, as the benchmarks use them: one reaches another by name, the rate of the links can
# be changed, and nothing is left when they stop.
# limit: 60 s
. "$TOP/tests/net/lib.sh"

cluster="$TOP/slurm/devcluster" dir=$SCRATCH/bare
links() { ip -o link show type veth | grep -c sluice-; }
rate_of() { "$cluster" exec -d "$dir" "$1" tc qdisc show dev wire | sed -n 's/.* rate \([0-9A-Za-z]*\) .*/\1/p'; }
unset SLURM_CONF
before=$(links)
[ "$("$cluster" start --bare -n 2 --net 1gbit -d "$dir")" = "$dir" ] || fail "it does not start, or does not print its folder"
[ "$("$cluster" exec -d "$dir" n1 "$cluster" exec -d "$dir" n2 hostname)" = n2 ] || fail "n1 does not reach what is on n2"
"$cluster" exec -d "$dir" n1 bash -c 'ids=$(cat /proc/sys/kernel/random/boot_id); [ "$ids" != "$1" ]' - \
	"$(cat /proc/sys/kernel/random/boot_id)" || fail "n1 has this machine's boot id"
for rate in 1Gbit 100Mbit none 10Gbit; do
	[ $rate = 1Gbit ] || "$cluster" rate -d "$dir" "$(echo ${rate/none/unlimited} | tr A-Z a-z)" || fail "the rate does not change"
	for node in n1 n2; do
		[ "$(rate_of $node)" = "${rate/none/}" ] || fail "the rate of $node is '$(rate_of $node)', not $rate"
	done
done
"$cluster" exec -d "$dir" n2 sh -c 'exec sleep 60 <&- >&- 2>&-' & # what still runs there ends with it
sleep 0.3
"$cluster" stop -d "$dir" || fail "it does not stop"
[ ! -e "$dir" ] && [ "$(links)" = "$before" ] || fail "a folder or links are left"
echo "| a cluster without Slurm came, changed its rate, and went"
