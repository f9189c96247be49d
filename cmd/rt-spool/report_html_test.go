package main

import (
	"flag"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// The size of a page is bounded: an array of thousands of tasks is refused.
func TestCheckPage(t *testing.T) {
	c := cli.NewContext(cli.NewApp(), flag.NewFlagSet("report", flag.ContinueOnError), nil)
	if err := checkPage(c, mostPageRuns); err != nil {
		t.Error(err)
	}
	if err := checkPage(c, mostPageRuns+1); err == nil || !strings.Contains(err.Error(), "at most 300 runs, and the job has 301") {
		t.Errorf("301 runs: %v", err)
	}
}
