// Package upload delivers spooled runs to a Sentinel-compatible receiver (sections 9 to 11 of the
// specification). Drain registers each run, seals its rows into batches, uploads the batches to the
// object store and closes the run.
//
// The spooled run, its directory, the API and the object store are interfaces of this package.
// Drain may be killed at any instant: the run's ledger has each request before Drain sends it. The
// next drain continues there, with the same rows, bytes and keys.
package upload
