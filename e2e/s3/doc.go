// Package s3 holds upload/s3 against a store that somebody else wrote: a real MinIO
// on loopback, with session credentials of its own token service.
//
// The tests need the build tag s3 and RT_MINIO, the path of the server; `make
// test-s3` builds it and runs them.
package s3
