# SPDX-License-Identifier: BSD-3-Clause
# Starts nodes without Slurm, as the benchmarks do. A node reaches another by name. The rate of the links can
# be changed. Nothing is left after the nodes stop, even if a node itself stops them. A node of a cluster with
# Slurm cannot stop it.
. "$TOP/tests/net/lib.sh"

cluster="$TOP/tools/devcluster/devcluster" dir=$SCRATCH/bare
links() { ip -o link show type veth | grep -c sluice-; }
rate_of() { "$cluster" exec -d "$dir" "$1" tc qdisc show dev wire | sed -n 's/.* rate \([0-9A-Za-z]*\) .*/\1/p'; }
said=$(on n1 "$cluster" stop 2>&1) && fail "n1 stopped its own cluster, which has Slurm: $said"
[[ $said = *"stop it outside"* ]] || fail "the answer to n1 is '$said'"
[ "$(on n1 hostname)" = n1 ] || fail "n1 is gone"

unset SLURM_CONF
before=$(links)
[ "$("$cluster" start --bare -n 2 --net 1gbit -d "$dir")" = "$dir" ] ||
	fail "the cluster does not start, or does not print its folder"
[ "$("$cluster" exec -d "$dir" n1 "$cluster" exec -d "$dir" n2 hostname)" = n2 ] || fail "n1 cannot run a command on n2"
"$cluster" exec -d "$dir" n1 bash -c 'ids=$(cat /proc/sys/kernel/random/boot_id); [ "$ids" != "$1" ]' - \
	"$(cat /proc/sys/kernel/random/boot_id)" || fail "n1 has this machine's boot id"
for rate in 1Gbit 100Mbit none 10Gbit; do
	[ $rate = 1Gbit ] || "$cluster" rate -d "$dir" "$(echo ${rate/none/unlimited} | tr A-Z a-z)" || fail "the rate does not change"
	for node in n1 n2; do
		[ "$(rate_of $node)" = "${rate/none/}" ] || fail "the rate of $node is '$(rate_of $node)', not $rate"
	done
done
# Starts a program on n2 that only its network distinguishes from other programs. Sets ran to its process id.
begin_on_n2() {
	rm -f pid
	"$cluster" exec -d "$dir" n2 env -i sh -c 'echo $$ >pid.new; mv pid.new pid; exec sleep 100 <&- >&- 2>&-' &
	wait_for_file pid
	read -r ran <pid
	kill -0 "$ran" || fail "nothing runs on n2"
}
all_is_gone() {
	local tries state
	state=$(sed -n 's/^State:[[:space:]]*//p' "/proc/$ran/status" 2>/dev/null)
	# Z: the program has ended, but nobody has waited for it
	[[ $state = @(|Z*) ]] || fail "the program on n2 still runs: $state"
	[ ! -e "$dir" ] || fail "the folder of the cluster still exists"
	for ((tries = 0; tries < 250; tries++)); do # the kernel removes links later
		[ "$(links)" != "$before" ] || return 0
		sleep 0.02
	done
	fail "there are links left: $(links), before $before"
}
begin_on_n2
"$cluster" stop -d "$dir" || fail "the cluster does not stop"
all_is_gone

"$cluster" start --bare -n 2 --net unlimited -d "$dir" >/dev/null || fail "the cluster does not start again"
begin_on_n2
said=$("$cluster" exec -d "$dir" n1 sh -c '"$0" stop; echo status $?' "$cluster" 2>&1)
[ "$said" = "status 0" ] || fail "n1 does not stop the cluster: $said"
all_is_gone
said=$(SLURM_CONF=$SCRATCH/sluice-dc.gone/slurm.conf "$cluster" exec n1 hostname 2>&1) &&
	fail "the named cluster has ended, but the command ran in another one: $said"
[[ $said = *" is gone"* ]] || fail "the answer about a cluster that has ended is '$said'"
echo "| a cluster without Slurm started, changed its rate and stopped; a node of another one stopped it"
