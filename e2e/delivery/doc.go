// Package delivery tests the way from a spool to a receiver with the real programs and without a cluster. Whichever
// process is killed, at any time, each run arrives once and complete.
//
// The tests have the build tag e2e; `make test` runs them. RT_BIN names the directory of the programs, RT_SEED the
// seed of the random tests, RT_KILLS the number of random kills. The tests of a site with PostgreSQL and MinIO have
// the tag s3 too. `contrib/test/s3` and `contrib/test/site` run them, with RT_MINIO as the path of the server.
package delivery
