#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs small reproductions. The page must have its rows. Conservation and byte counts must hold at this size
# too. A section that fails to run, and an unknown recipe, must be reported and not judged. Run by "make
# check".
set -u
program=$PWD/tests/reproduce/reproduce
work=$(mktemp -d "${TMPDIR:-/tmp}/sluice-reproduce.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0
wrong() { echo "wrong: $*"; failed=1; }

unset A9A TEXT
"$program" --quick --output page.md --only 2,14,15,17 >said 2>&1
status=$?
[ $status -le 1 ] || { cat said; wrong "reproduce --quick: status $status"; }
[ -f page.md ] || { cat said; wrong "no page"; exit 1; }

rows() { grep -c "^| $1 |.*| $2 | [^|]* | [^|]* |\$" page.md; }
[ "$(rows 15 holds)" -ge 12 ] || { cat page.md; wrong "too few rows of conservation hold"; }
[ "$(rows 15 '\*\*fails\*\*')" = 0 ] || { cat page.md; wrong "conservation fails"; }
[ "$(grep -c '^| 17 |.*bytes exact' page.md)" -ge 6 ] || { cat page.md; wrong "bytes are not as predicted"; }
! grep '^| 17 |.*bytes differ' page.md || wrong "bytes of these are not as predicted"
[ "$(rows 2 'not run: no data')" -ge 1 ] || wrong "section 2 does not report that it has no data"
[ "$(rows 2 holds)" = 0 ] || wrong "section 2 is judged although it has no data"
for text in 'up=topk(0.025) down=topk(0.025)' '## 15. Conservation' '--only'; do
	grep -qF -- "$text" page.md || wrong "the page does not show: $text"
done

[ "$(rows 14 'not run: no data')" -ge 1 ] || wrong "section 14 does not report that it has no text"
# The runs of section 14 on a small text. All must end, and the bytes of the first one be those of dense.
awk 'BEGIN { for (i = 0; i < 2000; i++) printf "%c", 97 + i * i % 11 }' >text
"$program" --quick --output text.md --only 14 --text text >said 2>&1
[ "$(grep -c '^| 14 |.*difference' text.md)" -ge 7 ] || { cat said text.md; wrong "a run of section 14 failed"; }
grep -q '^| dense | 0.9, 0.95 |.*| 1/1 | 1/1 | 1/1 |$' text.md || { cat text.md; wrong "section 14 has no dense run"; }
"$program" --quick --output text.md --only 14 --text nowhere >said 2>&1
grep -q '^| 14 |.*cannot open nowhere' text.md || wrong "section 14 does not say why it has no text"

cp page.md kept.md
"$program" --quick --only 15 --output nowhere/page.md >said 2>&1 &&
	wrong "a page that cannot be written is not reported as a failure"
for option in '--only 99' '--only x' '--jobs 0' '--colour' 'word'; do
	# shellcheck disable=SC2086
	"$program" --quick $option >said 2>&1
	[ $? = 2 ] || wrong "$option was not refused"
done
[ $failed = 0 ] && echo "small reproductions are as expected"
exit $failed
