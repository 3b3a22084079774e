#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# figures.sh SLUICE-PLOT PAGE FOLDER: draws the figures of a page. FOLDER has the files FIGURE+CURVE.jsonl
# from reproduce --figures. Each line ![TITLE](figures/FIGURE.png) of the page is drawn from the files of that
# figure.
set -u
plot=$1 page=$2 folder=$3
command -v gnuplot >/dev/null && command -v jq >/dev/null || {
	echo "figures.sh: no figures were drawn, because jq or gnuplot is not installed" >&2
	exit 0
}
status=0
while IFS=$'\t' read -r figure title; do
	runs=()
	for file in "$folder/$figure"+*.jsonl; do
		[ -s "$file" ] || continue
		curve=${file##*/"$figure"+}
		runs+=("$file=${curve%.jsonl}")
	done
	if [ ${#runs[@]} = 0 ]; then
		echo "figures.sh: $figure has no runs" >&2
		continue
	fi
	more=()
	case $figure in
	local | adamw) more=(--panel loss-bytes --log-bytes) ;; # their bytes differ by factors of up to 3000
	esac
	"$plot" --output "$folder/$figure.png" --title "$title" --size 1280x640 --smooth 1 "${more[@]}" "${runs[@]}" || status=1
done < <(sed -n 's/^!\[\(.*\)\](figures\/\(.*\)\.png)$/\2\t\1/p' "$page")
exit $status
