# SPDX-License-Identifier: BSD-3-Clause
# Runs PyTorch under a real Slurm, without MASTER_ADDR. The examples in python/examples end with the same bits
# under srun, with the variables of torchrun, and after an interruption. If a rank is killed, the others name
# it.
. "$TOP/tests/cluster/lib.sh"
export SLUICE_LIBRARY=$BUILD/.libs/libsluice.so PYTHONPATH=$TOP/python OMP_NUM_THREADS=1
export PYTHONDONTWRITEBYTECODE=1 SLUICE_ADVICE=no
unset MASTER_ADDR MASTER_PORT
for python in ${PYTHON:-} python3 /usr/bin/python3 none; do
	"$python" -c 'import torch' 2>/dev/null && break
done
[ "$python" != none ] || skip "no python3 with torch; on Debian: apt-get install python3-torch"
ldd "$SLUICE_LIBRARY" | grep -qE 'lib(asan|tsan|ubsan)' && skip "this library has sanitizers, and python has none"
program=$python
fashion="$TOP/python/examples/fashion.py --epochs 1 --batch 500"

job_ok srun 2 $fashion
digest=$(final srun digest)
[ -n "$digest" ] || fail "no digest in the last line: $(tail -n 1 srun.out)"

# Runs the same job by torchrun. The torchrun of torch 1.13 fails under Python 3.11. In that case, the ranks
# get the variables that it would set, and rank 0 has the store.
if "$python" -m torch.distributed.run --standalone --nproc_per_node 1 --no_python true 2>/dev/null; then
	by=torchrun
	"$python" -m torch.distributed.run --standalone --nproc_per_node 2 $fashion >elastic.out 2>elastic.err ||
		{ tail -n 5 elastic.err; fail "torchrun ended with an error"; }
else
	by="torchrun's variables" port=$((20000 + $$ % 10000))
	for rank in 0 1; do
		RANK=$rank WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=$port TORCHELASTIC_RUN_ID=test \
			"$python" $fashion >elastic.$rank 2>&1 &
	done
	wait
	tail -n 1 elastic.0 >elastic.out
fi
[ "$(final elastic digest)" = "$digest" ] ||
	{ tail -n 3 elastic.*; fail "$by and srun end with different parameters"; }

# a GPT job that is interrupted after four of eight steps
seq 1 20000 >text
gpt="$TOP/python/examples/gpt.py text --batch 2 --length 16 --width 32 --layers 1"
job_ok whole 2 $gpt --steps 8
job_ok first 2 $gpt --steps 4 --checkpoint saved
job_ok second 2 $gpt --steps 8 --checkpoint saved
echo "| digests: fashion.py $digest (also by $by), gpt.py $(final whole digest), resumed $(final second digest)"
[ -n "$(final whole digest)" ] && [ "$(final second digest)" = "$(final whole digest)" ] ||
	fail "the resumed GPT ends with different parameters"

# the rank is killed in its second step or later
cat >killed.py <<'P'
import os, signal, sys
import sluice.torch, torch
job = sluice.torch.default_job()
model = torch.nn.Linear(100, 10)
optimizer = sluice.torch.Optimizer(model, "up=topk(0.1) down=all", lr=0.1)
for step in range(100):
    if job.rank == 1 and step == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    optimizer.zero_grad()
    model(torch.ones(4, 100)).sum().backward()
    optimizer.step()
P
job killed 3 killed.py && fail "the job ended well although a rank was killed"
for rank in 0 2; do
	says killed.err.$rank 'PeerError: .*rank 1 \(node n[12]\)' || fail "rank $rank does not name the killed rank"
done
