// Package environ reads what Slurm's environments say of a job: those of its hooks
// and of its tasks.
//
// It calls no Slurm command. What the functions rely on was measured on 22.05
// and read from the sources up to 26.05.
package environ
