// Package ftdc reads and writes FTDC, the compact binary format in which a program records its own figures.
//
// A file is a sequence of documents. A schema document, the byte 0x01, a JSON array of metric names and a newline,
// describes the following documents. A metric document has a bit for each metric, set if its value differs from the
// previous one. Then follow the time in nanoseconds since the epoch (8 bytes, big-endian) and the values that differ
// (4 bytes each, IEEE 754, big-endian). Bits are numbered from the lowest; bit 0 of the first byte is 0, which
// distinguishes a metric document from a schema. After a schema all previous values are 0.
//
// Encoder and Decoder process a file datum by datum and allocate nothing for one.
// Log writes files that are bounded in size and number.
//
// Limits of the format: a value has the 24 significant bits of a float32. A schema leaves out a metric that was not
// read.
//
// Export and Import convert a spooled run. The figures of the run, its host and its ledger go through
// the format exactly up to 48 bits. A file has the processes that a report may show, but no arguments
// of commands and no reports of other programs. The lossless format is the record of package archive.
package ftdc
