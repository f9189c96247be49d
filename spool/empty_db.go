package spool

import _ "embed"

// emptyDB is a database of the newest version without a row. A file is a copy of it
// because running the SQL of the schema takes longer than everything else that a job
// waits for at its start. TestTemplate compares it with schema/spool.sql, and writes it
// with -update.
//
//go:embed schema/new.db
var emptyDB string
