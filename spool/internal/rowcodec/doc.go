// Package rowcodec arranges the rows of a table column by column, as bytes that a general compression
// such as zstd makes small.
//
// A column of integers is stored as differences from the previous value of its series, in their
// common unit. All highest bytes come first, then all bytes below them. The highest bytes are
// mostly zeros, and the bytes of noise are together. The rows of one device follow each other.
//
// A block is complete without other blocks. Decode bounds its rows and bytes, and refuses any damage
// that it notices; a caller adds a checksum.
package rowcodec
