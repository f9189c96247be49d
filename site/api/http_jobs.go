package api

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/registry"
)

// batchRuns is how many runs of a job are in memory at the same time. Each can have 128 KiB.
const batchRuns = 32

// jobView has the fields of a job. Those that are not known are null.
type jobView struct {
	Cluster      *string        `json:"cluster"`
	JobID        rt.Opt[uint64] `json:"job_id"`
	ArrayJobID   rt.Opt[uint64] `json:"array_job_id"`
	ArrayTaskID  rt.Opt[uint64] `json:"array_task_id"`
	HetJobID     rt.Opt[uint64] `json:"het_job_id"`
	HetJobOffset rt.Opt[uint64] `json:"het_job_offset"`
	User         *string        `json:"user"`
	Account      *string        `json:"account"`
	Partition    *string        `json:"partition"`
	JobName      *string        `json:"job_name"`
}

// endView has how a job or a run ended.
type endView struct {
	State   *string    `json:"state"`
	Outcome *string    `json:"outcome"`
	Start   *time.Time `json:"start"`
	End     *time.Time `json:"end"`
}

// jobItem is a job of GET /v1/jobs, without its runs.
type jobItem struct {
	jobView
	endView
	Generation    int64           `json:"generation"`
	SlurmState    *string         `json:"slurm_state"`
	SuspendedSecs rt.Opt[float64] `json:"suspended_secs"`
	report.Hours                  // with the runs in Live, except for the waste
	LastReading   *time.Time      `json:"last_reading"` // of Live
	// Live are the runs that nodes have reported and not delivered yet, with their figures so far.
	Live []site.LiveRun `json:"live"`
}

// runView has the fields of a run.
type runView struct {
	RunID   string  `json:"run_id"`
	Node    *string `json:"node"`
	Step    *string `json:"step"`
	Attempt *uint64 `json:"attempt"`
	// FromUser is set if the run was registered with the token of its user, and not by a node.
	FromUser bool `json:"from_user"`
	endView
	HasRecord    bool            `json:"has_record"`
	RecordBytes  *int64          `json:"record_bytes"`
	RecordSHA256 *string         `json:"record_sha256"`
	CSVRows      rt.Opt[int64]   `json:"csv_rows"`
	Summary      json.RawMessage `json:"summary"`
}

// runItem is a run with the fields of its job.
type runItem struct {
	jobView
	runView
}

// known is nil for an empty text.
func known[T ~string](text T) *string {
	if text == "" {
		return nil
	}
	s := string(text)
	return &s
}

// knownTime is nil for the zero time, and for one that JSON cannot have.
func knownTime(at time.Time) *time.Time {
	at = at.UTC()
	isOutside := at.Year() < 0 || at.Year() > 9999
	if at.IsZero() || isOutside {
		return nil
	}
	return &at
}

// cleaned is JSON that a client has sent as valid UTF-8.
func cleaned(text json.RawMessage) json.RawMessage {
	return bytes.ToValidUTF8(text, []byte("\ufffd"))
}

// viewOfJob returns the fields of a job that a run has.
func viewOfJob(r *rt.Run) jobView {
	if r == nil {
		r = &rt.Run{}
	}
	return jobView{
		Cluster: known(r.Cluster), JobID: r.JobID, ArrayJobID: r.ArrayJobID, ArrayTaskID: r.ArrayTaskID,
		HetJobID: r.HetJobID, HetJobOffset: r.HetJobOffset, User: known(r.User), Account: known(r.Account),
		Partition: known(r.Partition), JobName: known(r.Meta.JobName),
	}
}

// completed returns the fields of a job, with those that another run of it has.
func (v jobView) completed(from jobView) jobView {
	return jobView{
		Cluster: cmp.Or(v.Cluster, from.Cluster), JobID: cmp.Or(v.JobID, from.JobID),
		ArrayJobID: cmp.Or(v.ArrayJobID, from.ArrayJobID), ArrayTaskID: cmp.Or(v.ArrayTaskID, from.ArrayTaskID),
		HetJobID: cmp.Or(v.HetJobID, from.HetJobID), HetJobOffset: cmp.Or(v.HetJobOffset, from.HetJobOffset),
		User: cmp.Or(v.User, from.User), Account: cmp.Or(v.Account, from.Account),
		Partition: cmp.Or(v.Partition, from.Partition), JobName: cmp.Or(v.JobName, from.JobName),
	}
}

// viewOfRun returns the fields of a run.
func viewOfRun(r site.StoredRun) runView {
	v := runView{RunID: r.ID, FromUser: site.IsOwnerOfUser(r.Owner), CSVRows: r.Held.Rows, Summary: json.RawMessage("null")}
	if r.Finish != nil && !isNull(r.Finish.Summary) {
		v.Summary = cleaned(r.Finish.Summary)
	}
	if r.Held.RecordSHA256 != "" {
		v.HasRecord, v.RecordBytes, v.RecordSHA256 = true, &r.Held.RecordBytes, &r.Held.RecordSHA256
	}
	if record := r.Record; record != nil {
		v.Node, v.Step, v.Attempt = known(record.Node), known(record.Step), &record.Attempt
		v.endView = endView{known(record.State), known(record.Outcome), knownTime(record.Start), knownTime(record.End)}
	} else {
		state := rt.StateRunning
		if r.Finish != nil {
			state = rt.StateEnded
		}
		v.State = known(state)
	}
	return v
}

// readJobs answers GET /v1/jobs.
func (s *readers) readJobs(w http.ResponseWriter, r *http.Request, q reading, _ string) error {
	return s.writeList(w, r, q, "jobs", (*listWriter).job)
}

// readRuns answers GET /v1/runs: the runs of the jobs of GET /v1/jobs.
func (s *readers) readRuns(w http.ResponseWriter, r *http.Request, q reading, _ string) error {
	return s.writeList(w, r, q, "runs", (*listWriter).runs)
}

// writeList writes a page of jobs. After the first byte an error ends the connection, so that the client
// sees that the answer is incomplete.
func (s *readers) writeList(w http.ResponseWriter, r *http.Request, q reading, name string, write func(*listWriter, site.JobRow) error) error {
	list, err := parseQuery(r, listParameters)
	if err != nil {
		return err
	}
	list.filter.Access = q.access
	if list.cursor != "" {
		list.filter.Sort = registry.SortOf(list.cursor)
	}
	jobs, next, err := s.conf.Registry.Jobs.List(q.ctx, list.filter, list.cursor, list.limit)
	if err != nil {
		return err
	}
	l := s.beginList(w, q, name)
	for _, job := range jobs {
		if list.filter.JobID.Valid() { // someone asks for this job
			if err := s.conf.Registry.Live.Want(q.ctx, job, time.Now()); err != nil {
				s.problems.problemOf(err) // reports it
			}
		}
		if err := write(l, job); err != nil {
			s.problems.abort(err)
		}
	}
	l.end(next)
	return nil
}

// abort reports an error and ends the connection.
func (s problems) abort(err error) {
	s.problemOf(err)
	panic(http.ErrAbortHandler)
}

// listWriter writes the items of a list.
type listWriter struct {
	registry *registry.Registry
	reading
	prices report.Prices
	out    *bufio.Writer
	items  int
}

// beginList begins the answer with a list.
func (s *readers) beginList(w http.ResponseWriter, q reading, name string) *listWriter {
	w.Header().Set("Content-Type", "application/json")
	l := &listWriter{registry: s.conf.Registry, reading: q, prices: s.conf.Registry.Prices(), out: bufio.NewWriterSize(w, 32<<10)}
	l.text(`{"` + name + `":[`)
	return l
}

// end ends the answer, with the cursor of the next page.
func (l *listWriter) end(next string) {
	l.endWith(`"next":"` + next + `"`) // a cursor has no character that JSON escapes
}

// endWith ends the answer, with members that follow the list.
func (l *listWriter) endWith(members string) {
	l.text("\n]," + members + "}\n")
	_ = l.out.Flush() // the client has closed the connection
}

// text writes a text. A later write has the same error.
func (l *listWriter) text(text string) { _, _ = l.out.WriteString(text) }

// item writes one item of the array, without the last characters of its JSON.
func (l *listWriter) item(v any, without int) error {
	b, err := l.encode(v)
	if err != nil {
		return err
	}
	separator := "\n"
	if l.items > 0 {
		separator = ",\n"
	}
	l.items++
	l.text(separator)
	_, err = l.out.Write(b[:len(b)-without])
	return err
}

// each calls f with the runs of a job that the reader may see, until there are no more. The first call can be
// without runs.
func (l *listWriter) each(job site.JobRow, f func(runs []site.StoredRun, isLast bool) error) error {
	for after, isLast := "", false; !isLast; {
		runs, next, err := l.registry.Visible.OfJob(l.ctx, job, l.access, after, batchRuns)
		after, isLast = next, next == ""
		if err == nil {
			err = f(runs, isLast)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// job writes a job with its runs.
func (l *listWriter) job(job site.JobRow) error {
	isBegun, comma := false, ""
	err := l.each(job, func(runs []site.StoredRun, isLast bool) error {
		isFirst := !isBegun && (len(runs) > 0 || isLast) // runs have fields that the row of the job lacks
		if isFirst {
			isBegun = true
			if err := l.item(l.viewOf(job, runs), len("}")); err != nil {
				return err
			}
			l.text(`,"runs":[`)
		}
		for _, run := range runs {
			b, err := l.encode(viewOfRun(run))
			if err != nil {
				return err
			}
			l.text(comma)
			comma = ","
			if _, err := l.out.Write(b); err != nil {
				return err
			}
		}
		return nil
	})
	l.text("]}")
	return err
}

// viewOf returns a job with the fields of its row, and those that only records have.
func (l *listWriter) viewOf(job site.JobRow, runs []site.StoredRun) jobItem {
	sum := job.Sum()
	v := jobItem{
		jobView{Cluster: known(job.Cluster), JobID: rt.Some(job.JobID), User: known(job.User), Account: known(job.Account), Partition: known(job.Partition)},
		endView{known(job.State), known(job.Outcome), knownTime(job.Start), knownTime(job.End)},
		job.Generation, known(job.SlurmState), job.SuspendedSecs, sum.Hours(l.prices), knownTime(job.LastReading()), append([]site.LiveRun{}, job.Live...),
	}
	for i := len(runs) - 1; i >= 0; i-- {
		if runs[i].Owner != job.Owner {
			continue
		}
		v.jobView = v.completed(viewOfJob(runs[i].Record))
	}
	for i := range job.Live {
		v.jobView = v.completed(viewOfJob(&job.Live[i].Summary().Run))
	}
	return v
}

// runs writes the runs of a job.
func (l *listWriter) runs(job site.JobRow) error {
	return l.each(job, func(runs []site.StoredRun, _ bool) error {
		for _, run := range runs {
			if err := l.item(runItem{viewOfJob(run.Record), viewOfRun(run)}, 0); err != nil {
				return err
			}
		}
		return nil
	})
}
