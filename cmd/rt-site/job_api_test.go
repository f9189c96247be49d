package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	rtreport "github.com/resource-tracker/rt/report"
	rtruns "github.com/resource-tracker/rt/report/runs"
)

// jobAnswer is the answer to GET /v1/jobs/{job}.
type jobAnswer struct {
	Jobs []struct {
		JobID uint64 `json:"job_id"`
		rtreport.Hours
		Runs []any
	}
	Report   []rtruns.Detail
	NoReport *string `json:"no_report"`
}

// A job in the API has the runs, the figures, the waste and the advice, in the form of the description. Its waste is in
// the list too. Readers see their own jobs only.
func TestJobInTheAPI(t *testing.T) {
	base := newPageSite(t)
	_, _, text := getPage(t, base+"/v1/openapi.json", "")
	var doc map[string]any
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	status, _, body := getPage(t, base+"/v1/jobs/1", "page-alice")
	var answer jobAnswer
	var v any
	if err := json.Unmarshal([]byte(body), &answer); err != nil || json.Unmarshal([]byte(body), &v) != nil || status != 200 {
		t.Fatalf("%d %v: %s", status, err, body)
	}
	if err := (schemas{doc}).check(map[string]any{"$ref": "#/components/schemas/JobDetail"}, v, "answer"); err != nil {
		t.Error(err)
	}
	if len(answer.Jobs) != 1 || len(answer.Jobs[0].Runs) != 1 || len(answer.Report) != 1 || answer.NoReport != nil {
		t.Fatal(body)
	}
	job, report := &answer.Jobs[0], &answer.Report[0]
	if report.Job != "1" || report.User != "alice" || !report.CPUPct.Valid() || !report.PeakBytes.Valid() || !report.ElapsedSecs.Valid() || len(report.Advice) == 0 && report.AdviceReason == "" {
		t.Errorf("the report is %s", body)
	}
	if !job.WasteHours.Valid() || job.WasteHours != report.WasteHours || job.CoreHours != report.CoreHours || job.UnusedCoreHours != report.UnusedHours || job.UnusedGiBHours != report.UnusedGiBHours {
		t.Errorf("the job of the list has other figures than the report: %s", body)
	}
	for path, want := range map[string]int{
		"page-bob 1": 404, "page-alice 2": 404, "page-bob 2": 200, "page-all 2": 200, "page-all 99": 404, "page-all 1_1": 404, "page-all 1.0": 404, "page-all x": 404,
		"page-all 1?cluster=other": 404, "page-all 1?generation=2": 404, "page-all 1?generation=1": 200, "page-all 1?generation=0": 400, "page-all 1?node=n": 400,
	} {
		token, job, _ := strings.Cut(path, " ")
		status, _, body := getPage(t, base+"/v1/jobs/"+job, token)
		isProblem := strings.Contains(body, `"detail":`)
		if status != want || isProblem != (want != 200) {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
}

// The most wasteful jobs come first, page by page, and a cursor goes on in its order. The sums are of the
// jobs that the reader may see.
func TestWasteInTheAPI(t *testing.T) {
	base := newPageSite(t)
	var hours []float64
	sum, next, isFirst := 0.0, "", true
	for next != "" || isFirst {
		isFirst = false
		var list struct {
			Jobs []struct {
				User string
				rtreport.Hours
			}
			Next string
		}
		query := "sort=waste&limit=2"
		if next != "" {
			query = "limit=2&cursor=" + next
		}
		status, _, body := getPage(t, base+"/v1/jobs?"+query, "page-alice")
		if err := json.Unmarshal([]byte(body), &list); err != nil || status != 200 {
			t.Fatalf("%d %v: %s", status, err, body)
		}
		for _, job := range list.Jobs {
			if job.User != "alice" {
				t.Errorf("alice sees a job of %s", job.User)
			}
			hours = append(hours, job.WasteHours.Or(-1))
			sum += job.WasteHours.Or(-1) * 3600
		}
		next = list.Next
	}
	slices.Reverse(hours)
	if len(hours) != 3 || hours[0] <= 0 || !slices.IsSorted(hours) {
		t.Errorf("the jobs waste %v hours", hours)
	}
	var sums struct {
		Sums []struct {
			Name string
			Jobs int
			rtreport.Hours
		}
		Prices map[string]any
	}
	for _, by := range []string{"user", "account", "partition", "week"} {
		status, _, body := getPage(t, base+"/v1/sums?by="+by, "page-alice")
		if err := json.Unmarshal([]byte(body), &sums); err != nil || status != 200 || len(sums.Sums) != 1 {
			t.Fatalf("by %s: %d %v: %s", by, status, err, body)
		}
		one := &sums.Sums[0]
		wanted := map[string]string{"user": "alice", "account": "alice-lab", "partition": "batch", "week": "2026-02-23"}[by]
		if one.Name != wanted || one.Jobs != 3 || fmt.Sprintf("%.6f", one.WasteHours.Or(0)) != fmt.Sprintf("%.6f", sum/3600) || sums.Prices["gpu"] != 16.0 {
			t.Errorf("by %s, waste %v: %s", by, sum/3600, body)
		}
	}
	for query, want := range map[string]string{
		"": "by is missing", "?by=name": "by must be one of user, account, partition, week, day", "?by=user&sort=waste": "no parameter", "?by=user&cursor=x": "no parameter", "?by=user&limit=0": "limit must be",
	} {
		if status, _, body := getPage(t, base+"/v1/sums"+query, "page-all"); status != 400 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", query, status, body)
		}
	}
	status, _, body := getPage(t, base+"/v1/sums?by=user&limit=1&partition=batch", "page-all")
	if status != 200 || !strings.Contains(body, `"is_partial":true`) || strings.Count(body, `"jobs":`) != 1 {
		t.Errorf("one of several sums: %d %s", status, body)
	}
	if status, _, body := getPage(t, base+"/v1/sums?by=user&user=bob", "page-alice"); status != 200 || !strings.Contains(body, `"sums":[]`) {
		t.Errorf("the sums of another user: %d %s", status, body)
	}
}
