//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"html"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "write the golden reports again")

// A rewrite replaces what differs from run to run or from machine to machine by a placeholder,
// or removes it.
type rewrite struct {
	pattern *regexp.Regexp
	with    string
}

func rewrites(pairs ...string) (list []rewrite) {
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, rewrite{regexp.MustCompile(pairs[i]), pairs[i+1]})
	}
	return list
}

// inText is for the words of a report. Limits, numbers of cores, requests and outcomes stay. What
// stays is protected from the patterns of figures by a sign in front.
var inText = rewrites(
	// Lines break where the figures before them are long, and some are there in some runs only.
	`(?m)^  [▁▂▃▄▅▆▇█ ]+  0-.*\n`, ``,
	`\n {13,}`, ` `,
	`(?m)^(Energy|GPUs|Whole node|Not ok|Not measured|  (energy|budget|fabric|lustre|nfs|most CPU|largest)) .*\n`, ``,
	`(?m)^Note +(the end of (step|task|the job's last step)|step \w+: its slurmstepd ended before its final reading).*\n`, ``,
	`; waited: CPU[^;\n]*|waited: CPU[^;\n]*; `, ``,
	`; \+ slurmstepd [^;\n]*|\+ slurmstepd [^;\n]*; `, ``,
	` \((largest process|memory grew)[^)]*\)`, ``,
	`, growing by \S+ \S+ a second`, ``,
	`(, MaxRSS \S+ \S+iB); --verbose|; --verbose`, `; --verbose`,
	// What stays.
	`(of|limit|limit of|twice) ([0-9.]+ [KMG]iB)`, `$1 ¤$2`,
	`(plus|10 % +median +90) (\d*) ?%`, `$1 ¤$2 percent`,
	` 10 % +median +90 ¤ percent`, ` ¤10 percent, median, ¤90 percent`,
	`less than (\d+ s)`, `less than ¤$1`,
	`(\d\d:\d\d:\d\d)( allocated|, \d+ core| of CPU time)`, `<time>$2`,
	`(limit of) (\S*\d\d:\d\d:\d\d)`, `$1 ¤$2`,
	`(elapsed|longest took|Time +\S+ +\S+ %|took|time well sized: it took) +(\S+( s)?) of (the limit of )?((\d+-)?\d\d:\d\d:\d\d)`, `$1 $2 of $4¤$5`,
	// The figures.
	`\[[█·]+\]`, `<bar>`,
	`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d( UTC)?`, `<date>`,
	`(^|[^¤0-9.:-])(at least )?(\d+-)?\d\d:\d\d:\d\d\b`, `$1<time>`,
	`(^|[^¤0-9.])(at least )?\d+(\.\d+)? s\b`, `$1<time>`,
	`(^|[^¤0-9.])\d+(\.\d+)? ([KMG]iB|B)\b`, `$1<size>`,
	`[+-]?\d+(\.\d+)? %`, `<percent>`,
	`page faults \d+, \d+ from disk`, `page faults <n>, <n> from disk`,
	`CPU numbers [0-9,-]+, NUMA node numbers [0-9,-]+`, `CPU numbers <n>, NUMA node numbers <n>`,
	`Processes    at least \d+(, \d+ threads)?`, `Processes    at least <n>`,
	`Readings     \d+( of \d+)?, (no gaps|\d+ gaps?)`, `Readings     <n>, <gaps>`,
	`(^|[^¤0-9.:])\d+\.\d+`, `$1<n>`,
	`(- CPU|<time> CPU), peak (-|<size>)`, `<time> CPU, peak <size>`,
	` percent\b`, ` %`, `¤ ?`, ``, ` {2,}`, `  `,
	// The tracker may get no processor in the last milliseconds of a step, of a job or before an OOM kill. Slurm's
	// processes use more or less. The marks of figures, the extern step and the last reading depend on this.
	` *>= +(<(percent|size|time)>)`, `  $1`, `(>=|\bat least )(<(percent|size|time)>)`, `$2`,
	`\bextern  <time> CPU, peak <size>( on \w+)?(; \d+ tasks?)?(, max/mean: CPU (<n>|-), memory (<n>|-))? ?`, ``,
	`, max/mean: CPU (<n>|-), memory (<n>|-)`, ``,
	`(?m)^  reading  <size>, <time> earlier\n`, ``,
)

// inPage is for the text of a page, in which each cell of a table follows a bar.
var inPage = rewrites(
	`(?s)<(script|style|footer|nav)\b.*?</(script|style|footer|nav)>`, ``,
	`(?s)<section class="table">(<details><summary>)?<h2>(Processes|Not ok|Not measured|Energy|GPUs)</h2>.*?</section>`, ``,
	`(?s)<pre>.*?</pre>`, ``, // the text, which is compared on its own
	`<(tr|div|p|li|h1|h2|section|ul|details)\b[^>]*>`, "\n",
	`<(td|th|dd)\b[^>]*>`, ` | `,
	`</b><span>|</svg><b>|</span><svg`, ` $0`,
	`<[^>]*>`, ``,
)

// inRows is for the rows of the tables: the steps and tasks are compared by name.
var inRows = rewrites(
	`(<date>|<time>) to (<date>|<time>)`, `$1`, // of several jobs, which can be the same
	`(?m)^ \| .* \| extern \|.*\n`, ``,
	`(?m)^( \| \S+ \| <date> \| \S+) \|[^|]*\|( \d+ \| [^|]*) \| .*$`, `$1 | <processes> |$2 | <last reading>`, // of OOM kills
	`(?m)^( \| \S+.* \| (?:batch|\d+) \| \d*) \| .* \| (?:(\d+)|-)$`, `$1 | <figures> | $2`,
	`(?m)<figures> \| 0?$`, `<figures>`,
	`(?m)( \| (?:<size>|at least <size>|-)){2} \| \d+ \| \d+$`, ` | <size> | <size> | <n> | <n>`,
	`(?m)^\s*\n`, ``,
)

func applied(text string, list ...[]rewrite) string {
	for _, r := range slices.Concat(list...) {
		text = r.pattern.ReplaceAllString(text, r.with)
	}
	return text
}

// steady returns the words of a report in which the job's ids are placeholders.
func (g *reports) steady(text string) string {
	for i, id := range g.ids {
		with := "<id>"
		if i > 0 {
			with = fmt.Sprintf("<id %d>", i)
		}
		text = regexp.MustCompile(`\b(Job |Array |report |lab:|job_|)`+id+`([_+]\d+)`).ReplaceAllString(text, "${1}"+with+"${2}")
		text = regexp.MustCompile(`\b(Job |job id |Array |report |lab:|job_)`+id+`\b`).ReplaceAllString(text, "${1}"+with)
	}
	text = regexp.MustCompile(`\b(uneven|wasteful|killed|bursts|timeout)-[a-c]\b`).ReplaceAllString(text, "$1") // see runCopies
	return applied(text, inText)
}

// page returns the visible text of a page.
func (g *reports) page(text string) string {
	text = strings.ReplaceAll(html.UnescapeString(applied(text, inPage)), "Array "+g.ids[0]+"_[", "Array <id>_[")
	return applied(g.steady(text), inRows)
}

// The keys of --format json: with the same numbers in each run, with values of the machine or moment, and keys that
// may be absent.
var (
	exactKeys    = regexp.MustCompile(`^(.*limit_bytes|alloc_(cpus|mem)|cores|.*oom_kills|kills|missing|nodes|tasks|task|attempt|num_nodes|expected_nodes|exit_.*|derived_exit|array_task_id|het_job_offset|runs|risk_pct|margin_pct|time_limit_secs|n|complete|earlier_attempts|finished|count|idle)$`)
	hostKeys     = regexp.MustCompile(`^(sensors|sensors_not_ok|node_context|network|pressure|series|tracker|sacct|tags|boot_id|gpus|ended|page_faults)$`)
	optionalKeys = regexp.MustCompile(`^(allowed_cpus|allowed_mems|remarks|budget|(.*_)?mark|energy|energy_share|top|biggest|biggest_age_secs)$`)
	// A task whose end was not read lacks some figures.
	mayLack = regexp.MustCompile(`^(used_secs|user_secs|system_secs|peak_bytes|anonymous_bytes|shared_bytes|file_bytes|major_faults|max_processes|max_threads|.*_imbalance|growth_bytes_per_sec|before_.*|elapsed_.*_secs)$`)
)

// document replaces the values of a JSON document. The key belongs to value.
func (g *reports) document(key string, value any) any {
	_, isList := value.([]any)
	_, isObject := value.(map[string]any)
	isNode := key == "node" && isObject // of the whole node
	switch {
	case isNode, hostKeys.MatchString(key) && !(key == "gpus" && isObject):
		return "<" + key + ">"
	case mayLack.MatchString(key) && !isList && !isObject:
		return "<number>"
	}
	switch v := value.(type) {
	case map[string]any:
		for _, k := range slices.Collect(maps.Keys(v)) {
			v[k] = g.document(k, v[k])
			_, isTask := v["ended"]
			isNoKill := isTask && k == "oom_kills" && (v[k] == nil || v[k] == 0.0)
			if isNoKill || optionalKeys.MatchString(k) {
				delete(v, k)
			}
		}
	case []any:
		v = slices.DeleteFunc(v, func(one any) bool { // Slurm's own
			step, isStep := one.(map[string]any)
			return isStep && step["step"] == "extern"
		})
		value = v
		for i := range v {
			v[i] = g.document(key, v[i])
		}
	case float64:
		if !exactKeys.MatchString(key) {
			return "<number>"
		}
	case string:
		switch {
		case key == "time", key == "start", key == "end", strings.HasPrefix(key, "last"), key == "first", key == "job_start", key == "job_end_limit":
			return "<date>"
		case key == "tracker_version":
			return "<version>"
		case key == "cgroup_path":
			return regexp.MustCompile(`uid_\d+`).ReplaceAllString(g.steady(v), "uid_<uid>")
		case key == "job":
			return strings.TrimPrefix(g.steady("Job "+v), "Job ")
		}
		return g.steady(v)
	}
	return value
}

// reports compares the reports of a job with golden files in testdata.
type reports struct {
	t    *testing.T
	s    *site
	ids  []string // of the job, its tasks and components
	args []string // before the verb
}

// compare compares the text, the JSON document and the page of a job.
func (g *reports) compare(name string) {
	g.t.Helper()
	if d := g.differences(name); d != "" {
		g.t.Error(d)
	}
}

// differences returns how the reports of a job differ from the golden file. With -update it writes the file.
func (g *reports) differences(name string) string {
	t := g.t
	t.Helper()
	got, text := g.forms(name)
	path := filepath.Join("testdata", "report-"+name+".txtar")
	if *update {
		archive := &txtar.Archive{Comment: []byte("The reports of a job on Slurm, see TestReports and TestAdviceHolds.\n")}
		for _, form := range []string{"text", "json", "page"} {
			archive.Files = append(archive.Files, txtar.File{Name: form, Data: []byte(got[form])})
		}
		if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
		return ""
	}
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all string
	for _, f := range archive.Files {
		if d := cmp.Diff(string(f.Data), got[f.Name]); d != "" {
			all += fmt.Sprintf("%s: %s differs at %q (run with -update to accept), -want +got:\n%s\nthe report:\n%s\n",
				path, f.Name, firstDifference(string(f.Data), got[f.Name]), d, text)
		}
	}
	return all
}

// firstDifference returns the first line of got that want does not have at this place. The summary of a test run shows
// only the first line of an error.
func firstDifference(want, got string) string {
	wanted := strings.Split(want, "\n")
	for i, line := range strings.Split(got, "\n") {
		if i >= len(wanted) || wanted[i] != line {
			return line
		}
	}
	return "the end"
}

// forms returns the three forms of a job's report without what differs from run to run, and the text as it is.
func (g *reports) forms(name string) (steady map[string]string, whole string) {
	t := g.t
	t.Helper()
	one := func(args ...string) string {
		out, status := g.s.rtSpool(t, append(append(slices.Clone(g.args), "report"), append(args, g.ids[0])...)...)
		if status != 0 {
			t.Errorf("report %v of %s ended with %d", args, name, status)
		}
		return out
	}
	text, doc, page := one(), one("--format", "json"), one("--html", "-")
	var value any
	if err := json.Unmarshal([]byte(doc), &value); err != nil {
		t.Fatalf("%v in\n%s", err, doc)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(g.document("", value)); err != nil {
		t.Fatal(err)
	}
	return map[string]string{"text": g.steady(text), "json": b.String(), "page": g.page(page)}, text
}
