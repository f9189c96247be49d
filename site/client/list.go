package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/resource-tracker/rt"
)

// Query selects jobs. An empty field selects all.
type Query struct {
	Cluster                     string
	JobID                       rt.Opt[uint64] // a job, all tasks of an array, or all components of a heterogeneous job
	Users, Accounts, Partitions []string       // any of them
	Name                        string         // a part of the job's name, in upper or lower case
	Since, Until                time.Time      // the job was running at some time in this interval
}

// ListedJob is a job over all of its nodes and attempts. Empty and absent fields are not known.
type ListedJob struct {
	Cluster      string         `json:"cluster"`
	JobID        rt.Opt[uint64] `json:"job_id"`
	ArrayJobID   rt.Opt[uint64] `json:"array_job_id"`
	ArrayTaskID  rt.Opt[uint64] `json:"array_task_id"`
	HetJobID     rt.Opt[uint64] `json:"het_job_id"`
	HetJobOffset rt.Opt[uint64] `json:"het_job_offset"`
	User         string         `json:"user"`
	Account      string         `json:"account"`
	Partition    string         `json:"partition"`
	JobName      string         `json:"job_name"`
	Generation   int64          `json:"generation"` // numbers the jobs with the same id, the oldest first
	Runs         []ListedRun    `json:"runs"`
	// Live has the figures so far of runs that are not delivered yet, see report.RunFigures. Such a run can be in Runs
	// too.
	Live []json.RawMessage `json:"live"`
}

// ListedRun is one attempt of a job on one node.
type ListedRun struct {
	ID           string          `json:"run_id"`
	Node         string          `json:"node"`
	Step         string          `json:"step"`
	Attempt      rt.Opt[uint64]  `json:"attempt"`
	FromUser     bool            `json:"from_user"` // registered with the token of its user, and not by a node
	State        rt.State        `json:"state"`
	Outcome      rt.Outcome      `json:"outcome"`
	Start        time.Time       `json:"start"`
	End          time.Time       `json:"end"`
	HasRecord    bool            `json:"has_record"`
	RecordSHA256 string          `json:"record_sha256"` // of the record at the time of the list
	Summary      json.RawMessage `json:"summary"`       // figures of the run, see report.DeliveredFigures; null: none
}

// jobsPerPage is the number of jobs that a page may have.
const jobsPerPage = 1000 // the most that the service takes

// most values of a list and bytes of a text that the service takes.
const (
	mostValues = 16
	mostText   = 200
)

// Jobs returns the jobs of a query, the newest first. A value that the service does not take is left
// out of the query: the caller compares the jobs with it. The sequence ends with the first error.
func (c *Client) Jobs(ctx context.Context, q Query) iter.Seq2[*ListedJob, error] {
	return func(yield func(*ListedJob, error) bool) {
		err := c.jobs(ctx, q.values(), yield)
		if err != nil && !errors.Is(err, errStop) {
			yield(nil, err)
		}
	}
}

// errStop means that the caller wants no more jobs.
var errStop = errors.New("stop")

func (q *Query) values() url.Values {
	v := url.Values{"limit": {strconv.Itoa(jobsPerPage)}}
	for _, one := range [...]struct {
		name   string
		values []string
	}{{"cluster", []string{q.Cluster}}, {"job_name", []string{q.Name}}, {"user", q.Users}, {"account", q.Accounts}, {"partition", q.Partitions}} {
		if fits(one.values) {
			v[one.name] = one.values
		}
	}
	if id, ok := q.JobID.Get(); ok {
		v.Set("job_id", strconv.FormatUint(id, 10))
	}
	for name, t := range map[string]time.Time{"since": q.Since, "until": q.Until} {
		if !t.IsZero() {
			v.Set(name, t.UTC().Format(time.RFC3339))
		}
	}
	return v
}

// SelectsUsers reports whether the service selects the jobs by their users.
func (q *Query) SelectsUsers() bool { return fits(q.Users) }

func fits(values []string) bool {
	for _, text := range values {
		if text == "" || len(text) > mostText {
			return false
		}
	}
	return len(values) > 0 && len(values) <= mostValues
}

func (c *Client) jobs(ctx context.Context, query url.Values, yield func(*ListedJob, error) bool) error {
	runs, empty := 0, 0
	for {
		before, cursor := runs, ""
		err := c.get(ctx, "/v1/jobs", query, func(resp *http.Response) (err error) {
			cursor, err = readPage(bounded(resp.Body, c.limits.page), func(j *ListedJob) error {
				runs += max(len(j.Runs), 1)
				if runs > c.limits.runs {
					return fmt.Errorf("%w: the list has more than %d runs; --since, --user or --account make it shorter", ErrAnswer, c.limits.runs)
				}
				if !yield(j, nil) {
					return errStop
				}
				return nil
			})
			return err
		})
		if err != nil || cursor == "" {
			return err
		}
		empty++
		if runs > before {
			empty = 0
		}
		isEndless := empty > c.limits.emptyPages || cursor == query.Get("cursor")
		if isEndless {
			return fmt.Errorf("ask the site %s: %w: its list does not end", c.base, ErrAnswer)
		}
		query.Set("cursor", cursor)
	}
}

// readPage passes the jobs of a page to each, one after the other: a page can be larger than what is
// kept of it. It returns the cursor of the next page, empty for none.
func readPage(r *boundedReader, each func(*ListedJob) error) (next string, err error) {
	dec := json.NewDecoder(r)
	hasJobs := false
	err = members(dec, func(name string) error {
		switch name {
		case "jobs":
			hasJobs = true
			return elements(dec, func() error {
				j := new(ListedJob)
				if err := dec.Decode(j); err != nil {
					return err
				}
				r.left = r.limit // a page of wide jobs may be large; its runs are counted
				return each(j)
			})
		case "next":
			return dec.Decode(&next)
		}
		return dec.Decode(new(json.RawMessage))
	})
	if err == nil && !hasJobs {
		err = errors.New("it has no list of jobs")
	}
	isOther := errors.Is(err, errStop) || errors.Is(err, ErrAnswer) || errors.Is(err, ErrUnreachable)
	if err != nil && !isOther {
		err = fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	return next, err
}

// members calls value for each member of a JSON object; value reads it.
func members(dec *json.Decoder, value func(name string) error) error {
	if err := delimiter(dec, '{'); err != nil {
		return err
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return err
		}
		text, _ := name.(string)
		if err := value(text); err != nil {
			return err
		}
	}
	return delimiter(dec, '}')
}

// elements calls value for each element of a JSON array; value reads it.
func elements(dec *json.Decoder, value func() error) error {
	if err := delimiter(dec, '['); err != nil {
		return err
	}
	for dec.More() {
		if err := value(); err != nil {
			return err
		}
	}
	return delimiter(dec, ']')
}

func delimiter(dec *json.Decoder, want json.Delim) error {
	token, err := dec.Token()
	if err == nil && token != want {
		err = fmt.Errorf("it has %.20v where %v belongs", token, want)
	}
	return err
}
