package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	rtcli "github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/slurm/request"
)

// The forms of rt-job check that cli_filter.lua and rt-job itself start. They print no error and exit 0.
const (
	checkFilter = "--filter" // advises on the submission on standard input
	checkAsk    = "--ask"    // gets the advice for later submissions from the site
)

const (
	maxOptions = 1 << 20 // bytes of the options of a submission
	maxAsk     = 10 * time.Second
)

func checkCommand() *cli.Command {
	return &cli.Command{
		Name:            "check",
		Usage:           "say what a batch script could request less, from your earlier jobs like it",
		ArgsUsage:       "SCRIPT [OPTIONS OF SBATCH]",
		SkipFlagParsing: true, // they are options of sbatch
		Action:          runCheck,
	}
}

func runCheck(c *cli.Context) error {
	switch c.Args().First() {
	case checkFilter:
		adviseSubmission(c)
		return nil
	case checkAsk:
		askAdvice(c)
		return nil
	case "-h", "--help":
		return cli.ShowSubcommandHelp(c)
	case "":
		return rtcli.Usage("check takes a batch script, such as rt-job check job.sh --mem=4G")
	}
	r, err := scriptRequest(c.Args().First(), c.Args().Tail())
	if err != nil {
		return err
	}
	cfg, err := load(c)
	if err != nil {
		return err
	}
	site, err := siteOf(c, cfg.Site)
	if err != nil {
		return err
	}
	if site == nil {
		return errors.New("your earlier jobs are not known here: no service of the site is configured (site.url in rt.toml)")
	}
	kinds, err := site.Kinds(c.Context, self())
	if err != nil {
		return err
	}
	fmt.Fprintln(c.App.Writer, checked(kinds, &r))
	return nil
}

// scriptRequest returns what a batch script requests with further options.
func scriptRequest(name string, args []string) (r request.Request, err error) {
	script, err := os.Open(name)
	if err != nil {
		return r, err
	}
	defer script.Close()
	o := request.Options{}
	if err := o.ReadScript(script); err != nil {
		return r, fmt.Errorf("read %s: %w", name, err)
	}
	o.Read(args)
	dir, err := workDir()
	return request.Of(o, []string{name}, dir), err
}

// workDir is the working directory as Slurm names it, without the links of PWD.
func workDir() (string, error) {
	buffer := make([]byte, unix.PathMax)
	n, err := unix.Getcwd(buffer)
	if err != nil {
		return "", fmt.Errorf("find the working directory: %w", err)
	}
	return string(buffer[:n-1]), nil // without its NUL
}

// checked says what a request must be more or could be less, or why nothing is known.
func checked(kinds []report.Kind, r *request.Request) string {
	k := report.KindOf(kinds, r)
	if k == nil {
		return fmt.Sprintf("no advice: no job of the last 30 days with the name %s, this directory and such a request shows what it needs", report.Plain(r.Name))
	}
	lines := slices.DeleteFunc([]string{k.MoreLine(r), k.Line(r)}, func(line string) bool { return line == "" })
	if len(lines) > 0 {
		return strings.Join(lines, "\n")
	}
	return "no advice: nothing shows that this job needs less than it requests"
}

// adviseSubmission prints the line of advice for a submission, if there is one to say. It must never fail or delay the
// submission: it reads files of the user only, and starts the process that asks the site.
func adviseSubmission(c *cli.Context) {
	cfg, err := load(c)
	isOff := err != nil || os.Getenv("RT_ADVICE") == "0" || cfg.Site.URL == "" || exists(cfg.Hooks.DisableFile)
	if isOff {
		return
	}
	file, err := openAdvice()
	if err != nil {
		return
	}
	now := time.Now()
	if file.isDue(now) {
		startAsking(c)
	}
	text, err := io.ReadAll(io.LimitReader(c.App.Reader, maxOptions))
	if err != nil {
		return
	}
	dir, err := workDir()
	if err != nil {
		return
	}
	r, _, err := request.OfFilter(text, dir)
	if err != nil {
		return
	}
	k := report.KindOf(file.kinds(now), &r)
	if k == nil || k.Jobs < cfg.Advice.Runs || k.WasteHours.Or(0) < cfg.Advice.Waste {
		return
	}
	if line := k.Line(&r); line != "" && file.markSaid(r.Name, now) {
		fmt.Fprintln(c.App.Writer, "rt-job: "+line)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// startAsking starts rt-job check --ask in a session of its own, without input and output.
func startAsking(c *cli.Context) {
	args := []string{os.Args[0]}
	if name := c.String("config"); name != "" {
		path, err := filepath.Abs(name)
		if err != nil {
			return
		}
		args = append(args, "--config", path)
	}
	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: append(args, "check", checkAsk), Dir: "/", SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	// Descriptors of the caller must not stay open in the process. Kernels before 5.11 fail, and it inherits them.
	_ = unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
	_ = cmd.Start() // a later submission tries it again
}

// askAdvice asks the site, and stores the answer for later submissions. Without an answer the last one stays.
func askAdvice(c *cli.Context) {
	ctx, stop := context.WithTimeout(c.Context, maxAsk)
	defer stop()
	time.AfterFunc(maxAsk+time.Second, func() { os.Exit(0) }) // a file system can hang
	cfg, err := load(c)
	if err != nil || exists(cfg.Hooks.DisableFile) {
		return
	}
	site, err := siteOf(c, cfg.Site)
	if err != nil || site == nil {
		return
	}
	kinds, err := site.Kinds(ctx, self())
	if err != nil {
		return
	}
	if file, err := openAdvice(); err == nil {
		_ = file.put(kinds, time.Now()) // a later submission asks again
	}
}
