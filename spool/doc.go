// Package spool stores runs on the local disk of a node. Each run has its own SQLite file, so that
// a crash, a full disk or a damaged file affects one run only.
//
// The tracker appends snapshots and events with a Writer. The drain and the reports read
// them with a Reader, which also records what was delivered. List and FindJob search a
// directory. DESIGN.md describes the format, what is synced when, and the invariants that
// Verify checks.
//
// sqlite3(1) opens the files: the view sample has the rates, the table snapshot the counters
// as they were read.
package spool
