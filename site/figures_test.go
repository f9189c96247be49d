package site

import (
	"strconv"
	"testing"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
)

func TestFiguresOf(t *testing.T) {
	const cpu = `"cpu":{"used_secs":90,"allocated_secs":400,"cores_of":"allocation"}`
	const memory = `"memory":{"peak_bytes":1073741824,"limit_bytes":4294967296,"limit_of":"cgroup"}`
	for _, c := range []struct {
		name, summary string
		want          string
		waste         rt.Opt[float64]
	}{
		{"all", `{"elapsed_secs":100,` + cpu + `,` + memory + `,"gpus":[{"in_job":true,"busy_pct":50},{"in_job":true,"busy_pct":0}]}`,
			"400 90, 200 50, 429496729600 107374182400", rt.Some(310 + 150*16 + 75.0)},
		{"no GPU", `{"elapsed_secs":100,` + cpu + `,` + memory + `}`, "400 90, - -, 429496729600 107374182400", rt.Some(385.0)},
		{"a GPU was not read", `{"elapsed_secs":100,"gpus":[{"in_job":true,"busy_pct":50},{"in_job":true,"busy_pct":null}]}`, "- -, - -, - -", rt.None[float64]()},
		{"a GPU was not found", `{"elapsed_secs":100,"run":{"gpus":"0-1"},"gpus":[{"in_job":true,"busy_pct":50}]}`, "- -, - -, - -", rt.None[float64]()},
		{"no elapsed time", `{` + cpu + `,` + memory + `,"gpus":[{"in_job":true,"busy_pct":50}]}`, "400 90, - -, - -", rt.Some(310.0)},
		{"cores of the node", `{"cpu":{"used_secs":90,"allocated_secs":400,"cores_of":"node"}}`, "- -, - -, - -", rt.None[float64]()},
		{"memory of the node", `{"elapsed_secs":100,"memory":{"peak_bytes":1,"limit_bytes":4,"limit_of":"node"}}`, "- -, - -, - -", rt.None[float64]()},
		{"GPUs of the node", `{"elapsed_secs":100,"gpus":[{"in_job":false,"busy_pct":0},{"in_job":null,"busy_pct":50},{"busy_pct":50}]}`, "- -, - -, - -", rt.None[float64]()},
		{"a GPU of the job and one of the node", `{"elapsed_secs":100,"gpus":[{"in_job":true,"busy_pct":50},{"in_job":false,"busy_pct":null}]}`, "- -, 100 50, - -", rt.Some(50.0 * 16)},
		{"a half pair", `{"cpu":{"used_secs":90,"cores_of":"allocation"}}`, "- -, - -, - -", rt.None[float64]()},
		{"more used than allocated", `{"cpu":{"used_secs":500,"allocated_secs":400,"cores_of":"allocation"}}`, "400 500, - -, - -", rt.Some(0.0)},
		{"negative", `{"cpu":{"used_secs":-1,"allocated_secs":400,"cores_of":"allocation"}}`, "- -, - -, - -", rt.None[float64]()},
		{"impossible", `{"cpu":{"used_secs":1,"allocated_secs":1e300,"cores_of":"allocation"}}`, "- -, - -, - -", rt.None[float64]()},
		{"another type", `{"cpu":"much"}`, "- -, - -, - -", rt.None[float64]()},
		{"nothing", ``, "- -, - -, - -", rt.None[float64]()},
	} {
		summary := SummaryOf([]byte(c.summary))
		f := FiguresOf(&summary)
		got := ""
		for i, pair := range f.Pairs() {
			if i > 0 {
				got += ", "
			}
			got += text(*pair[0]) + " " + text(*pair[1])
		}
		if got != c.want || f.Waste(report.DefaultPrices) != c.waste {
			t.Errorf("%s: %s, waste %s: want %s, waste %s", c.name, got, text(f.Waste(report.DefaultPrices)), c.want, text(c.waste))
		}
	}
}

func text(v rt.Opt[float64]) string {
	n, ok := v.Get()
	if !ok {
		return "-"
	}
	return strconv.FormatFloat(n, 'f', -1, 64)
}
