package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// slurmSettings are the settings of Slurm, by their names in lower case. A list such as Prolog has one
// value per entry.
type slurmSettings struct {
	values map[string][]string
	source string // the command or the file
	isFile bool   // a setting that is absent has Slurm's default
}

// index matches the number of an entry: scontrol of Slurm 24.11 prints Prolog[0].
var index = regexp.MustCompile(`\[\d+\]$`)

// parseSettings reads the output of "scontrol show config", or slurm.conf.
func parseSettings(text string) map[string][]string {
	values := map[string][]string{}
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		key, value, found := strings.Cut(line, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if !found || strings.ContainsAny(key, " \t") {
			continue
		}
		if value == "(null)" || strings.EqualFold(value, "N/A") {
			value = ""
		}
		key = strings.ToLower(index.ReplaceAllString(key, ""))
		values[key] = append(values[key], value)
	}
	return values
}

// slurmConfFiles are where slurm.conf can be; a node without configuration has the last one.
var slurmConfFiles = []string{"/etc/slurm/slurm.conf", "/usr/local/etc/slurm.conf", "/run/slurm/conf/slurm.conf"}

// settings asks slurmctld for its configuration, and reads slurm.conf if there is no answer.
func (d *Doctor) settings(ctx context.Context) (slurmSettings, error) {
	if d.SlurmConf != "" && !d.exists(d.SlurmConf) { // scontrol would look for it for a minute
		return slurmSettings{}, fmt.Errorf("SLURM_CONF names %s, which does not exist", d.SlurmConf)
	}
	text, cause := d.Command(ctx, "scontrol", "show", "config")
	values := parseSettings(string(text))
	if cause == nil && len(values) > 0 {
		return slurmSettings{values: values, source: "scontrol show config"}, nil
	}
	if cause == nil {
		cause = errors.New("scontrol printed no settings")
	}
	files := slurmConfFiles
	if d.SlurmConf != "" {
		files = []string{d.SlurmConf}
	}
	for _, file := range files {
		text, err := d.read(file)
		if err == nil {
			values := parseSettings(text)
			cgroups, err := d.read(path.Join(path.Dir(file), "cgroup.conf"))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				cause = errors.Join(cause, err)
			}
			maps.Copy(values, parseSettings(cgroups)) // no setting is in both
			return slurmSettings{values, file, true}, cause
		}
		if !errors.Is(err, fs.ErrNotExist) {
			cause = errors.Join(cause, err)
		}
	}
	return slurmSettings{}, cause
}

// get returns a setting, and whether it is known.
func (s *slurmSettings) get(key string) (string, bool) {
	values, found := s.values[strings.ToLower(key)]
	return strings.Join(values, ","), found
}

// list returns the words of a setting that is a list.
func (s *slurmSettings) list(key string) []string {
	text, _ := s.get(key)
	return slices.DeleteFunc(strings.Split(text, ","), func(w string) bool { return strings.TrimSpace(w) == "" })
}

// has reports whether a list has a word, in upper or lower case.
func (s *slurmSettings) has(key, word string) bool {
	return slices.ContainsFunc(s.list(key), func(w string) bool { return strings.EqualFold(strings.TrimSpace(w), word) })
}

// seconds returns a time limit; ok is false without a limit. Slurm prints 65534 or 4294967294 for none.
func (s *slurmSettings) seconds(key string) (limit time.Duration, ok bool) {
	text, _ := s.get(key)
	number, _, _ := strings.Cut(text, " ") // "30 sec"
	n, err := strconv.ParseUint(number, 10, 32)
	isLimit := err == nil && n > 0 && n < 65534
	return time.Duration(n) * time.Second, isLimit
}

// version is a version of Slurm: year and month.
type version struct{ year, month int }

func (v version) before(o version) bool {
	return v.year < o.year || (v.year == o.year && v.month < o.month)
}

func (v version) String() string { return fmt.Sprintf("%02d.%02d", v.year, v.month) }

// The versions of Slurm that rt supports, and the newest with which it was tested.
var (
	oldestSlurm = version{22, 5}
	newestSlurm = version{26, 5}
)

func parseVersion(text string) (v version, err error) {
	_, err = fmt.Sscanf(text, "%d.%d", &v.year, &v.month)
	if err != nil {
		return v, fmt.Errorf("%q is not a version of Slurm", text)
	}
	return v, nil
}
