package ftdc

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/resource-tracker/rt"
)

// FTDC has numbers only. A text is in the name of a metric, which one datum has:
//
//	run_info.job_name=md             of the run
//	host_info.cpu_model=...          of the host
//	gpu_info.GPU-1.name=NVIDIA H100  of a device, when it appears or changes
//	ledger.0003.gap/late/readings=5 readings before ...
//
// The value is 1; for a line of the ledger it is the seconds after the first reading.
const infoSuffix = "_info."

// info returns the name of the metric of a text.
func info(kind, name, text string) string {
	return strings.ToValidUTF8(kind+infoSuffix+name+"="+text, "?")
}

// eachRunText calls yield with each text of the run, but no arguments: they may be secret.
func eachRunText(run *rt.Run, yield func(name, text string)) {
	eachText(runOf(run).texts, yield)
	if len(run.Command) > 0 {
		yield("command", filepath.Base(run.Command[0]))
	}
}

// setRunText is the reverse of eachRunText.
func setRunText(run *rt.Run, name, text string) {
	if name == "command" {
		run.Command = []string{text}
		return
	}
	setText(runOf(run).texts, name, text)
}

// maxLedger bounds the lines of the ledger in a file: of more lines it has the first and the last.
const maxLedger = 4096

// ledgerName returns the name of the metric of line n of the ledger.
func ledgerName(n int, e *rt.Event) string {
	return strings.ToValidUTF8(fmt.Sprintf("ledger.%04d.%s/%s/%s=%s", n, e.Kind, e.Status, e.Name, e.Detail), "?")
}

// ledgerEvent is the reverse of ledgerName.
func ledgerEvent(name string) (e rt.Event, ok bool) {
	rest, ok := strings.CutPrefix(name, "ledger.")
	_, rest, dot := strings.Cut(rest, ".")
	head, detail, equal := strings.Cut(rest, "=")
	words := strings.SplitN(head, "/", 3)
	if !ok || !dot || !equal || len(words) != 3 {
		return rt.Event{}, false
	}
	return rt.Event{Kind: words[0], Status: words[1], Name: words[2], Detail: detail}, true
}

// ofTheFile reports whether a line of the ledger is about the import of the run.
func ofTheFile(e rt.Event) bool { return e.Kind == "tracker" && e.Name == "import" }

// IsText reports whether the name of a metric is its content: a text or a line of the ledger.
func IsText(name string) bool {
	kind, text, ok := strings.Cut(name, "=")
	_, ledger := ledgerEvent(name)
	isInfo := ok && text != "" && strings.Contains(kind, infoSuffix)
	return isInfo || ledger
}
