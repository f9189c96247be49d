// Testsum reads the output of `go test -json` from standard input. It prints a line for each package, the failures as
// they come, and what runs if nothing ends for ten seconds. It ends with lists of what the tests ran on, of slow and
// of skipped tests, and with the totals.
//
//	{ go test -json ./...; echo "exit $?"; } | testsum -of 84 -commands 1 -allow FILE
//
// A line "exit N" is the exit status of a command. A line "skip NAME: REASON" is a part that cannot
// run here. FILE lists the tests that may be skipped, one "package test" per line; # starts a
// comment. With a FILE and CI=true in the environment any other skip is a failure. The exit status is
// 0 if no test failed.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// quiet is the longest time without a line.
const quiet = 10 * time.Second

func main() {
	allowFile := flag.String("allow", "", "tests that may be skipped: `FILE`")
	packages := flag.Int("of", 0, "the `NUMBER` of packages that will be tested, for the progress")
	commands := flag.Int("commands", 0, "the `NUMBER` of commands; 0 is any")
	elsewhere := flag.String("elsewhere", "", "skips whose reason has this `TEXT` are not counted: another command runs the test")
	isComplete := flag.Bool("complete", false, "a skip that is left to another command is a failure if none ran the test")
	flag.Parse()
	allowed, err := readAllowed(*allowFile)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testsum:", err)
		os.Exit(2)
	}
	s := newSummary(os.Stdout, *packages)
	s.elsewhere, s.isComplete = *elsewhere, *isComplete
	s.readAll(os.Stdin)
	if s.commands < *commands {
		s.fail(fmt.Sprintf("%d of %d test commands have ended", s.commands, *commands))
	}
	isStrict := *allowFile != "" && os.Getenv("CI") == "true"
	if !s.finish(allowed, isStrict) {
		os.Exit(1)
	}
}

// readAll reads the output of the commands to its end, and prints what runs when they are quiet.
func (s *summary) readAll(r io.Reader) {
	lines := make(chan string)
	var failed error
	go func() {
		defer close(lines)
		scanner := bufio.NewScanner(r)
		scanner.Buffer(nil, 16<<20)
		for scanner.Scan() {
			lines <- scanner.Text()
		}
		failed = scanner.Err()
	}()
	timer := time.NewTicker(time.Second)
	defer timer.Stop()
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				if failed != nil {
					s.fail("reading the tests' output: " + failed.Error())
				}
				return
			}
			s.line(line)
		case <-timer.C:
			s.showRunning()
		}
	}
}

func readAllowed(file string) (map[string]bool, error) {
	allowed := map[string]bool{}
	if file == "" {
		return allowed, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("the list of allowed skips: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		line, _, _ = strings.Cut(line, "#")
		if f := strings.Fields(line); len(f) == 2 {
			allowed[f[0]+" "+f[1]] = true
		} else if len(f) != 0 {
			return nil, fmt.Errorf("%s: %q is not a package and a test", file, strings.TrimSpace(line))
		}
	}
	return allowed, nil
}
