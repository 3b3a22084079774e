# SPDX-License-Identifier: BSD-3-Clause
# Runs a job with SLUICE_PORTS behind a firewall. Each node accepts connections and datagrams only to one port
# for the job, and to the ports on which Slurm listens. A job that listens on that port trains as if there
# were no firewall, and no packet is dropped. A job without SLUICE_PORTS cannot connect.
. "$TOP/tests/net/lib.sh"
nft=$(command -v nft) || skip "no nft: install nftables"
on n1 "$nft" list tables >/dev/null 2>&1 || skip "the kernel has no nftables"
port=20777

open_all() {
	local i
	for i in 1 2 3 4; do on n$i "$nft" delete table inet closed 2>/dev/null; done
}
dropped() {
	local i
	for i in 1 2 3 4; do on n$i "$nft" list chain inet closed in; done |
		sed -n 's/.*counter packets \([0-9]*\) .*drop.*/\1/p' | awk '{ sum += $1 } END { print sum + 0 }'
}

# Closes the node after Slurm's step listens and before a rank does. Starts the rank when all nodes are
# closed.
cat >closes <<W
#!/bin/bash
slurm=\$(ss -Hltnp | awk '/slurmd|slurmstepd/ { sub(/.*:/, "", \$4); print \$4 }' | sort -u | paste -sd,)
"$nft" -f - <<N || exit
table inet closed
delete table inet closed
table inet closed {
	chain in {
		type filter hook input priority 0
		iifname lo accept
		ct state established,related accept
		tcp dport { $port, \$slurm } accept
		udp dport != $port counter drop
		tcp flags & (syn | ack) == syn counter drop
		meta l4proto tcp drop
	}
}
N
: >"$SCRATCH/closed.\$SLURM_STEP_ID.\$SLURM_PROCID"
until [ -e "$SCRATCH/closed.\$SLURM_STEP_ID.0" ] && [ -e "$SCRATCH/closed.\$SLURM_STEP_ID.1" ] &&
	[ -e "$SCRATCH/closed.\$SLURM_STEP_ID.2" ] && [ -e "$SCRATCH/closed.\$SLURM_STEP_ID.3" ]; do sleep 0.02; done
exec "$train" "\$@"
W
chmod +x closes

on_one_node undisturbed $small --recipe "$sparse" --shards 4 --digest
trap open_all EXIT
program=$SCRATCH/closes
SLUICE_PORTS=$port-$port job_ok ported 4 $small --recipe "$sparse" --shards 4 --digest
same_digest ported "behind the firewall"
[ "$(carried ported ofi)" -gt 0 ] || fail "no bytes on the network"
[ "$(dropped)" = 0 ] || fail "the firewall dropped $(dropped) packets of a job that uses only the open ports"
SLUICE_BOOT_TIMEOUT=3s job closed 4 $small --recipe "$sparse" --shards 4 &&
	fail "a job without SLUICE_PORTS passed the firewall"
[ "$(dropped)" -gt 0 ] || { show closed; fail "the firewall dropped nothing"; }
echo "| only port $port and Slurm's open: digest $(final ported digest) as undisturbed, nothing dropped; without SLUICE_PORTS $(dropped) packets were"
