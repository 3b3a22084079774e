# SPDX-License-Identifier: BSD-3-Clause
# Illegal accesses (illegal.c) end in a remote access error at the offender. The victim's memory does not
# change, and the victim and the other worker continue.
# quick: 1
. "$TOP/tests/vm/lib.sh"

export ILLEGAL_DEVICES="rxe1 rxe2" ILLEGAL_WINDOWS
for ILLEGAL_WINDOWS in yes no; do
echo "| rights by $([ $ILLEGAL_WINDOWS = yes ] && echo "memory windows" || echo "a protection domain for each peer"):"
for what in nothing inbox delta past before dropped revoked; do
	timeout 60 "$(program tests/vm/illegal)" $what >"$what.log" 2>&1 || { cat "$what.log"; fail "$what"; }
	grep -q "^$what: as wanted" "$what.log" || { cat "$what.log"; fail "$what did not finish"; }
	case $what in
	nothing) echo "| legal accesses only: all succeed" ;;
	inbox) echo "| write into another worker's inbox: $(grep -h 'remote access errors,' "$what.log")" ;;
	delta) echo "| write into the published delta: $(grep -h 'remote access errors,' "$what.log")" ;;
	past) echo "| write one byte past its own inbox: $(grep -h 'remote access errors,' "$what.log")" ;;
	before) echo "| write one byte before its own inbox: $(grep -h 'remote access errors,' "$what.log")" ;;
	revoked) echo "| use its own key after being dropped, alive: $(grep -h 'remote access errors,' "$what.log")" ;;
	dropped) echo "| use the key of a dropped peer: $(grep -h 'remote access errors,' "$what.log")" ;;
	esac
done
done
