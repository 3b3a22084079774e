# SPDX-License-Identifier: BSD-3-Clause
# Writes the C functions that stand for those of optional libraries in the libsluice of a wheel. Called by local.mk
# with NEEDED, the names of the functions that libsluice calls, and with the file "libraries", which explains its lines.

# Splits the parameters at commas and gives each a name.
function parameters(text,   part, n, i, list) {
	names = ""
	if (text == "void")
		return text
	n = split(text, part, /, */)
	for (i = 1; i <= n; i++) {
		list = list (i > 1 ? ", " : "") part[i] (part[i] ~ /\*$/ ? "" : " ") "a" i
		names = names (i > 1 ? ", " : "") "a" i
	}
	return list
}

function finish_library() {
	if (library != "" && functions != "")
		print "\nstatic const char *const " library "_names[] = { " list "NULL };\nstatic void *" library \
			"_found[sizeof(" library "_names) / sizeof(*" library "_names)];\nstatic struct loader " library \
			" = { \"" file "\", " library "_names, " library "_found, 0 };\n" functions "#endif"
	else if (library != "")
		print "#endif"
	library = functions = list = ""
	index_of = 0
}

BEGIN {
	n = split(NEEDED, name, " ")
	for (i = 1; i <= n; i++)
		needed[name[i]] = 1
	print "/* Generated from python/wheel/libraries. */\n#include \"python/wheel/loader.h\"\n#include <string.h>"
}

/^#/ || /^$/ { next }

$1 == "library" { # NAME FILE CONDITION HEADER...
	finish_library()
	library = $2
	file = $3
	gsub(/\|/, " || defined ", $4)
	print "\n#if defined " $4
	for (i = 5; i <= NF; i++)
		print "#include <" $i ">"
	next
}

{ # PROTOTYPE [= RESULT]
	result = ""
	if (split($0, side, / = /) == 2)
		result = side[2]
	prototype = side[1]
	open = index(prototype, "(")
	head = substr(prototype, 1, open - 1)
	match(head, /[A-Za-z_0-9]+$/)
	called = substr(head, RSTART)
	type = substr(head, 1, RSTART - 1)
	if (!(called in needed))
		next
	if (result == "")
		result = type ~ /\*$/ ? "NULL" : "-1"
	text = parameters(substr(prototype, open + 1, length(prototype) - open - 1))
	list = list "\"" called "\", "
	body = "\treturn call ? call(" names ") : " result ";\n"
	if (type == "void ")
		body = "\tif (call)\n\t\tcall(" names ");\n"
	functions = functions "\n#undef " called "\n" type called "(" text ")\n{\n" \
		"\tvoid *found = loader_find(&" library ", " index_of++ ");\n" \
		"\t__typeof__(&" called ") call;\n\n" \
		"\tmemcpy(&call, &found, sizeof(call));\n" body "}\n"
}

END { finish_library() }
