package drain

import (
	"cmp"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/upload"
	"github.com/resource-tracker/rt/upload/sentinel"
)

// Preview is what a drain would send of a run in addition to its figures.
type Preview struct {
	Registration any     `json:"registration,omitempty"` // the body of the request, which is sent once
	Run          *rt.Run `json:"run,omitempty"`          // as in the complete record
	Error        string  `json:"error,omitempty"`
}

// Preview returns what a drain would send of a run, or nil if the file is not readable. It changes
// nothing. For the dialect "auto" the registration is the first attempt's.
func (dir *Directory) Preview(e *spool.Entry, dialect string) *Preview {
	if e.Err != nil {
		return nil
	}
	r, err := spool.Open(e.Path)
	if err != nil {
		return &Preview{Error: err.Error()}
	}
	defer r.Close() // nothing was written
	if dialect == "auto" {
		dialect = ""
	}
	run := spooled{r, r.Delivery(), &dir.Privacy}.Run()
	return &Preview{Registration: sentinel.Registration(cmp.Or(dialect, upload.DialectSpec), run, r.Host()), Run: &run}
}
