# SPDX-License-Identifier: BSD-3-Clause
# Nodes without Slurm, as the benchmarks use them: one reaches another by name, the rate of the links can
# be changed, and nothing is left when they stop, also where a node itself stops them. Nodes with Slurm cannot.
# limit: 60 s
. "$TOP/tests/net/lib.sh"

cluster="$TOP/tools/devcluster/devcluster" dir=$SCRATCH/bare
links() { ip -o link show type veth | grep -c sluice-; }
rate_of() { "$cluster" exec -d "$dir" "$1" tc qdisc show dev wire | sed -n 's/.* rate \([0-9A-Za-z]*\) .*/\1/p'; }
said=$(on n1 "$cluster" stop 2>&1) && fail "n1 stopped the cluster with Slurm in which it is: $said"
[[ $said = *"stop it outside"* ]] || fail "n1 was told '$said'"
[ "$(on n1 hostname)" = n1 ] || fail "n1 is gone"

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
# Starts a program on n2 that nothing but its network tells from others, and puts its process id into ran.
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
	[[ $state = @(|Z*) ]] || fail "what ran on n2 still runs: $state" # Z: it has ended, and nobody asked how
	[ ! -e "$dir" ] || fail "its folder is left"
	for ((tries = 0; tries < 250; tries++)); do # the kernel removes links when it has time
		[ "$(links)" != "$before" ] || return 0
		sleep 0.02
	done
	fail "links are left: $(links) and before $before"
}
begin_on_n2
"$cluster" stop -d "$dir" || fail "it does not stop"
all_is_gone

"$cluster" start --bare -n 2 --net unlimited -d "$dir" >/dev/null || fail "it does not start again"
begin_on_n2
said=$("$cluster" exec -d "$dir" n1 sh -c '"$0" stop; echo status $?' "$cluster" 2>&1)
[ "$said" = "status 0" ] || fail "n1 does not stop the cluster: $said"
all_is_gone
said=$(SLURM_CONF=$SCRATCH/sluice-dc.gone/slurm.conf "$cluster" exec n1 hostname 2>&1) && fail "another cluster is taken for one that ended: $said"
[[ $said = *" is gone"* ]] || fail "who names a cluster that ended is told '$said'"
echo "| a cluster without Slurm came, changed its rate, and went; another was stopped by one of its nodes"
