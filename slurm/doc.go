// Package slurm has what the packages below it share: Slurm's notations and the
// metadata of a job.
//
// They rely on what was measured on 22.05 and read in the sources up to 26.05. Only
// package accounting runs a command of Slurm: sacct.
package slurm
