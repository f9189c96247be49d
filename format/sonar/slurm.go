package sonar

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/resource-tracker/rt/slurm/accounting"
)

// JobRecord is one line of sacct, for a job or a step, as sonar slurm writes it. All fields are the texts
// of sacct, except that zero values are empty and times have an offset.
type JobRecord struct {
	Version string // of the program that wrote it
	Cluster string // in the new format only

	JobID, JobIDRaw, User, Account, State, Start, End                string
	AveCPU, AveDiskRead, AveDiskWrite, AveRSS, AveVMSize             string
	ElapsedRaw, ExitCode, Layout, MaxRSS, MaxVMSize, MinCPU          string
	ReqCPUS, ReqMem, ReqNodes, Reservation, Submit, Suspended        string
	SystemCPU, TimelimitRaw, UserCPU, NodeList, Partition, AllocTRES string
	Priority, JobName                                                string
}

// JobFields are the names of the fields of a JobRecord, as in sacct, in the order of the format.
var JobFields = [...]string{
	"JobID", "JobIDRaw", "User", "Account", "State", "Start", "End", "AveCPU", "AveDiskRead", "AveDiskWrite",
	"AveRSS", "AveVMSize", "ElapsedRaw", "ExitCode", "Layout", "MaxRSS", "MaxVMSize", "MinCPU", "ReqCPUS", "ReqMem",
	"ReqNodes", "Reservation", "Submit", "Suspended", "SystemCPU", "TimelimitRaw", "UserCPU", "NodeList", "Partition",
	"AllocTRES", "Priority", "JobName",
}

// fields returns the fields in the order of JobFields.
func (j *JobRecord) fields() (fields [len(JobFields)]*string) {
	for i, name := range JobFields {
		fields[i] = j.field(name)
	}
	return fields
}

func (j *JobRecord) field(name string) *string {
	return reflect.ValueOf(j).Elem().FieldByName(name).Addr().Interface().(*string)
}

// kept are the fields that are written even if they are empty.
func kept(name string) bool { return name == "JobName" || name == "Account" || name == "User" }

// zero are the values of sacct that are left out.
func zero(value string) bool {
	switch value {
	case "", "Unknown", "0", "00:00:00", "0:0", "0.00M":
		return true
	}
	return false
}

// Failure is the record of a failed call of sacct by sonar slurm.
type Failure struct {
	Version   string    `sonar:"v"`
	Message   string    `sonar:"error"`
	Timestamp time.Time `sonar:"timestamp"`
}

// textFields are the fields of a JobRecord that can be any text. A user can put line feeds and separators into some,
// and sacct prints them unchanged.
var textFields = [...]string{"User", "Account", "Reservation", "NodeList", "Partition", "JobName"}

// sacctFields are the fields that parseSacct parses: DBIndex, and the fields of a JobRecord without textFields.
func sacctFields() []string {
	isText := func(name string) bool { return slices.Contains(textFields[:], name) }
	return append([]string{"DBIndex"}, slices.DeleteFunc(slices.Clone(JobFields[:]), isText)...)
}

// parseSacct parses the output of sacct -P with sacctFields in their order and with a
// header. Times are seconds since the epoch (SLURM_TIME_FORMAT=%s), or local times of loc; the
// result has the offset of loc. texts returns the values of textFields of a record, nil if they are not known.
// It returns the jobs of the valid lines next to the error for the others.
func parseSacct(output string, texts func(dbIndex, jobIDRaw string) []string, loc *time.Location) ([]JobRecord, error) {
	names := sacctFields()
	first, rest, _ := strings.Cut(output, "\n")
	if strings.TrimSuffix(first, "\r") != strings.Join(names, "|") {
		return nil, fmt.Errorf("sonar: the output of sacct begins with %.100q and not with the header that was asked for", first)
	}
	var jobs []JobRecord
	bad := accounting.Malformed{Line: 1}
	for line := range strings.Lines(rest) {
		bad.Line++
		values := strings.Split(strings.TrimRight(line, "\r\n"), "|")
		if len(values) != len(names) || values[1] == "" || !strings.HasSuffix(line, "\n") {
			bad.Add(line)
			continue
		}
		j := JobRecord{Version: Version}
		for i, name := range names[1:] {
			*j.field(name) = sacctValue(name, values[1+i], loc)
		}
		for i, text := range texts(values[0], j.JobIDRaw) {
			*j.field(textFields[i]) = sacctValue(textFields[i], text, loc)
		}
		jobs = append(jobs, j)
	}
	return jobs, bad.Err()
}

// sacctValue returns a value in the form of the format.
func sacctValue(name, value string, loc *time.Location) string {
	if zero(value) && !kept(name) {
		return ""
	}
	if name != "Start" && name != "End" && name != "Submit" {
		return clean(value)
	}
	if n, err := strconv.ParseInt(value, 10, 64); err == nil && n > 0 && n < 1<<40 {
		return formatTime(time.Unix(n, 0).In(loc))
	}
	if t, err := time.ParseInLocation("2006-01-02T15:04:05", value, loc); err == nil {
		return formatTime(t)
	}
	return clean(value) // "None": it never started
}

func (j *JobRecord) set(name, text string) error {
	if name == "v" || name == "version" {
		j.Version = text
		return nil
	}
	if slices.Contains(JobFields[:], name) {
		*j.field(name) = text
	}
	return nil
}

func (j *JobRecord) check() error {
	if zero(j.JobID) && zero(j.JobIDRaw) {
		return errors.New("no JobID")
	}
	if j.Version == "" {
		return errors.New("no version (v)")
	}
	return nil
}

func (j *JobRecord) append(e *encoder) {
	for i, p := range j.fields() {
		if text := clean(*p); !zero(text) || kept(JobFields[i]) {
			e.text(JobFields[i], text)
		}
	}
}

// AppendCSV appends the record as one line of free CSV with its newline.
func (j *JobRecord) AppendCSV(dst []byte) ([]byte, error) {
	if err := j.check(); err != nil {
		return dst, fmt.Errorf("sonar: write job %.40q: %w", j.JobID, err)
	}
	e := encoder{dst: dst, start: len(dst)}
	e.text("v", clean(j.Version))
	j.append(&e)
	return append(e.dst, '\n'), nil
}

// AppendJobsJSON appends the jobs as one JSON object and a newline. The object has the version as "v",
// as on the page, and as "version", which the reader requires.
func AppendJobsJSON(dst []byte, jobs []JobRecord) ([]byte, error) {
	version := Version
	if len(jobs) > 0 {
		version = jobs[0].Version
	}
	for i := range jobs {
		if err := jobs[i].check(); err != nil {
			return dst, fmt.Errorf("sonar: write job %.40q: %w", jobs[i].JobID, err)
		}
	}
	out := appendString(append(dst, `{"v":`...), clean(version))
	out = appendString(append(out, `,"version":`...), clean(version))
	out = appendArray(append(out, `,"jobs":`...), jobs, func(dst []byte, j *JobRecord) []byte {
		e := encoder{dst: append(dst, '{'), start: len(dst) + 1, json: true}
		j.append(&e)
		return append(e.dst, '}')
	})
	return append(out, "}\n"...), nil
}

var failureColumns = columnsOf[Failure]()

func (f *Failure) set(name, text string) error {
	if name == "version" {
		name = "v"
	}
	return parse(find(failureColumns, f, name), text)
}

func (f *Failure) check() error {
	if f.Message == "" {
		return errors.New("no text of the error")
	}
	if f.Timestamp.IsZero() {
		return errors.New("no timestamp")
	}
	return nil
}

// AppendCSV appends the record as one line of free CSV with its newline.
func (f *Failure) AppendCSV(dst []byte) []byte {
	return appendCSV(dst, failureColumns, f)
}

// AppendJSON appends the record as one JSON object and a newline.
func (f *Failure) AppendJSON(dst []byte) []byte {
	return append(appendObject(dst, failureColumns, f), '\n')
}
