# SPDX-License-Identifier: BSD-3-Clause
# While a job trains, another node repeatedly connects to the sockets of all its ranks, sends random bytes or
# none, and leaves some of the connections open. No connection is accepted as a peer, and the job ends with
# the digest of an undisturbed one.
# limit: 300 s
. "$TOP/tests/net/lib.sh"
epochs=${STRANGERS_EPOCHS:-20} least=${STRANGERS_LEAST:-200} job_limit=200

on_one_node undisturbed $small --recipe "$sparse" --shards 4 --epochs "$epochs" --digest
job_start visited 4 $small --recipe "$sparse" --shards 4 --epochs "$epochs" --digest --metrics "$SCRATCH/visited.metrics"
wait_lines visited.metrics 3 60 || { show visited; fail "no step was done within 60 s"; }
halt
sockets=()
for i in 1 2 3 4; do
	mapfile -t -O ${#sockets[@]} sockets < <(on n$i ss -Hltnp | awk '/"sluice-train"/ { print $4 }')
done
[ ${#sockets[@]} -ge 4 ] || { show visited; fail "these sockets of 4 ranks take connections: ${sockets[*]}"; }
: >going
on n1 python3 - going "${sockets[@]}" >visits <<'P' &
import os, random, socket, sys
held, counts = [], {"taken": 0, "refused": 0}
random.seed(1)
open(sys.argv[1] + ".begun", "w").close()
while os.path.exists(sys.argv[1]):
    for name in sys.argv[2:]:
        host, port = name.rsplit(":", 1)
        try:
            s = socket.create_connection((host.strip("[]"), int(port)), timeout=1)
            s.settimeout(0.01)
            if random.random() < 0.9:
                s.sendall(random.randbytes(random.randint(1, 4096)))
            counts["taken"] += 1
            if random.random() < 0.1 and len(held) < 200:
                held.append(s)
            else:
                s.close()
        except OSError:
            counts["refused"] += 1
print(counts["taken"], counts["refused"])
P
visitor=$!
wait_for_file going.begun
go_on
wait "$job_pid"
status=$?
rm going
wait "$visitor" || fail "the program that connects failed"
read -r taken refused <visits
[ $status = 0 ] || { show visited; fail "the job did not survive $taken strangers: status $status"; }
[ "$taken" -ge "$least" ] || fail "only $taken connections were made ($refused refused)"
same_digest visited
echo "| $taken connections of strangers ($refused refused) to ${#sockets[@]} sockets: digest $(final visited digest) as undisturbed"
