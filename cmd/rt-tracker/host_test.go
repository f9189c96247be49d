package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect/host"
	"github.com/resource-tracker/rt/spool"
)

// tracked runs a tracker to its end and returns what its file says of the host.
func (s *site) tracked(t *testing.T) (rt.Host, []rt.Event) {
	t.Helper()
	cmd, said := s.start(t, s.stdin())
	if said != "ready" {
		t.Fatalf("the tracker said %q", said)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	r, err := spool.Open(filepath.Join(s.dir, "spool", s.run.FileStem()+".db"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	events, err := r.Events()
	if err != nil {
		t.Fatal(err)
	}
	return r.Host(), events
}

// What rt-spool host wrote in this boot is in the run's file; the host's name is
// read now.
func TestHostFromCache(t *testing.T) {
	boot, err := host.BootID(procRoot)
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t)
	cache := filepath.Join(s.dir, "host.json")
	s.write(t, fmt.Sprintf("host_cache = %q\n", cache))
	written := rt.Host{HostID: "i-1", HostName: "an-old-name", GPUModel: "H100", CloudVendorID: "aws", CloudRegionID: "eu-west-1"}
	if err := host.Save(cache, host.Cache{BootID: boot, CollectedAt: time.Now(), Host: written, Suppressed: []string{"host_ip"}}); err != nil {
		t.Fatal(err)
	}
	want := written
	if want.HostName, err = os.Hostname(); err != nil {
		t.Fatal(err)
	}
	if got, _ := s.tracked(t); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// A damaged cache costs the cloud's facts, and the ledger says so.
func TestHostFromDamagedCache(t *testing.T) {
	s := newSite(t)
	cache := filepath.Join(s.dir, "host.json")
	s.write(t, fmt.Sprintf("host_cache = %q\n", cache))
	if err := os.WriteFile(cache, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	got, events := s.tracked(t)
	if got.HostName == "" || !got.MemoryMiB.Valid() || got.CloudVendorID != "" {
		t.Errorf("%+v", got)
	}
	for _, e := range events {
		if e.Name == "host cache" && e.Status == "failed" && strings.Contains(e.Detail, cache) {
			return
		}
	}
	t.Errorf("the ledger does not name %s: %v", cache, events)
}

// Energy is read by default, and counters where the site configures them: the ledger has the
// state of each sensor. "off" disables energy.
func TestEnergyAndCountersInLedger(t *testing.T) {
	sensors := func(more string) string {
		s := newSite(t)
		s.write(t, "host_cache = \"\"\n"+more)
		_, events := s.tracked(t)
		for _, e := range events {
			if e.Kind == "tracker" && e.Name == "sensors" {
				return e.Detail
			}
		}
		t.Fatalf("no word of the sensors: %v", events)
		return ""
	}
	if got := sensors(""); !strings.Contains(got, "energy ") || strings.Contains(got, "perf ") {
		t.Errorf("by default: %s", got)
	}
	if got := sensors("[energy]\nsource = \"off\"\n[perf]\ncore = \"task-clock\"\nmsr = \"nothing_of_the_kind\"\n"); strings.Contains(got, "energy ") || !strings.Contains(got, "perf not supported") {
		t.Errorf("as configured: %s", got)
	}
}
