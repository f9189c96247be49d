// Package report describes a spooled run: the user and the command, how much of the
// allocation was used, how close the job came to its limits, and how complete the record is.
// Summarize returns a Summary, which is the JSON document; WriteText shows it on one screen.
//
// A figure that was not read is null in JSON and "-" in text, and the reason follows.
package report
