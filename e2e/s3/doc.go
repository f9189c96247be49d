// Package s3 tests upload/s3 with an independent implementation of S3: a real MinIO on
// loopback, with session credentials from its token service.
//
// The tests need the build tag s3 and RT_MINIO, the path of the server; `make
// test-s3` builds it and runs them.
package s3
