// Package slurm has the notations of Slurm and the metadata of its jobs that the
// packages below it share.
//
// Nothing there calls a Slurm command. What the functions rely on was measured on
// 22.05 and read from the sources up to 26.05.
package slurm
