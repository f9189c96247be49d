// Package gempba is GemPBA's live telemetry as its dashboard socket carries it: one
// JSON object to a line and tick, each a whole picture of all workers and hosts, and
// control lines the other way.
//
//	for env, err := range gempba.NewDecoder(conn).All() { ... }
//
// Counters are cumulative: of a worker since it began, of a host since it booted. A
// value that was not read is absent and is written as null, never as zero. Bare nan
// and inf, which GemPBA writes for floats that are not finite, are read as absent and
// never written. Names that are not known are passed over.
//
// Where the format's page and GemPBA's writer name a thing differently, both names
// are written and either is read: allowed_cpu_ids and allowed_cpu_mask.
package gempba
