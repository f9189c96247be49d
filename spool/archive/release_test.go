package archive

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/resource-tracker/rt/spool"
)

// rewrite makes the record of the first release again. After that release it stays as it is.
var rewrite = flag.Bool("release", false, "write testdata/0.2.0.rtrec again")

// The record of the first release can be read, as a file and in memory, with all snapshots.
func TestRecordOfTheFirstRelease(t *testing.T) {
	const kept = "testdata/0.2.0.rtrec"
	data, err := os.ReadFile("../testdata/0.2.0/job.db")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "job.db")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	source := open(t, path)
	if *rewrite {
		var out bytes.Buffer
		if err := errors.Join(Write(t.Context(), &out, source, nil), os.WriteFile(kept, out.Bytes(), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	record, err := os.ReadFile(kept)
	if err != nil {
		t.Fatal(err)
	}
	run, err := Check(bytes.NewReader(record))
	if err != nil || run.JobID != source.Run().JobID || run.Account != "physics" {
		t.Errorf("%+v, %v", run, err)
	}
	read, err := Read(t.TempDir(), nil, bytes.NewReader(record))
	if err != nil {
		t.Fatal(err)
	}
	back := open(t, read)
	var want, got bytes.Buffer
	if err := errors.Join(spool.Dump(t.Context(), &want, source, nil), spool.Dump(t.Context(), &got, back, nil)); err != nil || !bytes.Equal(want.Bytes(), got.Bytes()) {
		t.Errorf("the run that is made of the record differs, %v", err)
	}
}
