package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// checkNode checks that Slurm starts jobs on this machine. A machine can be several nodes.
func (d *Doctor) checkNode(ctx context.Context) {
	const name = "slurm.node"
	out, err := d.Command(ctx, "sinfo", "--noheader", "--Node", "--format=%N|%n|%T")
	if err != nil {
		d.unknown(name, err)
		return
	}
	short, _, _ := strings.Cut(d.Hostname, ".")
	before := len(d.checks)
	state := ""
	for line := range strings.Lines(string(out)) {
		fields := strings.Split(strings.TrimSpace(line), "|")
		isHere := len(fields) == 3 && (fields[1] == d.Hostname || fields[1] == short)
		if !isHere || slices.Contains(d.nodes, fields[0]) {
			continue
		}
		d.nodes = append(d.nodes, fields[0])
		state = fields[2]
		if isAway(state) {
			d.fail(name, fmt.Sprintf("Slurm starts no job on %s: it is %s; reason: %s", fields[0], state, d.reason(ctx, fields[0])), "no job runs here, and so none is tracked",
				fmt.Sprintf("fix the reason, then scontrol update NodeName=%s State=RESUME", fields[0]))
		}
	}
	if len(d.nodes) == 0 {
		d.fail(name, "no node of Slurm has the host name "+d.Hostname, "no job runs here, and so none is tracked", "a NodeName line with NodeHostname="+d.Hostname+" in slurm.conf")
		return
	}
	d.okUnless(before, name, "%s is %s", strings.Join(d.nodes, ", "), state)
}

// reason returns why a node gets no job. It is a text that people write, so it has a call of its own.
func (d *Doctor) reason(ctx context.Context, node string) string {
	out, err := d.Command(ctx, "sinfo", "--noheader", "--nodes="+node, "--format=%E")
	if err != nil {
		return fmt.Sprintf("not known: %v", err)
	}
	return strings.Join(strings.Fields(string(out)), " ")
}

// isAway reports whether a node in this state, as sinfo prints it, gets no job. A star means that it does not answer.
func isAway(state string) bool {
	for _, word := range []string{"drain", "down", "fail", "unknown", "*"} {
		if strings.Contains(state, word) {
			return true
		}
	}
	return false
}
