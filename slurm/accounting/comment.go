package accounting

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Ended names a job that has ended.
type Ended struct {
	Cluster string
	JobID   uint64
}

// endStates are the states of jobs that have ended, as sacct takes them.
const endStates = "BOOT_FAIL,CANCELLED,COMPLETED,DEADLINE,FAILED,NODE_FAIL,OUT_OF_MEMORY,PREEMPTED,TIMEOUT"

// FindSacctmgr returns the path of sacctmgr, empty if there is none.
func FindSacctmgr() string { return findProgram("sacctmgr") }

// EndedWithoutComment asks sacct for the jobs of all users that ended since a time and have no AdminComment.
func EndedWithoutComment(ctx context.Context, sacct string, since time.Time, maxBytes int) (list []Ended, err error) {
	output, err := Run(ctx, sacct, []string{
		"--allusers", "--allocations", "--noheader", "--parsable2", "--starttime=" + since.Local().Format("2006-01-02T15:04:05"), "--endtime=now",
		"--state=" + endStates, "--format=Cluster,JobIDRaw,AdminComment",
	}, maxBytes)
	if err != nil {
		return nil, err
	}
	bad := Malformed{}
	for line := range strings.Lines(output) {
		bad.Line++
		line = strings.TrimRight(line, "\r\n")
		values := strings.SplitN(line, "|", 3) // the comment comes last: it can have any character
		if len(values) != 3 {
			bad.Add(line)
			continue
		}
		id, err := strconv.ParseUint(values[1], 10, 64)
		if err != nil {
			bad.Add(line)
			continue
		}
		if strings.TrimSpace(values[2]) == "" {
			list = append(list, Ended{values[0], id})
		}
	}
	return list, bad.Err()
}

// ErrLowerCase means that sacctmgr is older than Slurm 23.02, and writes comments in lower case.
var ErrLowerCase = errors.New("sacctmgr writes AdminComment in lower case before Slurm 23.02")

// firstWithCase is the first version, as year and month, whose sacctmgr keeps the case.
const firstWithCase = 2302

// CheckCase returns an error if sacctmgr does not keep the case of a comment.
func CheckCase(ctx context.Context, sacctmgr string) error {
	output, err := Run(ctx, sacctmgr, []string{"--version"}, 4<<10) // slurm 22.05.8, slurm-wlm 22.05.8
	if err != nil {
		return err
	}
	_, version, _ := strings.Cut(output, " ")
	var year, month int
	if _, err := fmt.Sscanf(version, "%d.%d", &year, &month); err != nil {
		return fmt.Errorf("%s --version prints %.100q, no version of Slurm", sacctmgr, output)
	}
	if year*100+month < firstWithCase {
		return fmt.Errorf("%w, and this is %s", ErrLowerCase, strings.TrimSpace(output))
	}
	return nil
}

// ErrNoChange means that sacctmgr has changed no job.
var ErrNoChange = errors.New("sacctmgr changed no job")

// SetAdminComment sets the AdminComment of a job in Slurm's accounting. The user must be an administrator there.
func SetAdminComment(ctx context.Context, sacctmgr string, job Ended, comment string) error {
	output, err := Run(ctx, sacctmgr, []string{
		"--immediate", "modify", "job", "where", "jobid=" + strconv.FormatUint(job.JobID, 10), "cluster=" + job.Cluster, "set", "AdminComment=" + comment,
	}, 64<<10)
	if err != nil {
		return err
	}
	if !strings.Contains(output, "Modified") {
		return fmt.Errorf("%w: %s", ErrNoChange, strings.Join(strings.Fields(output), " "))
	}
	return nil
}
