package testsite

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/registry"
)

// The content of each stored run.
const (
	CSV     = "timestamp,cpu_usage\n1,0.5\n2,0.25\n"
	Record  = "the record of run "
	Summary = `{"cpu_secs":3600.5,"note":"<ä>"}`
)

// Fill stores runs in the registry of a directory, as nodes have delivered them, and returns their ids. The first
// user has job 1 on two nodes, in account physics. The second one has job 2, a task of array 20 in account physics,
// with inline data. The third one has job 3 in account chemistry, which is running. The last run has no record and
// nothing is known about it. Node n1 has reported its state.
func Fill(ctx context.Context, dir string, users [3]string) (ids []string, err error) {
	r, err := registry.Open(ctx, dir+"/registry.db", registry.Config{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	start := time.Date(2026, 3, 1, 12, 0, 0, 250_000_000, time.UTC)
	node := site.NodeState{Cluster: "alps", Node: "n1", Time: start, Version: "0.1.0", UndeliveredRuns: rt.Some[int64](0), LastSuccess: rt.Some(start)}
	if err := r.Nodes.Put(ctx, "owner", node, time.Now()); err != nil {
		return nil, err
	}
	for n := range 5 {
		run := site.StoredRun{ID: fmt.Sprintf("20260301t12000%d-%s", n, strings.Repeat(string(rune('a'+n)), 26)), Owner: "owner", Created: start, Metadata: []byte(`{"job_name":"train"}`)}
		ids = append(ids, run.ID)
		if err := r.Runs.Create(ctx, run); err != nil {
			return nil, err
		}
		if n == 4 {
			break
		}
		job := max(n, 1)
		record := rt.Run{
			Identity:   rt.Identity{Cluster: "alps", JobID: rt.Some(uint64(job)), Node: fmt.Sprint("n", n+1), Start: start.Add(time.Duration(job) * time.Hour)},
			Allocation: rt.Allocation{User: users[job-1], Account: "physics", Partition: "batch"},
			Meta:       rt.Metadata{JobName: "train"},
			Ending:     rt.Ending{State: rt.StateEnded, Outcome: rt.OutcomeFinished, End: start.Add(5 * time.Hour)},
		}
		switch job {
		case 2:
			record.ArrayJobID, record.ArrayTaskID, record.Outcome = rt.Some[uint64](20), rt.Some[uint64](7), rt.OutcomeOOM
		case 3:
			record.Account, record.Partition, record.Ending = "chemistry", "debug", rt.Ending{State: rt.StateRunning}
		}
		if err := fillRun(ctx, r, run.ID, record, n); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

func fillRun(ctx context.Context, r *registry.Registry, id string, record rt.Run, n int) error {
	put := func(name string, class site.Class, body []byte, rows int64, record *rt.Run) (site.Object, error) {
		sum := sha256.Sum256(body)
		header := int64(strings.Index(CSV, "\n") + 1)
		o := site.Object{RunID: id, Name: name, Class: class, Bytes: int64(len(body)), SHA256: hex.EncodeToString(sum[:]), Rows: rows}
		if rows > 0 {
			o.Text, o.Header = int64(len(CSV)), header
		}
		if class == site.ClassInline {
			return o, nil
		}
		_, err := r.Runs.PutObject(ctx, o, body, record)
		return o, err
	}
	if _, err := put(site.RecordName, site.ClassRecord, fmt.Append(nil, Record, n), 0, &record); err != nil {
		return err
	}
	var packed bytes.Buffer
	gz := gzip.NewWriter(&packed)
	_, err := gz.Write([]byte(CSV))
	if err := errors.Join(err, gz.Close()); err != nil {
		return err
	}
	if record.ArrayJobID.Valid() {
		inline, err := put(site.InlineName, site.ClassInline, packed.Bytes(), 2, nil)
		if err == nil {
			_, err = r.Runs.Finish(ctx, id, site.Finish{RunStatus: "failed", DataSource: "inline", CSVSHA256: "x"}, &inline, packed.Bytes())
		}
		return err
	}
	if _, err := put("000001.csv.gz", site.ClassCSV, packed.Bytes(), 2, nil); err != nil || record.State == rt.StateRunning {
		return err
	}
	status := int64(0)
	_, err = r.Runs.Finish(ctx, id, site.Finish{
		RunStatus: "finished", ExitCode: &status, DataSource: "s3", Keys: []string{"000001.csv.gz"}, Summary: json.RawMessage(Summary),
	}, nil, nil)
	return err
}
