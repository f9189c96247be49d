package runs

import (
	"cmp"
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
	t := table.Table{Columns: []table.Column{{Head: "ACTION"}, {Head: "RECORD"}}}
	for i := range list {
		t.Rows = append(t.Rows, []string{list[i].Action, cmp.Or(list[i].Record, "-")})
	}
	for _, c := range listColumns {
		if !slices.Contains(planColumns, c.Head) {
			continue
		}
		t.Columns = append(t.Columns, c.Column)
		for i := range list {
			t.Rows[i] = append(t.Rows[i], c.of(&list[i].Listed))
		}
	}
	if _, err := t.Write(w, 0); err != nil {
		return err
	}
	for i := range list {
		if err := printUnreadable(w, &list[i].Listed); err != nil {
			return err
		}
	}
	return nil
}
