package proc

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/resource-tracker/rt"
)

func TestPackets(t *testing.T) {
	const head = "Inter-|   Receive                                                |  Transmit\n face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n" +
		"    lo: 9 999 0 0 0 0 0 0 9 999 0 0 0 0 0 0\n"
	line := func(name, in, out string) string {
		return name + ":1 " + in + " 0 0 0 0 0 0 1 " + out + " 0 0 0 0 0 0\n"
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "net/dev")
	if err := os.Mkdir(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	p := NewPackets(NewFS(dir, dir))
	defer p.Close()
	nets := []rt.NetReading{{Name: "eth0"}, {Name: "eth1"}, {Name: "eth2"}, {Name: "br0"}}
	for i, c := range []struct {
		text    string
		in, out uint64
	}{
		{head + line("eth0", "100", "10") + line("eth1", "5", "6"), 105, 16},
		{head + line("eth0", "110", "11") + line("eth1", "5", "6") + line("br0", "7", "7"), 115, 17},
		{head + line("eth0", "110", "11") + line("eth1", "5", "6") + line("br0", "9", "9"), 115, 17},
		{head + line("eth0", "110", "11"), 115, 17},                             // one has gone
		{head + line("eth0", "3", "12") + line("eth2", "1000", "999"), 115, 18}, // one was set back, one came with a past
		{head + line("eth0", "4", "12") + line("eth2", "1001", "999"), 117, 18},
	} {
		if err := os.WriteFile(file, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		received, sent, err := p.Read(nets)
		if err != nil || received != rt.Some(c.in) || sent != rt.Some(c.out) {
			t.Errorf("reading %d: %v and %v, %v, want %d and %d", i, received, sent, err, c.in, c.out)
		}
	}
	if err := os.WriteFile(file, []byte("nothing\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if received, _, err := p.Read(nets); err == nil || received.Valid() {
		t.Errorf("another file has %v packets", received)
	}
}

func TestReadUse(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "42"), 0o755); err != nil {
		t.Fatal(err)
	}
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "42", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const rest = " 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 3 0 5 0 0"
	put("stat", "42 (a b) S"+rest)
	put("statm", "1000 11 7 1 0 900 0\n")
	if threads, resident, err := ReadUse(dir, 42); err != nil || threads != 3 || resident != 11*pageSize {
		t.Errorf("%d threads, %d bytes, %v", threads, resident, err)
	}
	for _, bad := range []string{"", "1000", "1000 x 7", "1000 18446744073709551615 7"} {
		put("statm", bad)
		if _, resident, err := ReadUse(dir, 42); err == nil {
			t.Errorf("%q has %d bytes", bad, resident)
		}
	}
	put("statm", "1000 11 7 1 0 900 0\n")
	put("stat", "42 (a b) Z"+rest)
	if _, resident, err := ReadUse(dir, 42); err == nil {
		t.Errorf("a zombie has %d bytes", resident)
	}
}
