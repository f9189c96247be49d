// Package slurm knows how Slurm speaks to the programs it starts: what the
// environment of its hooks and tasks says of a job, where the job's cgroup is,
// what an Epilog and sacct tell of its end, and how a Prolog may leave a daemon
// behind that the Epilog finds again.
//
// It calls no Slurm command. What the functions rely on was measured on 22.05
// and read from the sources up to 26.05.
package slurm
