// Package rowcodec compresses the rows of a table column by column.
//
// A value is predicted from the previous value of its series, and from other columns of its row.
// The difference is coded arithmetically with an adaptive model of each column. The counters and
// gauges of a run are mostly noise, in which gzip and zstd find nothing to refer to: they need a
// quarter more.
//
// A block is coded without other blocks. Decode bounds its rows and bytes, and refuses any damage
// that it notices; a caller adds a checksum.
package rowcodec
