package site

import "errors"

// ErrNoReport means that a report cannot be made; the text after it says why.
var ErrNoReport = errors.New("there is no report")

// MaxReportRuns is the maximum number of runs of a report.
const MaxReportRuns = 300

// The forms of a report.
const (
	FormHTML = "html"
	FormPart = "part" // the same as a part of another page
	FormJSON = "json" // an array with a summary of each run
	FormJobs = "jobs" // an array of the jobs, as rt-job --json JOB prints them
)

// Report is a request for the report of a job.
type Report struct {
	Form    string      // one of the forms
	Name    string      // of the job, as the reader wrote it
	Reader  string      // Reader.Name
	Runs    []StoredRun // with their records
	Earlier []StoredRun // of the same user and the same name, for the advice
}

// Link is a link of a page.
type Link struct{ Text, URL string }
