// Package sonar is the output contract of sonar ps, sonar sysinfo and sonar slurm
// in their old formats: "free CSV", in which every field carries its name, and
// JSON. Encoders write version 0.13 and, of sonar ps, every earlier one; Decode
// reads them all, also the unnamed columns of 0.6.
//
// A field that is absent has its default, zero in most cases: these formats cannot
// tell "not read" from zero. Decode ignores names that it does not know, as the
// format asks. Times carry their zone's offset and have whole seconds (0.6: a
// fraction, always UTC).
//
// Where the format's page and the programs that read it differ, what is written
// here satisfies both; see the comments.
package sonar
