// Package gempba reads and writes the live telemetry of GemPBA's dashboard socket. It has one JSON object per line
// and tick, each with the full state of all workers and hosts. Control lines go in the other direction.
//
//	envelope, err := gempba.NewDecoder(conn).Next()
//
// Counters are cumulative: of a worker since its start, of a host since its boot. A value that was
// not read is absent and written as null, never as zero. Bare nan and inf, which GemPBA writes for
// floats that are not finite, are read as absent and never written. Unknown names are ignored.
//
// If the page of the format and the writer of GemPBA use different names, both are written and
// either is read: allowed_cpu_ids and allowed_cpu_mask.
//
// Export and Import convert a spooled run. Figures sums up the lines that are stored with a run.
// Package live broadcasts what runs on this node.
package gempba
