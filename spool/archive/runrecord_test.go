package archive

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/spool"
)

// stored makes a run with names of a person, a job and directories, in every place that has some.
func stored(t testing.TB) *spool.Reader {
	t.Helper()
	run := rt.Run{
		Identity: rt.Identity{JobID: rt.Some[uint64](4711), Node: "n1", Start: time.UnixMilli(1772352000123).UTC()},
		Allocation: rt.Allocation{
			User: "alice", UID: rt.Some[uint64](1000), WorkDir: "/home/alice", Comment: "of alice", NumNodes: rt.Some[uint64](0),
			JobStart: time.UnixMicro(1772352000123456).UTC(),
		},
		Meta:    rt.Metadata{JobName: "alice-1", Tags: map[string]string{"owner": "alice", "b": ""}},
		Command: []string{"md", "--input", "/home/alice/x", ""},
		Ending:  rt.Ending{State: rt.StateRunning},
	}
	host := rt.Host{HostName: "alice-pc", StorageGB: rt.Some(0.1), VCPUs: rt.Some[uint64](0)}
	w, err := spool.Create(t.TempDir(), run, host, spool.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(200) {
		s := rt.Snapshot{Seq: i + 1, Wall: 1772352000e9 + i*1e10, Boot: i * 1e10}
		s.Node.MemFree.Set(uint64(i*i*4096) % 1_000_003)
		s.Procs = []rt.ProcessReading{{PID: 7, Comm: "alice.x"}}
		s.Mounts = []rt.MountReading{{MountPoint: "/home/alice"}}
		s.RemoteFS = []rt.RemoteFSReading{{Kind: "nfs4", Source: "srv:/alice", MountPoint: "/alice"}}
		if err := w.Put(&s); err != nil {
			t.Fatal(err)
		}
	}
	w.Event(rt.Event{Kind: "job", Name: "alice", Status: "late", Detail: "/home/alice/x"})
	run.Outcome = rt.OutcomeFinished
	if err := errors.Join(w.Record(rt.ForeignReport{Time: 1e9, Source: "alice", Body: []byte(`{"target":"/alice"}`)}), w.End(run)); err != nil {
		t.Fatal(err)
	}
	return open(t, w.Path())
}

func open(t testing.TB, path string) *spool.Reader {
	t.Helper()
	r, err := spool.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() }) // it is only read
	return r
}

func written(t testing.TB, r *spool.Reader, opts *spool.DumpOptions) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := Write(t.Context(), &out, r, opts); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// plain decompresses a record without the package.
func plain(t testing.TB, record []byte) []byte {
	t.Helper()
	z, err := zstd.NewReader(bytes.NewReader(record))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func read(t testing.TB, record []byte) *spool.Reader {
	t.Helper()
	path, err := Read(t.TempDir(), nil, bytes.NewReader(record))
	if err != nil {
		t.Fatal(err)
	}
	return open(t, path)
}

// A record is a zstd file. The run that is made of it has the same record.
func TestRoundTrip(t *testing.T) {
	r := stored(t)
	record := written(t, r, nil)
	back := read(t, record)
	if !bytes.Equal(written(t, back, nil), record) {
		t.Error("the record of the new run differs")
	}
	if !reflect.DeepEqual(back.Run(), r.Run()) || !reflect.DeepEqual(back.Host(), r.Host()) {
		t.Errorf("%+v, %+v, want %+v, %+v", back.Run(), back.Host(), r.Run(), r.Host())
	}
	if got := plain(t, record); !bytes.HasPrefix(got, []byte("rt record 2\n")) || len(got) < 2*len(record) {
		t.Errorf("%d bytes are %d bytes decompressed, which begin with %.20q", len(record), len(got), got)
	}
}

// A record is read to its end: whatever is wrong with its last bytes is found.
func TestCheck(t *testing.T) {
	r := stored(t)
	record := written(t, r, nil)
	run, err := Check(bytes.NewReader(record))
	if err != nil || !reflect.DeepEqual(run, r.Run()) {
		t.Errorf("%+v, %v, want %+v", run, err, r.Run())
	}
	flipped := bytes.Clone(record)
	flipped[len(flipped)-20] ^= 1
	damaged := map[string][]byte{
		"empty": nil, "no record": []byte("PK\x03\x04"), "cut": record[:20], "zeros": make([]byte, 1000),
		"cut at its end": record[:len(record)-1], "a bit in its last frame": flipped, "more after its end": append(bytes.Clone(record), record...),
	}
	for cut := 1; cut < len(record); cut += len(record) / 20 {
		damaged[fmt.Sprintf("cut after %d bytes", cut)] = record[:cut]
	}
	for name, data := range damaged {
		if _, err := Check(bytes.NewReader(data)); !errors.Is(err, spool.ErrRecord) {
			t.Errorf("%s: %v", name, err)
		}
	}
	failed := errors.New("the disk has failed")
	if _, err := Check(io.MultiReader(bytes.NewReader(record[:len(record)/2]), iotest.ErrReader(failed))); !errors.Is(err, failed) || errors.Is(err, spool.ErrRecord) {
		t.Errorf("an error of the reader: %v", err)
	}
}

// A record does not make the receiver decompress without an end.
func TestCheckOfARecordThatInflates(t *testing.T) {
	z, err := zstd.NewWriter(nil, zstd.WithWindowSize(window))
	if err != nil {
		t.Fatal(err)
	}
	data := plain(t, written(t, stored(t), nil))
	data = data[:len(data)-1] // the end
	// The rows of the last table are there again and again.
	packed := z.EncodeAll(data, nil)
	many := z.EncodeAll(lastFrame(t, data, 1<<20), nil)
	for range 100 {
		packed = append(packed, many...)
	}
	_, err = Check(bytes.NewReader(packed))
	if !errors.Is(err, spool.ErrRecord) || !strings.Contains(err.Error(), "inflates") {
		t.Errorf("%d bytes: %v", len(packed), err)
	}
}

// lastFrame returns the last frame of a record without its end, again and again, up to a size.
func lastFrame(t *testing.T, data []byte, size int) (out []byte) {
	t.Helper()
	rest := data[bytes.IndexByte(data, '\n')+1:]
	var frame []byte
	for len(rest) > 0 {
		length, n := binary.Uvarint(rest)
		end := n + int(length) + 4
		frame, rest = rest[:end], rest[end:]
	}
	for len(out) < size {
		out = append(out, frame...)
	}
	return out
}

// The options reach every text of a record, and none of them reaches the run itself.
func TestOptions(t *testing.T) {
	r := stored(t)
	before := written(t, r, nil)
	hide := func(text string) string { return strings.ReplaceAll(text, "alice", "u-77") }
	seen := map[string]bool{}
	record := written(t, r, &spool.DumpOptions{
		Run: func(run *rt.Run) {
			run.User, run.WorkDir, run.Comment, run.Meta.JobName = hide(run.User), "", hide(run.Comment), hide(run.Meta.JobName)
			run.UID, run.Meta.Tags, run.Command = rt.None[uint64](), nil, nil
		},
		Host:  func(h *rt.Host) { h.HostName = hide(h.HostName) },
		Event: func(e *rt.Event) { e.Name, e.Detail = hide(e.Name), hide(e.Detail) },
		Record: func(r *rt.ForeignReport) bool {
			r.Source, r.Body = hide(r.Source), []byte(hide(string(r.Body)))
			return true
		},
		Text: func(table, column, text string) string {
			seen[table+"."+column] = true
			return hide(text)
		},
	})
	for _, name := range []string{"process.comm", "mount.mount_point", "remote_fs.source", "remote_fs.mount_point"} {
		if !seen[name] {
			t.Errorf("the texts of %s are not altered", name)
		}
	}
	for _, name := range []string{"run.user", "host.host_name", "event.name", "event.detail", "record.source", "record.body"} {
		if seen[name] {
			t.Errorf("%s is altered twice", name)
		}
	}
	if bytes.Contains(plain(t, record), []byte("alice")) || !bytes.Contains(plain(t, before), []byte("alice")) {
		t.Error("the record names alice")
	}
	back := read(t, record)
	want := r.Run()
	want.User, want.WorkDir, want.Comment, want.Meta.JobName = "u-77", "", "of u-77", "u-77-1"
	want.UID, want.Meta.Tags, want.Command = rt.None[uint64](), nil, nil
	if !reflect.DeepEqual(back.Run(), want) || back.Host().HostName != "u-77-pc" {
		t.Errorf("%+v, %+v, want %+v", back.Run(), back.Host(), want)
	}
	if problems := back.Verify(t.Context()); len(problems) > 0 {
		t.Errorf("verify: %v", problems)
	}
	nothing := &spool.DumpOptions{
		Run: func(*rt.Run) {}, Host: func(*rt.Host) {}, Event: func(*rt.Event) {},
		Record: func(*rt.ForeignReport) bool { return true }, Text: func(_, _, text string) string { return text },
	}
	if !bytes.Equal(written(t, r, nothing), before) {
		t.Error("options that change nothing change the record")
	}
	without := read(t, written(t, r, &spool.DumpOptions{Record: func(*rt.ForeignReport) bool { return false }}))
	for rec, err := range without.Records(t.Context(), "") {
		t.Errorf("the record still has the report %q, %v", rec.Body, err)
	}
}

// isIgnored reports whether a change is in a bit that zstd does not read: then the content is the same.
func isIgnored(record, changed []byte) bool {
	content := func(packed []byte) ([]byte, error) {
		z, err := zstd.NewReader(bytes.NewReader(packed))
		if err != nil {
			return nil, err
		}
		defer z.Close()
		return io.ReadAll(z)
	}
	want, err := content(record)
	if err != nil {
		return false
	}
	got, err := content(changed)
	return err == nil && bytes.Equal(got, want)
}

// While one record is read from its spool file, others are written.
func TestRecordsDoNotWait(t *testing.T) {
	a, b := stored(t), stored(t)
	want := written(t, b, nil)
	var inner []byte
	outer := written(t, a, &spool.DumpOptions{Run: func(*rt.Run) { inner = written(t, b, nil) }})
	if !bytes.Equal(inner, want) || !bytes.Equal(outer, written(t, a, nil)) {
		t.Error("records that are written at the same time differ from others")
	}
}

// A record of several blocks is read back. Its blocks are compressed one by one.
func TestRecordOfSeveralBlocks(t *testing.T) {
	noise := rand.NewChaCha8([32]byte{})
	text := make([]byte, 5<<19)
	_, _ = noise.Read(text)
	dir := t.TempDir()
	run := rt.Run{Identity: rt.Identity{Node: "n1", Start: time.UnixMilli(1772352000123).UTC()}, Ending: rt.Ending{State: rt.StateRunning}}
	w, err := spool.Create(dir, run, rt.Host{}, spool.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for ; err == nil && len(text) > 0; text = text[1<<19:] {
		err = w.Record(rt.ForeignReport{Time: int64(len(text)) * 1000, Source: "x", Body: []byte(hex.EncodeToString(text[:1<<19]))})
	}
	if err = errors.Join(err, w.End(run)); err != nil {
		t.Fatal(err)
	}
	r := open(t, w.Path())
	record := written(t, r, nil)
	if back := read(t, record); len(record) < 2*window || !bytes.Equal(written(t, back, nil), record) {
		t.Errorf("the record of the new run differs, of %d bytes", len(record))
	}
}

// A record that is cut or changed anywhere makes no run, and the error says so. An error of the reader
// is not one of the record.
func TestDamage(t *testing.T) {
	record := written(t, stored(t), nil)
	dir := t.TempDir()
	check := func(what string, r io.Reader, want error) {
		t.Helper()
		path, err := Read(dir, nil, r)
		if !errors.Is(err, want) || errors.Is(err, spool.ErrRecord) != (want == spool.ErrRecord) {
			t.Errorf("%s: %q, %v", what, path, err)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
			t.Fatalf("%s: %v, %v", what, entries, err)
		}
	}
	for n := 0; n < len(record); n += 1 + len(record)/60 {
		check(fmt.Sprint("cut at ", n), bytes.NewReader(record[:n]), spool.ErrRecord)
		changed := bytes.Clone(record)
		changed[n] ^= 0x10
		if isIgnored(record, changed) {
			continue
		}
		check(fmt.Sprint("changed at ", n), bytes.NewReader(changed), spool.ErrRecord)
		for _, damaged := range [][]byte{record[:n], changed} {
			if _, err := Check(bytes.NewReader(damaged)); !errors.Is(err, spool.ErrRecord) {
				t.Errorf("Check of a record that is damaged at %d: %v", n, err)
			}
		}
	}
	check("cut at the end", bytes.NewReader(record[:len(record)-1]), spool.ErrRecord)
	check("with another byte", bytes.NewReader(append(bytes.Clone(record), 0)), spool.ErrRecord)
	check("twice", bytes.NewReader(append(bytes.Clone(record), record...)), spool.ErrRecord)
	failed := errors.New("connection reset")
	for _, n := range []int64{0, 3, int64(len(record) / 2), int64(len(record) - 1)} {
		check(fmt.Sprintf("a reader that fails after %d bytes", n), io.MultiReader(io.LimitReader(bytes.NewReader(record), n), iotest.ErrReader(failed)), failed)
	}
}

// A file that asks for more memory than a record needs is refused.
func TestMemory(t *testing.T) {
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out, zstd.WithWindowSize(2*window))
	if err != nil {
		t.Fatal(err)
	}
	_, err = z.Write(make([]byte, 5*window))
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	_, err = Read(t.TempDir(), nil, &out)
	if isTooLarge := strings.Contains(fmt.Sprint(err), zstd.ErrWindowSizeExceeded.Error()); !errors.Is(err, spool.ErrRecord) || !isTooLarge {
		t.Error(err)
	}
}

// Any bytes make a run that can be read, or none.
func FuzzRead(f *testing.F) {
	record := written(f, stored(f), nil)
	f.Add(record, false)
	f.Add(plain(f, record), true)
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte, compress bool) {
		if compress {
			z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
			if err != nil {
				t.Fatal(err)
			}
			data = z.EncodeAll(data, nil)
		}
		checked, checkErr := Check(bytes.NewReader(data))
		path, err := Read(dir, &spool.ImportLimits{Runs: 1, Bytes: 8 << 20}, bytes.NewReader(data))
		if err != nil {
			return
		}
		back, err := spool.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if checkErr != nil || !reflect.DeepEqual(checked, back.Run()) {
			t.Errorf("%+v, %v, but %+v", checked, checkErr, back.Run())
		}
		if err := back.Remove(); err != nil {
			t.Fatal(err)
		}
	})
}

// A record of before the first release is not damaged.
func TestRecordOfBeforeTheFirstRelease(t *testing.T) {
	record, err := os.ReadFile("testdata/before-0.2.0.rtrec")
	if err != nil {
		t.Fatal(err)
	}
	_, checked := Check(bytes.NewReader(record))
	_, read := Read(t.TempDir(), nil, bytes.NewReader(record))
	for _, err := range []error{checked, read} {
		isDamaged := errors.Is(err, spool.ErrRecord) || strings.Contains(fmt.Sprint(err), "damaged")
		if !errors.Is(err, spool.ErrOld) || isDamaged || !strings.Contains(err.Error(), "before the first release, 0.2.0") {
			t.Error(err)
		}
	}
}
