# SPDX-License-Identifier: BSD-3-Clause
# Functions that the tests in virtual machines share. Each test sources this file and runs in a scratch folder
# under tests/vm/run, which sets TOP, BUILD, LOGS and SCRATCH and checks what the test left behind.
# The nodes are n1 and n2. With one virtual machine, nI has the device rxeI on vI. With two, it has rxe0 on
# eth0 of machine vmI. Lines that begin with "| " are shown even if the test passes.
set -u
export SLUICE_CONF=off # the files sluice.conf of this machine and of this user are not read
: "${TOP:?start the tests with tests/vm/run}" "${BUILD:?}" "${LOGS:?}" "${SCRATCH:?}"
cd "$SCRATCH" || exit 1

# Uses the programs themselves and not libtool's wrapper scripts, which take a second each in the machine.
export LD_LIBRARY_PATH=$BUILD/.libs
program() { # NAME: prints its path
	if [ -x "$BUILD/${1%/*}/.libs/${1##*/}" ] && [ "$1" != "${1##*/}" ]; then
		echo "$BUILD/${1%/*}/.libs/${1##*/}"
	elif [ -x "$BUILD/.libs/$1" ]; then
		echo "$BUILD/.libs/$1"
	else
		echo "$BUILD/$1"
	fi
}
train=$(program sluice-train)
sparse="up=topk(0.01) down=topk(0.05) signal=momentum(0.9) memory=residual update=sgd"
small=(--data "$LOGS/rows" --model mlp:64 --batch 4 --epochs 3 --seed 1)

fail() { echo "FAIL: $*"; exit 1; }
skip() { echo "SKIP: $*"; exit 77; }

# job NAME RANKS COMMAND...: runs a job on both nodes, or on n1 if nodes=1, until it ends. It uses verbs
# unless SLUICE_TRANSPORT is set. Stdout goes to NAME.out, the stderr of rank R to NAME.err.R, and srun's own
# stderr to NAME.srun. srun_options adds options to srun. Returns srun's status.
srun_options=()
export SLUICE_TRANSPORT=verbs
job() {
	local name=$1 ranks=$2
	shift 2
	timeout "${job_limit:-240}" srun --mpi=pmix -N"${nodes:-2}" -n"$ranks" --ntasks-per-node=$((ranks / ${nodes:-2})) \
		--kill-on-bad-exit=0 -D "$SCRATCH" \
		-o "$SCRATCH/$name.out" -e "$SCRATCH/$name.err.%t" ${srun_options[@]+"${srun_options[@]}"} \
		"$TOP/tests/vm/rank" "$@" 2>"$SCRATCH/$name.srun"
}

# Starts the same job in the background. job_pid is its process id.
job_start() {
	rm -f "$SCRATCH"/pid.*
	job "$@" &
	job_pid=$!
}

show() { # prints the output of job NAME
	local file
	for file in "$SCRATCH/$1".*; do
		[ -s "$file" ] && tail -n 12 "$file" | sed "s|^|  ${file##*/}: |"
	done
	return 0
}

# Like job, but the test fails if the job fails.
job_ok() {
	job "$@" || { local status=$?; show "$1"; fail "job $1 ended with status $status"; }
}

# simulated NAME RANKS OPTION...: trains with simulated ranks, in one process and without a transport. Its output
# files are named like those of a job. tests/cluster compares these ranks with real ones over shared memory.
simulated() {
	local name=$1 ranks=$2
	shift 2
	env -u SLUICE_TRANSPORT "$train" --simulate "$ranks" "$@" >"$name.out" 2>"$name.err.0" ||
		{ show "$name"; fail "$name: the simulated job failed"; }
}

# final NAME FIELD: prints a field of the last line of stdout.
final() {
	tail -n 1 "$SCRATCH/$1.out" | sed -n "s/^final .*\\b$2=\\([^ ]*\\).*/\\1/p"
}

pid_of() { cut -d' ' -f1 "$SCRATCH/pid.$1"; }  # RANK
node_of() { cut -d' ' -f2 "$SCRATCH/pid.$1"; } # RANK

now_ms() { local t=${EPOCHREALTIME/./}; echo $((t / 1000)); }

# Measures from now on by how much a process that only sleeps wakes up too late, which shows how long the whole
# machine stood still. stall_ends ends this, and sets stall to the longest delay in ms.
stall_watch() {
	(
		longest=0 ended=
		trap 'ended=1' TERM
		until [ -n "$ended" ]; do
			slept=$(now_ms)
			sleep 0.05
			late=$(($(now_ms) - slept - 50))
			[ $late -le $longest ] || longest=$late
		done
		echo "$longest" >"$SCRATCH/stall"
	) &
	stall_pid=$!
}
stall_ends() {
	kill -TERM "$stall_pid"
	wait "$stall_pid"
	stall=$(cat "$SCRATCH/stall")
}

# Waits until FILE has LINES lines (complete steps, in a metrics file). Returns 1 at a timeout, or if the job
# of job_start has ended.
wait_lines() { # FILE LINES SECONDS
	local end=$((SECONDS + $3))
	until [ -e "$1" ] && [ "$(wc -l <"$1")" -ge "$2" ]; do
		[ $SECONDS -lt $end ] && kill -0 "$job_pid" 2>/dev/null || return 1
		sleep 0.05
	done
}

# Waits until every rank RANK... has logged that rank VICTIM of job NAME is lost. Prints the milliseconds
# since START_MS. Returns 1 at a timeout.
wait_named() { # NAME VICTIM START_MS LIMIT_MS RANK...
	local name=$1 victim=$2 start=$3 limit=$4 rank
	shift 4
	for rank in "$@"; do
		until grep -qE "rank $victim\b.*lost" "$SCRATCH/$name.err.$rank" 2>/dev/null; do
			if [ $(($(now_ms) - start)) -gt "$limit" ]; then
				echo $(($(now_ms) - start))
				return 1
			fi
			sleep 0.02
		done
	done
	echo $(($(now_ms) - start))
}

# Ends all jobs, in whatever state they are.
end_jobs() {
	scancel -s KILL -u root 2>/dev/null
	wait "$job_pid" 2>/dev/null
}

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
			sleep 0.02
		done
	done
	echo $(($(now_ms) - start))
}

# Fails unless a line of FILE matches PATTERN.
says() { # FILE PATTERN
	grep -qiE -- "$2" "$1" || { echo "no line of ${1##*/} matches: $2"; sed 's/^/  /' "$1"; return 1; }
}

# counters DEVICE NAME...: prints the sum of these hardware counters
counters() {
	local device=$1 name sum=0
	shift
	for name in "$@"; do
		sum=$((sum + $(cat "/sys/class/infiniband/$device/ports/1/hw_counters/$name")))
	done
	echo $sum
}

# perf TOOL OPTION...: runs a perftest program from n1 to n2, and prints the output of its client
perf() {
	local tool=$1 server tries
	shift
	$tool -d rxe2 -x 1 "$@" >"$SCRATCH/perf.server" 2>&1 &
	server=$!
	for ((tries = 0; tries < 200; tries++)); do # until the server listens on port 18515
		! grep -qE ':4853 [0-9A-F]*:[0-9A-F]* 0A' /proc/net/tcp /proc/net/tcp6 || break
		sleep 0.05
	done
	$tool -d rxe1 -x 1 "$@" 10.3.0.2 2>&1
	local status=$?
	[ $status = 0 ] || kill $server 2>/dev/null
	wait $server
	return $status
}

# bytes_over NAME TRANSPORT: prints the bytes that the workers of job NAME moved over a transport, as rank 0
# reported
bytes_over() { sed -n "s/.*bytes by transport.*\\b$2=\\([0-9]*\\).*/\\1/p" "$SCRATCH/$1.err.0"; }
