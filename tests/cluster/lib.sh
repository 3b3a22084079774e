# SPDX-License-Identifier: BSD-3-Clause
# Functions that the cluster tests share. Each test sources this file and runs in its own scratch folder under
# tests/cluster/run, which sets TOP, BUILD and SCRATCH and checks what the test left behind. Lines that begin
# with "| " are shown even if the test passes.
set -u
export SLUICE_CONF=off # the files sluice.conf of this machine and of this user are not read
: "${TOP:?start the tests with tests/cluster/run}" "${BUILD:?}" "${SCRATCH:?}"

train=$BUILD/sluice-train
data=/usr/share/datasets/fashion-mnist
sparse="up=topk(0.01) down=topk(0.05) signal=momentum(0.9) memory=residual warmup=1epoch update=sgd"
small="--model mlp:64 --batch 16 --limit 2000 --epochs 1 --seed 1"

# The number of times that a fault is repeated: MOST, or half of that in a quick run (tests/cluster/run -q).
repeats() { echo $((${QUICK:-0} ? $1 / 2 : $1)); } # MOST

fail() { echo "FAIL: $*"; exit 1; }
skip() { echo "SKIP: $*"; exit 77; }

[ -e "$data/train-images-idx3-ubyte.gz" ] || skip "no $data: install dataset-fashion-mnist"

# job NAME RANKS OPTION...: runs sluice-train on all nodes until it ends. Its stdout goes to NAME.out, the
# stderr of rank R to NAME.err.R, and srun's own stderr to NAME.srun. srun_options adds options to srun.
# Returns srun's status.
srun_options=() nodes=2
job() {
	local name=$1 ranks=$2
	shift 2
	timeout "${job_limit:-60}" srun --mpi=pmix -N"$nodes" -n"$ranks" --kill-on-bad-exit=0 \
		-o "$SCRATCH/$name.out" -e "$SCRATCH/$name.err.%t" "${srun_options[@]}" \
		"${program:-$train}" "$@" 2>"$SCRATCH/$name.srun"
}

# Starts the same job in the background. job_pid is its process id.
job_start() {
	job "$@" &
	job_pid=$!
}

show() { # prints the output of job NAME
	local file
	for file in "$SCRATCH/$1".*; do
		[ -s "$file" ] && sed "s|^|  ${file##*/}: |" "$file"
	done
	return 0
}

# Like job, but the test fails if the job fails.
job_ok() {
	job "$@" || { local status=$?; show "$1"; fail "job $1 ended with status $status"; }
}

# final NAME FIELD: prints a field of the last line of stdout.
final() {
	tail -n 1 "$SCRATCH/$1.out" | sed -n "s/^final .*\\b$2=\\([^ ]*\\).*/\\1/p"
}

# Prints one line "RANK PID NODE" for each running process of sluice-train, sorted by rank.
ranks() {
	local file pid
	env -u CLUSTER_TEST grep -lzxF "CLUSTER_TEST=$CLUSTER_TEST" /proc/[0-9]*/environ 2>/dev/null |
		while read -r file; do
			pid=${file#/proc/} pid=${pid%/environ}
			case $(readlink "/proc/$pid/exe" 2>/dev/null) in *sluice-train) ;; *) continue ;; esac
			tr '\0' '\n' <"$file" 2>/dev/null | awk -F= -v pid="$pid" '
				$1 == "SLURM_PROCID" { rank = $2 }
				$1 == "SLURMD_NODENAME" { node = $2 }
				END { if (rank != "") print rank, pid, node }'
		done | sort -n
}

# Waits until FILE has LINES lines. In a metrics file, these are the steps that are complete.
wait_lines() { # FILE LINES SECONDS
	local tries
	for ((tries = 0; tries < $3 * 50; tries++)); do
		[ -e "$1" ] && [ "$(wc -l <"$1")" -ge "$2" ] && return 0
		sleep 0.02
	done
	return 1
}

now_ms() { local t=${EPOCHREALTIME/./}; echo $((t / 1000)); }

# Waits until none of the processes PID... exists. Prints the milliseconds since START_MS. Returns 1 at a
# timeout.
wait_gone() { # START_MS LIMIT_MS PID...
	local start=$1 limit=$2 pid
	shift 2
	for pid in "$@"; do
		while kill -0 "$pid" 2>/dev/null; do
			if [ $(($(now_ms) - start)) -gt "$limit" ]; then
				echo $(($(now_ms) - start))
				return 1
			fi
			sleep 0.01
		done
	done
	echo $(($(now_ms) - start))
}

# Fails unless a line of FILE matches PATTERN.
says() { # FILE PATTERN
	grep -qE -- "$2" "$1" || { echo "no line of ${1##*/} matches: $2"; sed 's/^/  /' "$1"; return 1; }
}
