package accounting

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/resource-tracker/rt/slurm"
)

// Texts are the texts of an account. They only describe the job: which job it is, the other fields say.
type Texts struct {
	User        string
	Account     string
	Partition   string
	QOS         string
	Reservation string
	NodeList    string
	JobName     string // empty until slurmdbd has it
}

// textFields are the names of the fields of Texts, in their order.
var textFields = []string{"User", "Account", "Partition", "QOS", "Reservation", "NodeList", "JobName"}

// Record identifies a record of sacct: a job or a step of one attempt.
type Record struct{ DBIndex, JobIDRaw string }

// ErrNoMark is wrapped by the error of ReadTexts if the output of sacct lacks the mark.
var ErrNoMark = errors.New("its output does not have the format of times that it was asked for in SLURM_TIME_FORMAT")

// ReadTexts runs sacct for fields that can be any text, and returns the texts by their record. args
// select the records. A user can put line feeds and separators into the name of a job, and sacct
// prints them as they are. So a time follows each field, and its format is a random word. No text
// has that word, and no user can read it in the environment of sacct.
func ReadTexts(ctx context.Context, program string, args, fields []string, maxBytes int) (map[Record][]string, error) {
	mark := newMark()
	output, err := run(ctx, program, textArgs(args, fields), maxBytes, "SLURM_TIME_FORMAT="+mark+"%%")
	if err != nil {
		return nil, err
	}
	all, err := parseTexts(output, mark+"%", len(fields))
	if err != nil {
		err = fmt.Errorf("%s: %w", program, err)
	}
	return all, err
}

func textArgs(args, fields []string) []string {
	columns := strings.Join(append([]string{"DBIndex", "JobIDRaw"}, fields...), ",Submit,") + ",Submit"
	return append(slices.Clone(args), "--parsable2", "--noheader", "--format="+columns)
}

// newMark returns a random word of 96 bits. With the "%" it is shorter than the shortest time: Slurm
// cuts a longer one.
func newMark() string {
	random := make([]byte, 12)
	_, _ = rand.Read(random) // it never fails
	return base64.RawURLEncoding.EncodeToString(random)
}

// parseTexts parses fields that are followed by the mark. A record that is there twice has no text.
// The error says that the output has something else; the texts come from the other records.
func parseTexts(output, mark string, n int) (all map[Record][]string, err error) {
	all = map[Record][]string{}
	twice := map[Record]bool{}
	for text := range strings.SplitSeq(output, "|"+mark+"\n") {
		if text == "" { // after the last record
			continue
		}
		fields := strings.Split(text, "|"+mark+"|")
		if len(fields) != 2+n {
			err = ErrNoMark
			continue
		}
		record := Record{fields[0], fields[1]}
		_, isKnown := all[record]
		twice[record] = isKnown
		all[record] = fields[2:]
	}
	for record, is := range twice {
		if is {
			delete(all, record)
		}
	}
	return all, err
}

// AddTexts runs sacct for the texts of the accounts of jobs, and adds the texts. After an error it
// adds what sacct printed.
func AddTexts(ctx context.Context, program string, jobs []uint64, accounts []Account, maxBytes int) error {
	all, err := ReadTexts(ctx, program, append(selectJobs(jobs), "--allocations"), textFields, maxBytes)
	addTexts(accounts, all)
	return err
}

func addTexts(accounts []Account, all map[Record][]string) {
	for i := range accounts {
		a := &accounts[i]
		index, ok := a.DBIndex.Get()
		values, isThere := all[Record{strconv.FormatUint(index, 10), strconv.FormatUint(a.JobID, 10)}]
		if ok && isThere {
			a.Texts = textsOf(values)
		}
	}
}

// noName is slurmdbd's name of a job if it knows only the end of the job.
const noName = "allocation"

// textsOf returns the values of textFields.
func textsOf(v []string) Texts {
	return Texts{User: v[0], Account: v[1], Partition: v[2], QOS: v[3], Reservation: v[4], NodeList: v[5], JobName: v[6]}.Storable()
}

// Storable returns the texts without those that cannot be stored. Of a job's name the characters
// that cannot are replaced.
func (t Texts) Storable() Texts {
	for _, text := range []*string{&t.User, &t.Account, &t.Partition, &t.QOS, &t.Reservation, &t.NodeList} {
		if !slurm.Printable(*text, slurm.MaxValue) {
			*text = ""
		}
	}
	if len(t.JobName) > slurm.MaxValue || t.JobName == noName {
		t.JobName = ""
	}
	t.JobName = storable(t.JobName)
	return t
}

// storable replaces each control character, and what is not UTF-8, by "?".
func storable(name string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return '?'
		}
		return c
	}, strings.ToValidUTF8(name, "?"))
}
