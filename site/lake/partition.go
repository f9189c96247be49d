package lake

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/resource-tracker/rt/site"
)

// none is Hive's name of a partition for null.
const none = "__HIVE_DEFAULT_PARTITION__"

// maxCluster is the largest length of a cluster in a name.
const maxCluster = 150

// PartitionOf returns the partition of a run: its cluster, and the date of its start in UTC. If a cluster has other
// characters than letters, digits, "-", "_" and ".", its partition has "_" for them, and a hash at the end.
func PartitionOf(cluster string, start time.Time) string {
	name := strings.Map(plain, cluster)
	isOther := name != cluster || len(name) > maxCluster
	if isOther {
		sum := sha256.Sum256([]byte(cluster))
		name = name[:min(len(name), maxCluster)] + "-" + hex.EncodeToString(sum[:4])
	}
	if name == "" {
		name = none
	}
	start = start.UTC()
	date := start.Format(time.DateOnly)
	isDate := start.Year() >= 1970 && start.Year() <= 9999
	if !isDate {
		date = none
	}
	return "cluster=" + name + "/date=" + date
}

// plain replaces characters that a name of an object does not have.
func plain(r rune) rune {
	if strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.", r) {
		return r
	}
	return '_'
}

// The tables.
const (
	tableRuns    = "runs"
	tableSamples = "samples"
)

func objectName(table, partition string, number int) string {
	return fmt.Sprintf("%s/%s/part-%05d.parquet", table, partition, number)
}

// objectNames matches the names of files: table, partition, date, number.
var objectNames = regexp.MustCompile(`^(runs|samples)/(cluster=[^/]+/date=([^/]+))/part-([0-9]{5,9})\.parquet$`)

// files are the files of a partition with one number: the runs and their samples.
type files struct {
	number        int
	runs, samples int64             // bytes; -1: there is none
	versions      map[string]string // by table
}

// list returns the files of a partition by number.
func (l *Lake) list(ctx context.Context, partition string) ([]files, error) {
	found := map[int]*files{}
	for _, table := range []string{tableRuns, tableSamples} {
		for o, err := range l.Store.List(ctx, table+"/"+partition+"/") {
			if err != nil {
				return nil, fmt.Errorf("list the files of the lake: %w", err)
			}
			m := objectNames.FindStringSubmatch(o.Name)
			if m == nil {
				continue
			}
			n, err := strconv.Atoi(m[4])
			if err != nil {
				return nil, err
			}
			if found[n] == nil {
				found[n] = &files{number: n, runs: -1, samples: -1, versions: map[string]string{}}
			}
			found[n].versions[table] = o.Version
			if table == tableRuns {
				found[n].runs = o.Bytes
			} else {
				found[n].samples = o.Bytes
			}
		}
	}
	all := make([]files, 0, len(found))
	for _, f := range found {
		all = append(all, *f)
	}
	slices.SortFunc(all, func(a, b files) int { return a.number - b.number })
	return all, nil
}

// isExpired reports whether a partition is too old.
func (l *Lake) isExpired(partition string, now time.Time) bool {
	if l.Retain <= 0 {
		return false
	}
	_, date, _ := strings.Cut(partition, "/date=")
	day, err := time.Parse(time.DateOnly, date)
	return err == nil && day.Add(24*time.Hour).Before(now.Add(-l.Retain))
}

// expire removes the files of partitions that are too old: first samples, so that no run lacks its samples for good.
func (l *Lake) expire(ctx context.Context, done *Totals) error {
	if l.Retain <= 0 {
		return nil
	}
	now := time.Now()
	for _, table := range []string{tableSamples, tableRuns} {
		var old []site.Stored
		for o, err := range l.Store.List(ctx, table+"/") {
			if err != nil {
				return fmt.Errorf("list the files of the lake: %w", err)
			}
			m := objectNames.FindStringSubmatch(o.Name)
			if m != nil && l.isExpired(m[2], now) {
				old = append(old, o)
			}
		}
		for _, o := range old {
			if err := l.delete(ctx, o.Name); err != nil {
				return err
			}
			done.Expired++
		}
	}
	return nil
}

// partitions returns the partitions that have files of any table: a writer that was killed may have left samples only.
func (l *Lake) partitions(ctx context.Context) ([]string, error) {
	var all []string
	for _, table := range []string{tableRuns, tableSamples} {
		for o, err := range l.Store.List(ctx, table+"/") {
			if err != nil {
				return nil, fmt.Errorf("list the files of the lake: %w", err)
			}
			if m := objectNames.FindStringSubmatch(o.Name); m != nil {
				all = append(all, m[2])
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// delete deletes a file.
func (l *Lake) delete(ctx context.Context, name string) error {
	if err := l.Check(ctx); err != nil {
		return fmt.Errorf("the lake may have another writer: %w", err)
	}
	return l.Store.Delete(ctx, name)
}
