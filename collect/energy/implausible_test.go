package energy

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
)

// names sets the names of the zones, in their order.
func (n *node) names(t *testing.T, labels map[string]string) {
	t.Helper()
	for zone, label := range labels {
		dir := filepath.Join("class/powercap/intel-rapl:" + zone)
		if err := os.MkdirAll(filepath.Join(n.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		n.set(t, dir+"/name", label)
		n.set(t, dir+"/max_energy_range_uj", strconv.Itoa(mirrorRange))
	}
}

const mirrorRange = 262143328850

// sum is the energy of the kind that is in the readings.
func sum(list []rt.EnergyReading, kind rt.EnergyKind) (total uint64, domains int) {
	for _, e := range list {
		if e.Kind == kind {
			total += e.Energy.Or(0)
			domains++
		}
	}
	return total, domains
}

// AMD's dies show the counter of their socket: the socket is counted once. Sockets whose
// counters happen to be equal at first are two.
func TestDiesWithOneCounter(t *testing.T) {
	n := newNode(t, "none")
	n.names(t, map[string]string{"0": "package-0-die-0", "1": "package-0-die-1", "2": "package-0-die-2", "3": "package-1-die-0", "0:0": "core", "1:0": "core"})
	at := func(socket0, socket1, core uint64) {
		for _, zone := range []string{"0", "1", "2"} {
			n.rapl(t, zone, socket0)
		}
		n.rapl(t, "3", socket1)
		n.rapl(t, "0:0", core)
		n.rapl(t, "1:0", core)
	}
	at(mirrorRange-1_000_000, mirrorRange-1_000_000, 500)
	for i := range 5 {
		got, err := n.after(time.Second)
		if err != nil {
			t.Fatal(err)
		}
		used := uint64(i) * 68_000_000
		if total, domains := sum(got, rt.EnergyPackage); total != used+uint64(i)*1_000_000 || domains != 2 {
			t.Errorf("after %d s %d packages used %d uJ, want 2 with %d", i, domains, total, used+uint64(i)*1_000_000)
		}
		if total, domains := sum(got, rt.EnergyCore); total != uint64(i)*30_000_000 || domains != 1 {
			t.Errorf("after %d s %d cores used %d uJ", i, domains, total)
		}
		used += 68_000_000
		at((mirrorRange-1_000_000+used)%mirrorRange, (mirrorRange-1_000_000+uint64(i+1)*1_000_000)%mirrorRange, 500+uint64(i+1)*30_000_000)
	}
}

// Dies that have the same value by chance are counted from the reading on in which they differ.
func TestDiesThatWereEqualByChance(t *testing.T) {
	n := newNode(t, "none")
	n.names(t, map[string]string{"0": "package-0-die-0", "1": "package-0-die-1"})
	n.rapl(t, "0", 1000)
	n.rapl(t, "1", 1000)
	if _, err := n.after(0); err != nil {
		t.Fatal(err)
	}
	n.rapl(t, "0", 1100)
	n.rapl(t, "1", 1500)
	n.want(t, time.Second, zone("package-0-die-0", rt.EnergyPackage, 0, 100), zone("package-0-die-1", rt.EnergyPackage, 0, 500))
	n.rapl(t, "1", 1100) // it is not compared again
	n.rapl(t, "0", 1600)
	n.rapl(t, "1", 1600)
	n.want(t, time.Second, zone("package-0-die-0", rt.EnergyPackage, 0, 600), zone("package-0-die-1", rt.EnergyPackage, 0, 600))
}

// A counter of the platform that stands still, or counts less than the package does, is absent.
func TestPlatformThatStandsStill(t *testing.T) {
	n := newNode(t, "none")
	n.names(t, map[string]string{"0": "package-0", "1": "psys"})
	var pkg, psys uint64 = 1_000_000, 0
	for _, step := range []struct {
		pkg, psys uint64 // microjoules more
		isAbsent  bool
	}{
		{0, 0, false}, {50_000_000, 0, true}, {50_000_000, 10_000_000, true}, {50_000_000, 60_000_000, false}, {50_000_000, 0, true}, {0, 0, false},
	} {
		pkg, psys = pkg+step.pkg, psys+step.psys
		n.rapl(t, "0", pkg)
		n.rapl(t, "1", psys)
		got, err := n.after(time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != 2 || got[0].Energy != rt.Some(pkg-1_000_000) || got[1].Energy.Valid() == step.isAbsent {
			t.Errorf("%+v: %+v", step, got)
		}
	}
}

// Cray's counter of the node changes ten times a second. It is not absent between two close
// readings, but it is if it stands still.
func TestNodeThatStandsStill(t *testing.T) {
	n := newNode(t, "cray")
	if _, err := n.after(0); err != nil {
		t.Fatal(err)
	}
	n.set(t, "cray/pm_counters/cpu_energy", "420 J")
	if got, err := n.after(50 * time.Millisecond); err != nil || !got[0].Energy.Valid() {
		t.Errorf("after 50 ms: %v, %+v", err, got[0])
	}
	n.set(t, "cray/pm_counters/cpu_energy", "620 J")
	if got, err := n.after(time.Second); err != nil || got[0].Energy.Valid() {
		t.Errorf("after 1 s: %v, %+v", err, got[0])
	}
}
