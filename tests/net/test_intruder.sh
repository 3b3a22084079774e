# SPDX-License-Identifier: BSD-3-Clause
# An intruder speaks libfabric. It has recorded the handshakes of a job on the wire of one node. While the job
# trains, it repeats all of their messages to each rank, and puts to keys that it guesses. Each put is
# refused, no rank answers a message, and the digest is that of a job without the intruder.
# limit: 600 s
. "$TOP/tests/net/lib.sh"
[ -x "$BUILD/tests/net/intruder" ] || skip "this build has no libfabric"
job_limit=200

on_one_node undisturbed $small --recipe "$sparse" --shards 4 --epochs 40 --digest
read -r magic bytes < <("$BUILD/tests/net/intruder" frame) && [ -n "$bytes" ] ||
	fail "the intruder does not print the format of a message"
on n1 python3 - heard "$magic" "$bytes" <<'P' &
import os, socket, sys, time
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
wire.bind(("wire", 0))
wire.settimeout(0.2)
open(sys.argv[1] + ".begun", "w").close()
magic, size = bytes.fromhex(sys.argv[2]), int(sys.argv[3])  # of every message of a handshake
heard, end = [], time.monotonic() + 60
while time.monotonic() < end and not os.path.exists(sys.argv[1] + ".end"):
    try:
        packet = wire.recv(65536)
    except socket.timeout:
        continue
    at = packet.find(magic)
    while at >= 0 and len(packet) - at >= size:
        if packet[at:at + size] not in heard:
            heard.append(packet[at:at + size])
        at = packet.find(magic, at + size)
with open(sys.argv[1], "wb") as f:
    f.write(b"".join(heard))
P
listener=$!
wait_for_file heard.begun
job_start visited 4 $small --recipe "$sparse" --shards 4 --epochs 40 --digest --metrics "$SCRATCH/visited.metrics"
wait_lines visited.metrics 1 60 || { show visited; fail "no step was done within 60 s"; }
: >heard.end
wait $listener || fail "the program that records the wire of n1 failed"
heard=$(($(stat -c %s heard) / bytes))
# Rank 0 exchanges five messages with each of the three other ranks.
[ $heard -ge 15 ] || fail "$heard messages of handshakes were recorded, but there are 15"
halt
sockets=()
for i in 1 2 3 4; do
	mapfile -t -O ${#sockets[@]} sockets < <(on n$i ss -Hltnp | awk '/"sluice-train"/ && $4 !~ /^0\.0\.0\.0|^127|\*/ { print $4 }')
done
[ ${#sockets[@]} = 4 ] || { show visited; fail "these sockets of 4 ranks take connections: ${sockets[*]}"; }
SLUICE_PROVIDER= on n1 "$BUILD/tests/net/intruder" wire heard 100 "${sockets[@]}" >visit 2>complaint &
intruder=$!
go_on
wait "$intruder" ||
	{ show visited; fail "the intruder gave up: $(tail -n 1 complaint)"; }
read -r refused accepted sent answers <visit
wait "$job_pid" || { show visited; fail "the job did not survive the intruder"; }
[ "$accepted" = 0 ] || fail "$accepted puts to guessed keys were accepted"
[ "$refused" = 400 ] || fail "$refused of 400 puts were refused"
[ "$sent" = $((4 * heard)) ] || fail "$sent of $((4 * heard)) messages reached the ranks"
[ "$answers" = 0 ] || fail "the intruder got $answers answers"
same_digest visited
echo "| $sent copies of $heard recorded messages and $refused puts to guessed keys: none answered or accepted," \
	"digest $(final visited digest)"
