package site

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"

	"github.com/resource-tracker/rt"
)

// MaxRecordRun limits the run in a record, in bytes of JSON. It is read with each list that has the run.
const MaxRecordRun = 64 << 10

// MaxID is the largest id of a job that the registry stores: its cursors have 18 digits.
const MaxID = 999_999_999_999_999_999

// nameOfStep matches the name of a step: a number, "batch" or another word of Slurm. It is a part of the names that
// users and their shells see.
var nameOfStep = regexp.MustCompile(`^[0-9A-Za-z_.+-]{0,64}$`)

// CheckRecordNumbers returns why the registry has no place for a number of the run of a record, or nil.
func CheckRecordNumbers(run *rt.Run) error {
	for _, id := range []struct {
		name   string
		number uint64
	}{{"job id", run.JobID.Or(0)}, {"id of the job array", run.ArrayJobID.Or(0)}, {"id of the heterogeneous job", run.HetJobID.Or(0)}} {
		if id.number > MaxID {
			return fmt.Errorf("the record's %s %d is larger than %d", id.name, id.number, MaxID)
		}
	}
	if run.Attempt > math.MaxInt64 {
		return fmt.Errorf("the record's attempt %d is larger than %d", run.Attempt, math.MaxInt64)
	}
	return nil
}

// CheckRecordRun returns why the registry cannot store the run of a record, or nil. It writes the run as JSON and
// reads it again.
func CheckRecordRun(run *rt.Run) error {
	if err := CheckRecordNumbers(run); err != nil {
		return err
	}
	if !nameOfStep.MatchString(run.Step) {
		return fmt.Errorf("the record's step %.64q is not at most 64 letters, digits, \".\", \"_\", \"+\" and \"-\"", run.Step)
	}
	text, err := json.Marshal(run)
	if err != nil {
		return fmt.Errorf("the run of the record is no JSON: %w", err)
	}
	if len(text) > MaxRecordRun {
		return fmt.Errorf("the run of the record has %d bytes of JSON, more than %d", len(text), MaxRecordRun)
	}
	if err := json.Unmarshal(text, new(rt.Run)); err != nil {
		return fmt.Errorf("the run of the record cannot be read again: %w", err)
	}
	return nil
}
