//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestOOM lets a step grow until the kernel kills it. Its report has the time, the step and its limit, the largest
// processes just before, and the growth rate.
func TestOOM(t *testing.T) {
	s := newSite(t, workDir(t))
	c := lab(t, s)
	w := s.workload()
	// The step grows after it was read, and again after that reading was seen.
	small, big := s.path("out", "small"), s.path("out", "big")
	id := c.submit(t, s, `exec srun -n1 bash -c 'until [ -e `+small+` ]; do sleep 0.1; done; `+w+` --touch 16 --hold 3600 &
		until [ -e `+big+` ]; do sleep 0.1; done; exec `+w+` --touch 300'`, "-n1", "--mem=64", "-w", c.nodes[0], "-J", "growing")
	for _, next := range [][2]string{
		{small, "SELECT count(*) > 0 FROM snapshot WHERE job_mem_current_kib < 16384"},
		{big, "SELECT count(*) > 0 FROM process_reading WHERE comm = 'workload' AND rss_kib >= 16384"},
	} {
		until(t, next[1], func() bool {
			files, err := filepath.Glob(s.path("spool", fmt.Sprintf("job-%d-*.db", id)))
			return err == nil && len(files) == 1 && count(files[0]) > 0 && query(t, files[0], next[1]) == "1"
		})
		command(t, "touch", next[0])
	}
	c.wait(t, id)
	settle(t, s.path("spool"))
	r := onlyRun(t, s, id, c.nodes[0])
	if r.State != "ended" { // its outcome is the script's, which ended with the status of srun
		t.Errorf("%s is %s", r.path, r.State)
	}
	text, status := s.rtSpool(t, "report", fmt.Sprint(id))
	if status != 0 || !strings.Contains(text, "OOM") {
		t.Errorf("report ended with %d and printed\n%s", status, text)
	}
	out, status := s.rtSpool(t, "report", "--json", fmt.Sprint(id))
	var docs []struct {
		OOM []struct {
			Time   time.Time
			Kills  int64
			Step   string
			Task   *int64
			Limit  int64   `json:"limit_bytes"`
			Before int64   `json:"before_bytes"`
			Growth float64 `json:"growth_bytes_per_sec"`
			Big    []struct {
				Comm string
				RSS  int64 `json:"rss_bytes"`
			} `json:"biggest"`
		} `json:"oom"`
	}
	if err := json.Unmarshal([]byte(out), &docs); err != nil || status != 0 || len(docs) != 1 || len(docs[0].OOM) != 1 {
		t.Fatalf("report --json ended with %d: %v\n%s", status, err, out)
	}
	t.Logf("%+v\n%s", docs[0].OOM, text)
	k := docs[0].OOM[0]
	if k.Step != "0" || k.Task == nil || *k.Task != 0 || k.Limit != 64<<20 || k.Kills != 1 {
		t.Errorf("%d killed in step %q, task %v, at %d bytes", k.Kills, k.Step, k.Task, k.Limit)
	}
	if k.Before < 16<<20 || k.Growth <= 0 || len(k.Big) == 0 || k.Big[0].Comm != "workload" {
		t.Errorf("%d bytes before it, %g more each second, largest %+v", k.Before, k.Growth, k.Big)
	}
	if off := time.Since(k.Time); off < 0 || off > patience {
		t.Errorf("the time is %s", k.Time)
	}
}
