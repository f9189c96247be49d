# Makes the manual page rt.toml(5) from contrib/rt.toml; make install runs it:
#   awk -f man/rt.toml.5.awk contrib/rt.toml | man -l -
# The comment at the top describes the file, a comment above [section] the section, and a comment
# above keys these keys. A line with # alone ends a paragraph, and `words` in backticks are bold.

BEGIN {
	print ".TH RT.TOML 5 \"2026-12-01\" \"rt 0.2.0\" \"File Formats\""
	print ".SH NAME"
	print "rt.toml \\- configuration of rt\\-prolog, rt\\-epilog, rt\\-tracker, rt\\-spool and rt\\-site"
	print ".SH DESCRIPTION"
}

/^# -+$/ { next }
/^#( |$)/ { comment[++lines] = substr($0, 3); next }
/^$/ && header == "" { header = "done"; describe(".PP"); next }
/^\[/ { section = substr($0, 2, length($0) - 2); print ".SH \"[" section "]\""; describe(".PP"); next }
/^#?[a-z0-9_]+ = / { tag($0); next }
/^$/ { describe(".IP") }

# tag prints a key and its value; several keys in a row have one description.
function tag(line) {
	sub(/^#/, "", line)
	key = section "." substr(line, 1, index(line, " = ") - 1)
	value = substr(line, index(line, " = ") + 3)
	gsub(/"/, "\\(dq", value) # the values have no other character of roff
	print isTagged ? ".TQ" : ".TP"
	print ".BR " key " \" = \" " value
	isTagged = 1
}

# describe prints the collected comment; paragraph separates its paragraphs.
function describe(paragraph,    i) {
	for (i = 1; i <= lines; i++)
		print comment[i] == "" ? paragraph : bold(escaped(comment[i]))
	lines = 0
	isTagged = 0
}

# escaped returns a text for roff, in which no line may begin with a dot or an apostrophe.
function escaped(text) {
	gsub(/\\/, "\\e", text)
	gsub(/-/, "\\-", text)
	sub(/^[.']/, "\\\\\\&&", text)
	return text
}

function bold(text) {
	while (sub(/`/, "\\fB", text))
		sub(/`/, "\\fR", text)
	return text
}

END {
	describe(".IP")
	print ".SH FILES"
	print ".TP"
	print ".I /etc/rt/rt.toml"
	print ".TQ"
	print ".I /usr/local/share/doc/rt/rt.toml"
	print "An example with every key."
	print ".SH EXAMPLES"
	print "The smallest configuration to record, and the section to add for the delivery:"
	print ".PP"
	print ".EX"
	print "    [spool]"
	print "    dir = \"/var/spool/rt\""
	print ""
	print "    [sentinel]"
	print "    endpoint = \"https://api.example.org\""
	print ".EE"
	print ".SH SEE ALSO"
	print ".BR rt\\-prolog (8),"
	print ".BR rt\\-epilog (8),"
	print ".BR rt\\-tracker (8),"
	print ".BR rt\\-spool (8),"
	print ".BR rt\\-site (8)"
}
