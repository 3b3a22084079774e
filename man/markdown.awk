# SPDX-License-Identifier: BSD-3-Clause
# Turns the sections of doc/intro.md into mdoc for sluice_intro(7). It knows the few forms that this page has:
# headings, paragraphs, code, lists of one line per item, `code`, *words* and NAME(SECTION). A paragraph after
# "<!-- picture -->" is left out.
function literal(line) {
	gsub(/\\/, "\\e", line)
	if (line ~ /^[.']/)
		line = "\\&" line
	print line
}

function open_display() {
	fresh = 0
	print ".Bd -literal" (code ? "" : " -offset indent")
	inside = 1
	pending = 0
}

function close_display() {
	if (inside)
		print ".Ed"
	inside = code = 0
}

function close_list() {
	if (list)
		print ".El"
	list = 0
}

# Prints the text before a macro, and returns the punctuation that follows it as arguments of the macro.
function macro(before, call, rest,  marks) {
	sub(/ +$/, "", before)
	if (before != "")
		print before
	while (rest ~ /^[.,;:)]/) {
		marks = marks " " substr(rest, 1, 1)
		rest = substr(rest, 2)
	}
	print call marks
	sub(/^ +/, "", rest)
	return rest
}

function text(line,  word) {
	while (match(line, /`[^`]*`|\*[^*]*\*|sluice[a-z_-]*\([137]\)/)) {
		word = substr(line, RSTART, RLENGTH)
		if (word ~ /^`/)
			word = ".Ql " substr(word, 2, RLENGTH - 2)
		else if (word ~ /^\*/)
			word = ".Em " substr(word, 2, RLENGTH - 2)
		else
			word = ".Xr " substr(word, 1, RLENGTH - 3) " " substr(word, RLENGTH - 1, 1)
		line = macro(substr(line, 1, RSTART - 1), word, substr(line, RSTART + RLENGTH))
	}
	if (line != "")
		print line
}

BEGIN { fresh = 1 }
/^```$/ { close_display(); next }
/^```c$/ { code = 1; close_list(); open_display(); next }
code { literal($0); next }
/^<!-- picture -->$/ { skip = 1; next }
/^<!--/ { next }
skip && /^$/ && drawn { skip = drawn = 0 }
/^!\[/ { drawn = 1 }
skip { next }
/^# / { next }
/^    / {
	close_list()
	if (!inside)
		open_display()
	literal(substr($0, 5))
	next
}
{ close_display() }
/^$/ { pending = !fresh; next }
/^## / { close_list(); print ".Sh " toupper(substr($0, 4)); fresh = 1; next }
/^- / {
	if (!list)
		print ".Bl -bullet"
	list = 1
	print ".It"
	text(substr($0, 3))
	next
}
{
	if (pending)
		print ".Pp"
	pending = fresh = 0
	text($0)
}
END { close_display(); close_list() }
