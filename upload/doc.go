// Package upload delivers what is spooled to a Sentinel-compatible receiver:
// Drain registers each run, seals its rows into batches, puts them into the
// receiver's object store and closes the run (sections 9 to 11 of the
// specification).
//
// The spooled run, its directory, the API and the object store are interfaces of this package.
// Drain may be killed at any instant: what it is about to do is in the run's ledger before
// the request is sent, so that the next drain continues where this one stopped, with the
// same rows, the same bytes and the same keys.
package upload
