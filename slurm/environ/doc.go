// Package environ makes the Run of a job from the environment that Slurm gives its hooks
// and its tasks, and reads how the job ended from that of its Epilog.
package environ
