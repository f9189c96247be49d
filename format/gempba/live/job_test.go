package live

import (
	"slices"
	"testing"
)

// The step on another node gets the variables that srun needs to reach the cluster. It gets no variable of the
// surrounding job and no credential of uploads.
func TestStepEnv(t *testing.T) {
	got := StepEnv([]string{
		"PATH=/bin", "SLURM_CONF=/etc/x", "SLURM_JWT=j", "SLURM_NTASKS=4", "SLURMD_NODENAME=n1", "SSH_AUTH_SOCK=/s",
		"SENTINEL_API_TOKEN=secret", "AWS_SECRET_ACCESS_KEY=secret",
	})
	if want := []string{"PATH=/bin", "SLURM_CONF=/etc/x", "SLURM_JWT=j", "SSH_AUTH_SOCK=/s"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
