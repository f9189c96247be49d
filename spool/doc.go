// Package spool is the store of runs on a node's own disk: one SQLite file per
// run, so that a crash, a full disk or a damaged file costs one run.
//
// A Writer, held by the tracker, appends snapshots and events; a Reader, held by
// drain and the reports, reads them and keeps the ledger of what was delivered.
// List and FindJob look through a directory. DESIGN.md beside this file says what
// is kept how, what is synced when, and which invariants Verify checks.
//
// The files open with plain sqlite3: the view sample shows rates, the view
// snapshot the counters as they were read.
package spool
