package sys

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/resource-tracker/rt/format/ftdc"
)

func fixture(t *testing.T) FS {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/proc.txtar")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := txtar.Write(archive, dir); err != nil {
		t.Fatal(err)
	}
	return NewFS(dir)
}

// record lets an FTDC record for n seconds and returns the values by name.
func record(t *testing.T, seconds int, add func(*ftdc.FTDC)) []map[string]float32 {
	t.Helper()
	var file bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		f := ftdc.NewWithWriter(&file, slog.New(slog.DiscardHandler))
		add(f)
		f.Start()
		time.Sleep(time.Duration(seconds)*time.Second + time.Millisecond)
		f.StopAndJoin(context.Background())
	})
	data, err := ftdc.Parse(&file)
	if err != nil {
		t.Fatal(err)
	}
	var out []map[string]float32
	for _, d := range data {
		m := map[string]float32{}
		for _, r := range d.Readings {
			m[r.MetricName] = r.Value
		}
		out = append(out, m)
	}
	return out
}

func TestStats(t *testing.T) {
	fs := fixture(t)
	data := record(t, 1, func(f *ftdc.FTDC) {
		f.Add("proc", NewProcess(fs, 42))
		f.Add("host", NewHost(fs))
		f.Add("net", NewNet(fs))
	})
	if len(data) != 1 {
		t.Fatalf("%d data", len(data))
	}
	for name, want := range map[string]float32{
		"proc.UserCPUSecs": 2.5, "proc.SystemCPUSecs": 0.75, "proc.ElapsedSecs": 100, "proc.Threads": 9, "proc.MajorFaults": 7,
		"proc.VirtualMB": 2, "proc.ResidentMB": 100 * float32(os.Getpagesize()) / 1e6, "proc.OpenFiles": 2, "proc.ReadMB": 3,
		"proc.WrittenMB": 4, "proc.VoluntarySw": 11, "proc.NonvoluntarySw": 12,
		"host.UserCPUSecs": 1.5, "host.SystemCPUSecs": 2, "host.IdleCPUSecs": 30, "host.IOWaitCPUSecs": 0.4, "host.StealCPUSecs": 0.07,
		"host.Load1": 0.5, "host.Load5": 1.25, "host.Load15": 2, "host.MemTotalMB": 1024, "host.MemFreeMB": 512, "host.MemAvailableMB": 768,
		"host.CPUStallUsec": 123456, "net.Interfaces.eth0.RxBytes": 5e6, "net.Interfaces.eth0.RxDropped": 2,
		"net.Interfaces.eth0.TxPackets": 300, "net.Interfaces.eth0.TxErrors": 3, "net.Interfaces.lo.TxBytes": 100,
		"net.TCPSockets": 5, "net.UDPSockets": 2, "net.OpenOrphan": 1,
	} {
		if got, ok := data[0][name]; !ok || got != want {
			t.Errorf("%s is %v (recorded: %t), want %v", name, got, ok, want)
		}
	}
	for _, name := range []string{"host.SwapFreeMB", "host.IOStallUsec", "host.MemoryStallUsec"} {
		if v, ok := data[0][name]; ok {
			t.Errorf("%s is not in the files and recorded as %v", name, v)
		}
	}
}

// What is cut, empty or gone is left out; nothing panics.
func TestStatsOfDamagedFiles(t *testing.T) {
	fs := fixture(t)
	var names []string
	err := filepath.WalkDir(fs.root, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			names = append(names, path)
		}
		return err
	})
	if err != nil || len(names) < 8 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for cut := range len(text) {
			if err := os.WriteFile(name, text[:cut], 0o644); err != nil {
				t.Fatal(err)
			}
			NewProcess(fs, 42).Stats()
			NewHost(fs).Stats()
			NewNet(fs).Stats()
		}
	}
	if s := NewProcess(fs, 43).Stats().(ProcessStats); s != (ProcessStats{}) {
		t.Errorf("figures of a process that is not there: %+v", s)
	}
}

func TestStatsOfThisProcess(t *testing.T) {
	s := NewProcess(NewFS("/proc"), os.Getpid()).Stats().(ProcessStats)
	if s.Threads == nil || *s.Threads < 1 || s.ResidentMB == nil || *s.ResidentMB < 1 || s.OpenFiles == nil || *s.OpenFiles < 3 {
		t.Errorf("%+v", s)
	}
	if h := NewHost(NewFS("/proc")).Stats().(HostStats); h.MemTotalMB == nil || *h.MemTotalMB < 10 {
		t.Errorf("%+v", h)
	}
}
