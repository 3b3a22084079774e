# SPDX-License-Identifier: BSD-3-Clause
# Follows doc/intro.md: its programs must be the files of doc/intro, its commands must work as they stand, and
# they must print the lines that the page shows. Also sends a signal to the program of step 4.
# limit: 300 s
. "$TOP/tests/cluster/lib.sh"
page=$TOP/doc/intro.md
ldd "$BUILD/.libs/libsluice.so" | grep -qE 'lib(asan|tsan|ubsan)' && skip "this library has a sanitizer, and cc does not link it"

# The page leaves out the licence of a file.
programs=0
while read -r name; do
	awk -v mark="<!-- intro/$name -->" '
		/^```$/ { inside = 0 }
		inside { print }
		$0 == mark { found = 1 }
		found && /^```c$/ { inside = 1; found = 0 }' "$page" >shown
	sed -e '1s|^/\* SPDX[^*]*\*/$|-|' -e '1s|^/\* SPDX.*|/*|' -e '2s|^ \* ||' "$TOP/doc/intro/$name" |
		sed -e '1{/^-$/d}' -e '1{/^\/\*$/{N;s|/\*\n|/* |}}' >there
	cmp -s shown there || { diff shown there; fail "doc/intro.md does not show doc/intro/$name"; }
	cp "$TOP/doc/intro/$name" .
	programs=$((programs + 1))
done < <(sed -n 's|^<!-- intro/\(.*\) -->$|\1|p' "$page")
[ $programs -ge 5 ] || fail "doc/intro.md shows $programs programs"

# A library that is not installed yet.
cat >sluice.pc <<P
Name: sluice
Description: the library of this build
Version: 0
Cflags: -I$TOP/runtime
Libs: -L$BUILD/.libs -lsluice -Wl,-rpath,$BUILD/.libs
P
export PKG_CONFIG_PATH=$PWD

# Prints the lines of the file that are not srun's own, sorted, because ranks print in any order.
printed() { grep -vE '^srun: job [0-9]+ (queued|has been allocated)' "$1" | sort; }

commands=0 command=
check() {
	[ -n "$command" ] || return 0
	eval "$command" >out 2>&1 </dev/null || { cat out; fail "status $? of: $command"; }
	printed wanted >wanted.sorted
	printed out | diff wanted.sorted - || fail "these lines differ: $command"
	commands=$((commands + 1))
}
while IFS= read -r line; do
	case $line in
	'    $ '*) check; command=${line#'    $ '}; : >wanted ;;
	'    '*) [ -z "$command" ] || echo "${line#    }" >>wanted ;;
	*) check; command= ;;
	esac
done <"$page"
[ $commands -ge 12 ] || fail "doc/intro.md has $commands commands"

rm -r saved
./resume 1000000000 >signalled &
pid=$!
wait_lines signalled 1 60 || fail "no 100 steps within 60 s"
kill -USR1 $pid
wait $pid || fail "status $? after a signal"
says signalled '^saved after [0-9]+ steps' || fail "a signal does not end the program with a checkpoint"
echo "| $programs programs and $commands commands of doc/intro.md, and a signal"
