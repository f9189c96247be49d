// Package doctor checks whether a machine is set up to track jobs and to deliver their records. It
// checks Slurm, the kernel, the files of rt, the receiver and the GPUs. Each check states what it
// found, what that means, and how to fix it.
package doctor

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/cmd/internal/config"
)

// Status is the result of a check.
type Status string

// The statuses. Unknown is the status of a check that could not be done, for example without root.
const (
	OK      Status = "ok"
	Unknown Status = "unknown"
	Warning Status = "warning"
	Failure Status = "failure"
)

// Check is one check with its result.
type Check struct {
	Name    string `json:"name"`
	Status  Status `json:"status"`
	Finding string `json:"finding"`           // what was found
	Meaning string `json:"meaning,omitempty"` // what follows; empty if the check is ok
	Fix     string `json:"fix,omitempty"`     // the command or the line that fixes it
}

// Role is what a machine does for rt.
type Role string

// The roles.
const (
	Node     Role = "node"     // runs jobs
	Login    Role = "login"    // users read reports there
	Receiver Role = "receiver" // runs rt-site serve
)

// Doctor has the inputs of the checks. A test replaces them.
type Doctor struct {
	Files
	ConfigFile string // the file that was read
	ConfigErr  error  // why it could not be read; Config has the defaults then
	Config     config.Config
	Programs   []string // directories that may have rt-prolog and rt-tracker
	SlurmConf  string   // SLURM_CONF of the environment
	EnvToken   string   // SENTINEL_API_TOKEN of the environment: the token for the receiver if there is no file
	Version    string   // output of --version of this program

	PrologLimit, EpilogLimit time.Duration // the longest time that a hook takes

	Hostname string // of this machine

	Command func(ctx context.Context, name string, args ...string) ([]byte, error) // returns standard output
	HTTP    func(caFile string) (*http.Client, error)
	Munge   func(socket string) func(*http.Request) error      // sets a credential of this process's user
	Local   func(listen string) *http.Client                   // for the service of this machine; its certificate is for another name
	Stores  func(ctx context.Context) ([]Check, error)         // the checks of rt-site doctor
	Space   func(dir string) (Space, error)                    // of the file system of a directory
	GPUs    func(ctx context.Context) ([]rt.GPUReading, error) // of this machine, as a tracker reads them
	Wait    func(ctx context.Context, d time.Duration) bool    // false as soon as the context ends
	Now     func() time.Time

	findings
	nodes []string // names of this machine in Slurm
}

// Space is the room on a file system.
type Space struct {
	Free     uint64 // bytes that the spool's user may write
	Network  bool   // the file system is on another machine
	Memory   bool   // the file system is in memory, such as a tmpfs
	ReadOnly bool   // the file system is mounted read-only
	NoFiles  bool   // no further file can be created: there is no free inode
}

// FindRoles returns the roles that the configuration and the installed programs suggest. A receiver can run jobs too.
func (d *Doctor) FindRoles() (roles []Role) {
	if d.program("rt-prolog") != "" && d.hasSlurmd() {
		roles = append(roles, Node)
	}
	if d.exists(d.Config.Serve.Dir) {
		roles = append(roles, Receiver)
	}
	if len(roles) == 0 {
		return []Role{Login}
	}
	return roles
}

// hasSlurmd reports whether slurmd runs here or is installed. The package of rt for a login node has the hooks too.
func (d *Doctor) hasSlurmd() bool {
	for _, file := range []string{"/usr/sbin/slurmd", "/usr/local/sbin/slurmd", "/usr/lib/systemd/system/slurmd.service", "/etc/systemd/system/slurmd.service"} {
		if d.exists(file) {
			return true
		}
	}
	found, _ := filepath.Glob(d.path("/proc/[0-9]*/comm"))
	return slices.ContainsFunc(found, func(file string) bool {
		name, err := os.ReadFile(file)
		return err == nil && strings.TrimSpace(string(name)) == "slurmd"
	})
}

// Run does the checks of the roles of a machine. It changes nothing on the machine.
func (d *Doctor) Run(ctx context.Context, roles ...Role) []Check {
	d.checks, d.nodes = nil, nil
	d.add(d.checkConfig())
	for _, role := range roles {
		switch role {
		case Node:
			d.runNode(ctx)
		case Login:
			d.checkPrograms(ctx, "resource-tracker")
			serviceChecks{d}.checkSite(ctx)
		case Receiver:
			serveChecks{d}.run(ctx)
		}
	}
	return d.checks
}

func (d *Doctor) runNode(ctx context.Context) {
	slurmChecks{d}.run(ctx)
	kernelChecks{d}.run()
	d.checkPrograms(ctx, "rt-prolog", "rt-epilog", "rt-tracker", "resource-tracker")
	d.checkSwitches()
	spoolChecks{d}.run()
	gpuChecks{d}.run(ctx)
	serviceChecks{d}.checkDelivery(ctx)
	if d.Config.Site.URL != "" {
		serviceChecks{d}.checkSite(ctx)
	}
}

// Worst returns the worst status of the checks. A check that could not be done counts as ok.
func Worst(checks []Check) Status {
	worst := OK
	for _, c := range checks {
		isWorse := c.Status == Failure || (worst == OK && c.Status == Warning)
		if isWorse {
			worst = c.Status
		}
	}
	return worst
}

// program returns the path of an installed program of rt, empty if there is none.
func (d *Doctor) program(name string) string {
	for _, dir := range d.Programs {
		if path := filepath.Join(dir, name); d.exists(path) {
			return path
		}
	}
	return ""
}
