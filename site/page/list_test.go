package page

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// fill adds jobs 100 to 104 of bob: the CPU is used by 10, 30, ... 90 percent, and the last one was killed for memory.
// 102 is the last task of the array 102; 100 and 101 are its other tasks.
func (f *fake) fill(t *testing.T) {
	t.Helper()
	for n := range 5 {
		id, label, outcome := 100+n, "", "finished"
		if n < 3 {
			label = fmt.Sprint("102_", n+1)
		}
		if n == 4 {
			outcome = "oom"
		}
		f.query(t, fmt.Sprintf(`INSERT INTO job (cluster, job_id, family, username, account, partition, name, display, label, state, outcome, started, ended, updated,
			core_secs, core_used, gpu_secs, gpu_used, waste) VALUES ('c', %d, %d, 'bob', 'chem', 'p%d', 'relax', 'Relax', '%s', 'ended', '%s', %d, %d, 0, 36000, %d, 3600, 72, %d)`,
			id, map[bool]int{true: 102, false: id}[n < 3], n%2, label, outcome, 1000000*(n+1), 1000000*(n+1)+14_400_000_000*(n+1), 3600*(2*n+1), 3600*(9-n)))
		f.query(t, fmt.Sprintf(`INSERT INTO run (id, owner, created, charged, cluster, job_id, generation, started, metadata, record)
			VALUES ('more%d', '', 0, 0, 'c', %d, 1, 0, '{}', '{"JobID": %[2]d}')`, n, id))
	}
}

var rowLabel = regexp.MustCompile(`<th scope="row"><a href="[^"]*">([^<]*)</a>`)

func labelsOf(body string) string {
	var list []string
	for _, m := range rowLabel.FindAllStringSubmatch(body, -1) {
		list = append(list, m[1])
	}
	return strings.Join(list, " ")
}

// Every column sorts, in both directions; what is not known is last.
func TestListIsSorted(t *testing.T) {
	f := newFake(t)
	f.fill(t)
	for sort, want := range map[string]string{
		"": "104 103 102_3 102_2 102_1 12_3", "-start": "12_3 102_1 102_2 102_3 103 104", "cpu": "104 103 102_3 102_2 102_1 12_3", "-cpu": "102_1 102_2 102_3 103 104 12_3",
		"waste": "102_1 102_2 102_3 103 104", "job": "104 103 102_3 102_2 102_1 12_3", "elapsed": "12_3 104 103 102_3 102_2 102_1", "-user": "104 103 102_3 102_2 102_1 12_3",
	} {
		_, body, log := f.get(t, "/jobs?sort="+sort)
		if sort == "" {
			_, body, log = f.get(t, "/jobs")
		}
		if got := labelsOf(body); got != want || log != "" {
			t.Errorf("sorted by %q the jobs are %s: want %s %s", sort, got, want, log)
		}
	}
	for _, c := range jobList.columns {
		for _, sort := range []string{c.key, "-" + c.key} {
			status, body, _ := f.get(t, "/jobs?cols=cluster,gpuhours,"+c.key+"&sort="+sort)
			if status != 200 || strings.Count(body, "aria-sort=") != 1 {
				t.Errorf("%s: %d %s", sort, status, body)
			}
		}
	}
	if status, _, _ := f.get(t, "/jobs?sort=owner"); status != 400 {
		t.Errorf("another column: %d", status)
	}
}

// A cell leads to the jobs with the same value, and keeps the filter. A job killed for memory is red, and so is no GPU at
// 2 percent green.
func TestCellsOfAList(t *testing.T) {
	f := newFake(t)
	f.fill(t)
	_, body, _ := f.get(t, "/jobs?user=bob")
	for _, want := range []string{
		`<a href="jobs?account=chem&amp;user=bob">chem</a>`, `<a href="jobs?outcome=oom&amp;user=bob"><span class="badge harmful">out of memory</span></a>`,
		`<a href="job?cluster=c&amp;generation=1&amp;id=102_3">102_3</a>`, `title="Relax"><a href="jobs?name=Relax&amp;user=bob">`, `<th scope="col" class="n" title="equivalent core-hours"><a href="jobs?sort=waste&amp;user=bob">Waste</a>`, `role="search" aria-label="Search"`, `user: bob<a href="jobs" title="Remove">`,
		`<svg class="bar wasteful" aria-hidden="true"><rect class="track" width="100%" height="100%"/><rect class="fill" width="2.0%" height="100%"/></svg><span>2 %</span>`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the list lacks %s: %s", want, body)
		}
	}
	if strings.Contains(body, "bar harmful") || strings.Contains(body, "Core-hours used") {
		t.Error(body)
	}
	if _, body, _ := f.get(t, "/jobs?cols=name,gpuhours"); !strings.Contains(body, ">GPU-hours</a>") || strings.Contains(body, ">Waste</a>") {
		t.Errorf("the chosen columns: %s", body)
	}
}

// A name as squeue prints it selects its job, and the last task of an array has a page of its own.
func TestNamesOfJobs(t *testing.T) {
	f := newFake(t)
	f.fill(t)
	for path, want := range map[string]string{"/jobs?job=102_3&user=bob": "102_3", "/jobs?job=102": "102_3 102_2 102_1", "/jobs?job=102_9": "", "/jobs?job=103%2B0": "103"} {
		if status, body, _ := f.get(t, path); status != 200 || labelsOf(body) != want {
			t.Errorf("%s: %d %s, want %s", path, status, labelsOf(body), want)
		}
	}
	for id, want := range map[string]string{"102_3": "Job 102_3", "102": "Job 102"} {
		_, body, _ := f.get(t, "/job?cluster=c&id="+id)
		if !strings.Contains(body, `aria-current="page">`+want+"</li>") {
			t.Errorf("%s: %s", id, body)
		}
		if isArray := strings.Contains(body, ">102_1<"); isArray != (id == "102") {
			t.Errorf("%s: the page of the array is %v: %s", id, isArray, body)
		}
	}
	for _, name := range []string{"4_", "x", "4_3_2", "1234567890123456789"} {
		if status, body, _ := f.get(t, "/jobs?job="+name); status != 400 || !strings.Contains(body, "4711, 4_3 or 12&#43;1") {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
}

// What a person types leads to the job, or to a list.
func TestFind(t *testing.T) {
	f := newFake(t)
	f.fill(t)
	f.query(t, "UPDATE run SET node = 'n9' WHERE id = 'more4'")
	for text, want := range map[string]string{
		"7": "job?cluster=c&generation=1&id=7", " 12_3 ": "job?cluster=c&generation=1&id=12_3", "102_3": "job?cluster=c&generation=1&id=102_3", "102": "job?cluster=c&generation=1&id=102", "bob": "jobs?user=bob",
		"n9": "jobs?node=n9", "chem": "jobs?account=chem", "relax": "jobs?name=relax", "train": "job?cluster=c&generation=1&id=12_3", "4711": "jobs?name=4711", "": "jobs", "a&user=x": "jobs?name=a%26user%3Dx",
	} {
		w := f.show(t, link("/find", map[string]string{"q": text}))
		if got := w.Header().Get("Location"); w.Code != 303 || got != want {
			t.Errorf("%q: %d %s, want %s", text, w.Code, got, want)
		}
	}
	w := httptest.NewRecorder()
	f.pages().ServePage(w, httptest.NewRequest(http.MethodGet, "/find?q=bob", nil), site.Reader{User: "alice"})
	if got := w.Header().Get("Location"); got != "jobs?name=bob" {
		t.Errorf("a user learns that another one has jobs: %s", got)
	}
}

// The address of a list has no empty parameter, and one for the columns.
func TestShortAddress(t *testing.T) {
	f := newFake(t)
	for path, want := range map[string]string{
		"/jobs?user=&name=x&job=":         "jobs?name=x",
		"/jobs?user=bob&col=name&col=cpu": "jobs?cols=name%2Ccpu&user=bob",
		"/jobs?user=bob&col=name&col=user&col=account&col=partition&col=outcome&col=start&col=elapsed&col=cpu&col=memory&col=gpu&col=corehours&col=waste": "jobs?user=bob",
	} {
		if w := f.show(t, path); w.Code != 303 || w.Header().Get("Location") != want {
			t.Errorf("%s: %d %s, want %s", path, w.Code, w.Header().Get("Location"), want)
		}
	}
}

// An array of more tasks than a report has is a map of all of its tasks, each of them a link.
func TestLargeArray(t *testing.T) {
	f := newFake(t)
	f.query(t, `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1500) INSERT INTO job (cluster, job_id, family, username, account, partition, name, label, state, outcome, started, ended, updated)
		SELECT 'c', 50000 + i, 51500, 'bob', '', '', 'sweep', '51500_' || i, 'ended', CASE WHEN i = 3 THEN 'failed' ELSE 'finished' END, 1000000 * i, 1000000 * i + 1, 0 FROM n`)
	f.query(t, `INSERT INTO run (id, owner, created, charged, cluster, job_id, generation, started, metadata, record) VALUES ('sweep', '', 0, 0, 'c', 51500, 1, 0, '{}', '{"JobID": 51500}')`)
	_, body, log := f.get(t, "/job?cluster=c&id=51500")
	if n := strings.Count(body, ` title="51500_`); n != 1500 || log != "" {
		t.Errorf("the map has %d tasks: %s", n, log)
	}
	if !strings.Contains(body, `<a class="harmful" href="job?cluster=c&amp;generation=1&amp;id=51500_3" title="51500_3: failed, CPU –"></a>`) {
		t.Errorf("task 3 is no link: %.20000s", body)
	}
}

// A CSV has the rows, the columns and the order of the list.
func TestListAsCSV(t *testing.T) {
	f := newFake(t)
	f.fill(t)
	f.query(t, "UPDATE job SET display = '=1+1;=2' WHERE job_id = 101")
	w := f.show(t, "/jobs.csv?user=bob&cols=name,start,cpu,gpu,waste&sort=-cpu")
	rows, err := csv.NewReader(w.Body).ReadAll()
	if err != nil || len(rows) != 6 {
		t.Fatalf("%d rows: %v", len(rows), err)
	}
	for i, want := range []string{"job name start cpu_pct gpu_pct waste_core_hours", "102_1 Relax 1970-01-01T00:00:01Z 10 2 9", "102_2 '=1+1;'=2 1970-01-01T00:00:02Z 30 2 8"} {
		if got := strings.Join(rows[i], " "); got != want {
			t.Errorf("row %d is %s: want %s", i, got, want)
		}
	}
}

// The other jobs of a name are those before the job, and none whose name has it as a part.
func TestJobAmongSimilarNames(t *testing.T) {
	f := newFake(t)
	f.fill(t)
	f.crowd(t, 50)
	f.query(t, "UPDATE job SET name = 'relax2', display = 'Relax2' WHERE job_id BETWEEN 1000 AND 1024")
	f.query(t, "UPDATE job SET name = 'relax', display = 'Relax', core_secs = 36000, core_used = 1 WHERE job_id > 1024")
	f.query(t, "UPDATE job SET started = 3500000 WHERE job_id BETWEEN 1000 AND 1024")
	_, body, _ := f.get(t, "/job?cluster=c&id=103")
	if n := strings.Count(body, `aria-label="10`); n != 8 || !strings.Contains(body, `<circle class="own"`) || strings.Contains(body, "1049:") {
		t.Errorf("%d points: %s", n, body)
	}
}

// Browsers keep the files of the program, by their version; a page of another site can show none.
func TestAssets(t *testing.T) {
	f := newFake(t)
	_, body, _ := f.get(t, "/jobs")
	for _, m := range regexp.MustCompile(`(?:href|src)="((style.css|page.js|logo|licenses.txt)\?v=[0-9a-f]+)"`).FindAllStringSubmatch(body, -1) {
		w := f.show(t, "/"+m[1])
		h := w.Header()
		isKept := strings.Contains(h.Get("Cache-Control"), "immutable") && h.Get("Cross-Origin-Resource-Policy") == "same-origin"
		if w.Code != 200 || !isKept || w.Body.Len() == 0 {
			t.Errorf("%s: %d %v", m[1], w.Code, h)
		}
		if h := f.show(t, "/"+m[2]+"?v=0").Header(); strings.Contains(h.Get("Cache-Control"), "immutable") {
			t.Errorf("another version of %s is kept: %v", m[2], h)
		}
	}
	if !strings.Contains(body, "<span>Alps &lt;1&gt;</span>") {
		t.Errorf("the name of the site: %s", body)
	}
}

// The page of a job shows the jobs with its name: each is a link, and the request of each a line. The page of an array has
// a link to each task.
func TestJobAmongOthers(t *testing.T) {
	f := newFake(t)
	f.fill(t)
	_, body, _ := f.get(t, "/job?cluster=c&id=104")
	for _, want := range []string{
		"Runs with this name", `href="jobs?name=Relax&amp;user=bob"`, `<a href="job?cluster=c&amp;generation=1&amp;id=103" aria-label="103: 0.44 of 0.62, finished">`,
		`<circle class="own"`, "Cores: mean use and request", `aria-label="104: 0.45 of 0.50, out of memory"`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %s: %s", want, body)
		}
	}
	if n := strings.Count(body, `class="request"`); n != 10 || strings.Contains(body, "Tasks of the array") {
		t.Errorf("%d requests: %s", n, body)
	}
	_, body, _ = f.get(t, "/job?cluster=c&id=102")
	if !strings.Contains(body, `<a class="wasteful" href="job?cluster=c&amp;generation=1&amp;id=102_1" title="102_1: finished, CPU 10 %">`) || strings.Count(body, `title="102_`) != 3 {
		t.Errorf("the tasks of an array: %s", body)
	}
}

// The lists of users, accounts and nodes sort by each column, in both directions, and have a CSV of what is shown.
func TestOtherListsAreSorted(t *testing.T) {
	f := newFake(t)
	for i, user := range []string{"alice", "bob", "carol"} {
		f.addRecent(t, 50+i, user, user+"-lab", 1, []float64{2, 9, 4}[i])
		f.addRecent(t, 60+i, user, user+"-lab", 1, []float64{2, 9, 4}[i])
		state := site.NodeState{Cluster: "c", Node: fmt.Sprint("n", i), Version: fmt.Sprint("1.", i), Time: time.Now(), Trackers: rt.Some([]int64{5, 30, 7}[i])}
		if i == 1 {
			state.FailedDrains = rt.Some[int64](3)
		}
		if err := f.Nodes.Put(t.Context(), "o", state, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	f.addRecent(t, 70, "carol", "carol-lab", 1, 10)
	for path, want := range map[string]string{
		"/users": "alice carol bob", "/users?sort=-waste": "bob carol alice", "/users?sort=user": "alice bob carol", "/users?sort=-user": "carol bob alice", "/users?sort=cpu": "bob carol alice",
		"/users?sort=corehours": "carol alice bob", "/accounts?sort=jobs": "carol-lab alice-lab bob-lab", "/accounts": "alice-lab carol-lab bob-lab",
		"/nodes": "n1 n0 n2", "/nodes?sort=trackers": "n1 n2 n0", "/nodes?sort=-version": "n2 n1 n0", "/nodes?show=problems&sort=node": "n1",
	} {
		_, body, log := f.get(t, path)
		table, _, _ := strings.Cut(body, "</table>")
		if got := labelsOf(table); got != want || log != "" {
			t.Errorf("%s: %s, want %s %s", path, got, want, log)
		}
	}
	for page, keys := range map[string][]string{"users": keysOf(totalLists[site.ByUser]), "accounts": keysOf(totalLists[site.ByAccount]), "nodes": keysOf(&nodeList)} {
		for _, key := range keys {
			status, body, _ := f.get(t, "/"+page+"?cols="+key+"&sort=-"+key)
			if status != 200 || strings.Count(body, "aria-sort=") != 1 {
				t.Errorf("%s by %s: %d %s", page, key, status, body)
			}
		}
		if status, _, _ := f.get(t, "/"+page+"?sort=owner"); status != 400 {
			t.Errorf("%s by another column: %d", page, status)
		}
	}
	for path, want := range map[string]string{
		"/users.csv?sort=user&cols=user,waste,cpu":          "user,waste_core_hours,cpu_pct alice,16,20 bob,2,90 carol,12,60",
		"/nodes.csv?cols=problem,trackers&sort=trackers":    "node,problems,trackers n1,3 failed drains. ,30 n2,,7 n0,,5",
		"/nodes.csv?cols=trackers&show=problems":            "node,trackers n1,30",
		"/accounts.csv?cols=jobs,gpu&account=bob-lab&sort=": "account,jobs,gpu_pct bob-lab,2,",
	} {
		if got := strings.Join(strings.Split(strings.TrimSpace(f.show(t, path).Body.String()), "\n"), " "); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	if w := f.show(t, "/nodes?show=problems&col=spool&col=lost"); w.Code != 303 || w.Header().Get("Location") != "nodes?cols=spool%2Clost&show=problems" {
		t.Errorf("the chosen columns lead to %d %s", w.Code, w.Header().Get("Location"))
	}
	w := httptest.NewRecorder()
	f.pages().ServePage(w, httptest.NewRequest(http.MethodGet, "/nodes.csv", nil), site.Reader{User: "alice"})
	if w.Code != 404 {
		t.Errorf("a user gets the nodes: %d", w.Code)
	}
}

func keysOf[R any](l *listing[R]) (keys []string) {
	for _, c := range l.columns {
		keys = append(keys, c.key)
	}
	return keys
}
