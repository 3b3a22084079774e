# SPDX-License-Identifier: BSD-3-Clause
# Each kind of bad input is answered with one clear sentence and a nonzero status, and without a core file.
. "$TOP/tests/cluster/lib.sh"

ulimit -c unlimited
failures=

# refused NAME RANKS PATTERN OPTION...: the job must fail, a rank must print PATTERN, and no rank may crash.
refused() {
	local name=$1 n=$2 pattern=$3 status
	shift 3
	job_limit=20 job "$name" "$n" "$@"
	status=$?
	cat "$SCRATCH/$name".err.* >"$name.all"
	if [ $status = 0 ] || [ $status -ge 124 ]; then
		echo "$name: status $status"
	elif ! grep -qiE -- "$pattern" "$name.all"; then
		echo "$name: no rank prints $pattern"
	elif [ "$n" = 2 ] && [ "$(grep -c . "$name.err.1")" -gt 2 ]; then
		echo "$name: rank 1 prints more than one sentence"
	else
		echo "| $name: $(grep -iEm1 -- "$pattern" "$name.all")"
		return
	fi
	show "$name"
	failures+=" $name"
}

idx() { # idx FOLDER: makes a small, correct data folder, which the caller then damages
	mkdir "$1"
	zcat "$data/train-images-idx3-ubyte.gz" | head -c $((16 + 200 * 784)) >"$1/images"
	{ printf '\0\0\010\003\0\0\0\310\0\0\0\034\0\0\0\034'; tail -c +17 "$1/images"; } >"$1/train-images-idx3-ubyte"
	{ printf '\0\0\010\001\0\0\0\310'; zcat "$data/train-labels-idx1-ubyte.gz" | tail -c +9 | head -c 200; } >"$1/train-labels-idx1-ubyte"
	rm "$1/images"
	cp "$1/train-images-idx3-ubyte" "$1/t10k-images-idx3-ubyte"
	cp "$1/train-labels-idx1-ubyte" "$1/t10k-labels-idx1-ubyte"
}
tiny="--model softmax --batch 8 --epochs 1"
idx good
job_ok good 2 $tiny --data good # otherwise the refusals below would prove nothing

refused no_folder 2 'does-not-exist' $tiny --data "$SCRATCH/does-not-exist"
idx gzip; gzip gzip/train-images-idx3-ubyte
head -c 9000 gzip/train-images-idx3-ubyte.gz >gzip/cut; mv gzip/cut gzip/train-images-idx3-ubyte.gz
refused truncated_gzip 2 'gzip/train-images.*(end|truncat|short|damage)' $tiny --data gzip
idx magic; printf '\0\0\011' | dd of=magic/train-images-idx3-ubyte conv=notrunc status=none
refused wrong_magic 2 'magic/train-images.*magic' $tiny --data magic
idx sizes; printf '\0\0\0\307' | dd of=sizes/train-labels-idx1-ubyte bs=1 seek=4 conv=notrunc status=none
refused longer_than_its_header 2 'sizes/train-labels.*(long|size|199)' $tiny --data sizes
truncate -s 207 sizes/train-labels-idx1-ubyte
refused fewer_labels_than_images 2 'sizes/.*(199|200)' $tiny --data sizes
idx short; truncate -s 5000 short/train-images-idx3-ubyte
refused shorter_than_its_header 2 'short/train-images.*(short|end|trunc|size)' $tiny --data short
printf '+1 1:0.5 3:1\n-1 2:1\n+1 1:abc\n' >lines.txt
refused bad_line 2 'lines\.txt.*(line |:)3\b' --model logreg --batch 1 --epochs 1 --data lines.txt
refused recipe_typo 2 'topk' $tiny --data good --recipe 'up=topq(0.01) down=all'
refused recipe_key 2 'memory' $tiny --data good --recipe 'up=topk(0.1) memroy=residual'
refused density_0 2 'densit|topk\(0\)|0 .*1' $tiny --data good --recipe 'up=topk(0)'
refused density_2 2 'densit|topk\(2\)|0 .*1' $tiny --data good --recipe 'up=topk(2)'
refused servers 2 'server' $tiny --data good --servers 2
refused servers_4 2 'server' $tiny --data good --servers 4
refused nan 2 'NaN.*(index|element|\[)' $tiny --data good --nan 1:3
refused metrics 2 'no-such-folder/m' $tiny --data good --metrics "$SCRATCH/no-such-folder/m"
refused checkpoint 2 'cannot write checkpoints to /proc/sluice' $tiny --data good --checkpoint /proc/sluice
refused option 2 'epocks' $tiny --data good --epocks 3
refused batch 2 'batch' $tiny --data good --batch 0
refused too_few 2 'sample' $tiny --data good --batch 4096

# under the other policies, training continues after a NaN
for policy in skip zero; do
	job_ok nan_$policy 2 $tiny --data good --nan 1:3 --recipe "up=topk(0.1) nonfinite=$policy"
done

# an installation prefix that cannot be written
make -s -C "$BUILD" install prefix=/proc/sluice >install.log 2>&1
status=$?
if [ $status = 0 ] || ! grep -q '/proc/sluice' install.log; then
	echo "install into /proc: status $status"; tail -n 5 install.log
	failures+=" install"
else
	echo "| install: $(grep -m1 "cannot.*/proc/sluice\|/proc/sluice.*:" install.log)"
fi

cores=$(find "$SCRATCH" -name 'core*' -type f)
[ -z "$cores" ] || fail "core files: $cores"
[ -z "$failures" ] || fail "not refused as expected:$failures"
