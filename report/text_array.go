package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/resource-tracker/rt"
)

// writeArrayOneLine writes an array as one line.
func writeArrayOneLine(w io.Writer, a *Array) error {
	parts := []string{a.outcomesText()}
	percent := func(label string, d *Distribution) string {
		return onlyIf(d.N > 0, fmt.Sprintf("%s median %s, max %s", label, d.Mark.Of(Number(d.P50, "%.0f %%")), d.Mark.Of(Number(d.Max, "%.0f %%"))))
	}
	parts = append(parts, onlyIf(a.Elapsed.N > 0, fmt.Sprintf("elapsed median %s, max %s", Clock(a.Elapsed.P50), Clock(a.Elapsed.Max))), percent("CPU", &a.UsedPct), percent("memory", &a.PeakPct))
	line := "Array " + a.Job + onlyIf(a.Name != "", " "+a.Name) + onlyIf(a.TaskIDs != "", ", task ids "+a.TaskIDs) + ": " + present("; ", parts...) + requests(a.Advice)
	return writeText(w, Plain(line)+"\n")
}

// writeArrayMarkdown writes an array as Markdown, for a ticket.
func writeArrayMarkdown(w io.Writer, a *Array) error {
	var b strings.Builder
	fmt.Fprintf(&b, "### Array %s%s\n\n", markdown(a.Job), onlyIf(a.Name != "", " "+markdown(a.Name)))
	b.WriteString(present(", ", markdown(a.Cluster), markdown(a.User), markdown(a.Account), markdown(a.Partition), onlyIf(a.TaskIDs != "", "task ids "+a.TaskIDs)) + "\n\n")
	fmt.Fprintf(&b, "| %s | min | 10 %% | median | 90 %% | max |\n|---|---:|---:|---:|---:|---:|\n", a.outcomesText())
	for _, row := range a.rows() {
		d := row.of
		fmt.Fprintf(&b, "| %s |", markdown(strings.TrimSpace(row.name())))
		for _, v := range [...]rt.Opt[float64]{d.Min, d.P10, d.P50, d.P90, d.Max} {
			b.WriteString(" " + row.show(v) + " |")
		}
		b.WriteString("\n")
	}
	b.WriteString("\n" + adviceList(a.Advice, a.AdviceReason))
	for i := range a.Outliers {
		o := &a.Outliers[i]
		fmt.Fprintf(&b, "- outlier %s on %s: %s\n", markdown(o.Job), markdown(o.Node), o.shown())
	}
	return writeText(w, b.String())
}
