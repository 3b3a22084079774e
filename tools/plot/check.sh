#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Plots small metrics files and checks the pictures. Run by "make check".
set -u
here=$(cd "$(dirname "$0")" && pwd)
command -v jq >/dev/null && command -v gnuplot >/dev/null || {
	echo "skipped: jq or gnuplot is not installed (Debian packages: jq, gnuplot-nox)"
	exit 77
}
work=$(mktemp -d "${TMPDIR:-/tmp}/sluice-plot-check.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0
wrong() { echo "wrong: $*"; failed=1; }

run() { # FILE STEPS BYTES_A_STEP
	local step
	for ((step = 1; step <= $2; step++)); do
		printf '{"step":%d,"epoch":1,"loss":%d.5,"seconds":%d,"pushed_total":%d,"pulled_total":%d' \
			$step $((20 - step / 10)) $step $((step * $3)) $((step * $3 / 2))
		[ $((step % 50)) != 0 ] || printf ',"accuracy":0.%d' $step
		printf ',"density_up":0.01,"density_down":0.05,"residual_norm":null'
		printf ',"compress":0.001,"push":0.002,"wait":0.003,"pull":0.004,"apply":0.005}\n'
	done >"$1"
}
run one.jsonl 200 1000000
run two.jsonl 100 2000
run 'odd=name_{"}.jsonl' 3 1

version=$(sed -n 's/^AC_INIT(\[sluice\], \[\([^]]*\)\].*/\1/p' "$here/../../configure.ac")
[ "$("$here/sluice-plot" --version)" = "sluice-plot (Sluice) $version" ] ||
	wrong "sluice-plot --version says $("$here/sluice-plot" --version 2>&1), and configure.ac $version"

# plot STATUS PATTERN ARGUMENT...: checks the status and the text on standard error.
plot() {
	local status=$1 pattern=$2 got
	shift 2
	"$here/sluice-plot" "$@" >said 2>&1
	got=$?
	[ $got = "$status" ] || { cat said; wrong "sluice-plot $*: status $got, expected $status"; }
	if [ -z "$pattern" ]; then
		[ ! -s said ] || { cat said; wrong "sluice-plot $*: should print nothing"; }
	else
		grep -q -- "$pattern" said || { cat said; wrong "sluice-plot $*: does not print \"$pattern\""; }
	fi
}

plot 0 '' --output a.svg --title 'a "title" of 100% {x}_y' one.jsonl 'two.jsonl=top_k {1%} "q" \ ~'
for text in 'a "title" of 100% {x}_y' one 'top_k {1%} "q" \ ~' 'training loss, means over 2 steps' 'lower is better' \
	'not in these files' 'all workers (logarithmic)' 'the axis begins at 0.'; do
	sed 's/<[^>]*>//g; s/&quot;/"/g; s/&amp;/\&/g' a.svg | grep -qF -- "$text" || wrong "a.svg does not show: $text"
done
plot 0 '' 'odd=name_{"}.jsonl' one.jsonl=
[ "$(head -c 4 sluice.png | tail -c 3)" = PNG ] || wrong "sluice.png is not a PNG"

# The loss of step 5 is 99 at first. Then the job continues from step 4.
{
	sed -n 1,4p one.jsonl
	sed -n '5s/"loss":[0-9.]*/"loss":99/p' one.jsonl
	sed -n 5,20p one.jsonl
} >resumed.jsonl
sed -n 1,20p one.jsonl >straight.jsonl
for name in resumed straight; do
	plot 0 '' --smooth 1 --panel loss --output $name.svg $name.jsonl=run
done
cmp -s resumed.svg straight.svg || wrong "a step that was made again is drawn twice"

plot 0 '' --output d.svg --panel accuracy-bytes --log-bytes --title alone one.jsonl two.jsonl
for text in alone accuracy 'MB pushed and pulled, all workers' one two; do
	sed 's/<[^>]*>//g' d.svg | grep -qF -- "$text" || wrong "d.svg does not show: $text"
done
! sed 's/<[^>]*>//g' d.svg | grep -qF 'training loss' || wrong "d.svg shows more than one panel"
plot 0 '' --output e.svg --panel accuracy-seconds one.jsonl
! grep -q logarithmic e.svg || wrong "e.svg has a logarithmic axis, although one run does not need it"
for text in accuracy 'seconds since the start' one; do
	sed 's/<[^>]*>//g' e.svg | grep -qF -- "$text" || wrong "e.svg does not show: $text"
done
for step in 50 100; do
	printf '{"step":%d,"validation_loss":%d,"seconds":%d,"pushed_total":%d,"pulled_total":%d}\n' \
		$step $((step / 50)) $step $((step * 1000000)) $((step * 1000000))
done >validated.jsonl
for name in validation validation-bytes validation-seconds; do
	plot 0 '' --output f.svg --panel $name --log-seconds validated.jsonl
	sed 's/<[^>]*>//g' f.svg | grep -qF 'validation loss' || wrong "f.svg does not show the validation loss ($name)"
	[ "$(grep -c "#gpPt6' transform" f.svg)" = 3 ] || # the third is that of the key
		wrong "f.svg does not show both validations ($name)"
done
plot 2 'there are loss loss-bytes' --panel speed one.jsonl
plot 2 'there are loss loss-bytes' --panel 'loss loss-bytes' one.jsonl

head -c -20 one.jsonl >cut.jsonl
plot 0 'cut.jsonl: its last line is not complete' --output b.png cut.jsonl
[ -s b.png ] || wrong "a killed run is not drawn"

echo kept >c.png
{ head -n 3 one.jsonl; echo 'no json'; head -n 3 one.jsonl; } >bad.jsonl
plot 1 'bad.jsonl is no metrics file' --output c.png one.jsonl bad.jsonl
echo '{"loss":1}' >bad.jsonl
plot 1 'bad.jsonl is no metrics file.*without a step' --output c.png bad.jsonl
: >empty.jsonl
plot 1 'empty.jsonl holds no step' --output c.png empty.jsonl
plot 1 'absent.jsonl: no such file' --output c.png absent.jsonl
plot 1 '\. is not a regular file' --output c.png .
[ "$(cat c.png)" = kept ] || wrong "a run that failed changed a picture"
plot 1 'cannot write' --output nowhere/c.png one.jsonl
plot 2 'must end in' --output c.gif one.jsonl
plot 2 'pixels' --size 10x10 one.jsonl
plot 2 'number of steps' --smooth 0 one.jsonl
plot 2 'no metrics file'
plot 2 'unrecognized' --colour one.jsonl
plot 2 'see sluice-plot --help' --colour one.jsonl
[ $failed = 0 ] && echo "the pictures show what is in the files"
exit $failed
