package telemetry

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/format/gempba"
)

func TestPackets(t *testing.T) {
	const head = "Inter-|   Receive                                                |  Transmit\n face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n" +
		"    lo: 9 999 0 0 0 0 0 0 9 999 0 0 0 0 0 0\n"
	line := func(name, in, out string) string {
		return name + ":1 " + in + " 0 0 0 0 0 0 1 " + out + " 0 0 0 0 0 0\n"
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "net"), 0o755); err != nil {
		t.Fatal(err)
	}
	p := newPackets(dir)
	for i, c := range []struct {
		text    string
		in, out uint64
	}{
		{head + line("eth0", "100", "10") + line("eth1", "5", "6"), 105, 16},
		{head + line("eth0", "110", "11") + line("eth1", "5", "6") + line("br0", "7", "7"), 115, 17},
		{head + line("eth0", "110", "11") + line("eth1", "5", "6") + line("br0", "9", "9"), 115, 17},
		{head + line("eth0", "110", "11"), 115, 17},                             // one has gone
		{head + line("eth0", "3", "12") + line("eth2", "1000", "999"), 118, 18}, // one was set back, one came with a past
		{head + line("eth0", "4", "12") + line("eth2", "1001", "999"), 120, 18},
	} {
		if err := os.WriteFile(p.file, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		var got gempba.NetAggregate
		if err := p.read(&got, []rt.NetReading{{Name: "eth0"}, {Name: "eth1"}, {Name: "eth2"}, {Name: "br0"}}); err != nil || got.PacketsIn != rt.Some(c.in) || got.PacketsOut != rt.Some(c.out) {
			t.Errorf("reading %d: %+v, %v, want %d and %d", i, got, err, c.in, c.out)
		}
	}
	for _, bad := range []string{"eth0: 1 2 3\n", strings.Replace(line("eth0", "1", "2"), " 1 0", " x 0", 1)} {
		if got, err := parsePackets(bad); err == nil {
			t.Errorf("%q is %v", bad, got)
		}
	}
}
