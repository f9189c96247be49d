// Package report says what a spooled run was: who ran what, how much of what was
// allocated it used, how close it came to its limits, and how complete the
// record is. Summarize makes a Summary, which is the JSON document, and WriteText
// shows it on one screen.
//
// A figure that was not read is null in JSON, "-" in text, and beside it stands
// the reason.
package report
