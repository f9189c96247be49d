package spool

import _ "embed"

// template is a database of the newest version without a row. A file is made from it
// because the migrations, one after another, take longer than all else that a job
// waits for at its start. TestTemplate holds it against them, and writes it with -update.
//
//go:embed schema/new.db
var template string
