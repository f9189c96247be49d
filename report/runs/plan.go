package runs

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/resource-tracker/rt/internal/table"
)

// Planned is a file with what a drain would do with it.
type Planned struct {
	Action string `json:"action"`           // "deliver", "close and deliver", "upload", "remove", "leave"
	Record string `json:"record,omitempty"` // whether its record is sent: "yes", "no", "if taken"
	Listed
}

// planColumns are the columns of a list that are shown with an action.
var planColumns = []string{"JOB", "NODE", "STARTED", "READINGS", "UNSENT", "KIB"}

// PrintPlan prints a table of what a drain would do, and the errors of files.
func PrintPlan(w io.Writer, list []Planned) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, "nothing to deliver")
		return err
	}
	columns := []table.Column[Planned]{
		{Head: "ACTION", Cell: func(p *Planned) string { return p.Action }},
		{Head: "RECORD", Cell: func(p *Planned) string { return cmp.Or(p.Record, "-") }},
	}
	for _, c := range listColumns {
		if slices.Contains(planColumns, c.Head) {
			cell := cellOf(c)
			columns = append(columns, table.Column[Planned]{Head: c.Head, Cell: func(p *Planned) string { return cell(&p.Listed) }})
		}
	}
	_, err := table.Write(w, columns, list, 0)
	for i := range list {
		err = errors.Join(err, printUnreadable(w, &list[i].Listed))
	}
	return err
}
