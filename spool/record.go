package spool

import (
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
)

// column connects a column of a table to the field of a struct. Empty texts, absent values and
// zero times are NULL.
type column struct {
	name  string
	field any // a pointer
}

// inKiB is a figure in bytes with a column in KiB.
type inKiB struct{ *rt.Opt[uint64] }

func runColumns(r *rt.Run) []column {
	columns := []column{
		{"cluster", &r.Cluster}, {"job_id", &r.JobID}, {"array_job_id", &r.ArrayJobID},
		{"array_task_id", &r.ArrayTaskID}, {"het_job_id", &r.HetJobID},
		{"het_job_offset", &r.HetJobOffset}, {"step", &r.Step}, {"node", &r.Node},
		{"attempt", &r.Attempt}, {"sluid", &r.SLUID}, {"boot_id", &r.BootID}, {"start_us", &r.Start},
		{"scheduler", &r.Scheduler}, {"user", &r.User}, {"uid", &r.UID}, {"gid", &r.GID},
		{"group", &r.Group}, {"account", &r.Account}, {"partition", &r.Partition}, {"qos", &r.QOS},
		{"reservation", &r.Reservation}, {"node_list", &r.NodeList}, {"num_nodes", &r.NumNodes},
		{"alloc_cpus", &r.AllocCPUs}, {"alloc_mem_bytes", &r.AllocMem}, {"gpus", &r.GPUs},
		{"work_dir", &r.WorkDir}, {"comment", &r.Comment}, {"constraints", &r.Constraints},
		{"licenses", &r.Licenses}, {"step_tasks", &r.StepTasks}, {"job_start_us", &r.JobStart},
		{"job_end_limit_us", &r.JobEndLimit},
		{"command", &r.Command}, {"pid", &r.PID}, {"interval_secs", &r.Interval},
		{"cgroup_layout", &r.CgroupLayout}, {"cgroup_path", &r.CgroupPath},
		{"tracker_version", &r.TrackerVersion},
		{"state", (*string)(&r.State)}, {"outcome", (*string)(&r.Outcome)},
		{"outcome_source", &r.OutcomeSource}, {"exit_code", &r.ExitCode},
		{"exit_signal", &r.ExitSignal}, {"derived_exit", &r.DerivedExit}, {"end_us", &r.End},
		{"tags", &r.Meta.Tags},
	}
	for _, name := range rt.MetadataFields {
		columns = append(columns, column{name, r.Meta.Field(name)})
	}
	return columns
}

func hostColumns(h *rt.Host) []column {
	return []column{
		{"host_id", &h.HostID}, {"host_name", &h.HostName}, {"host_ip", &h.HostIP},
		{"host_allocation", &h.HostAllocation}, {"host_vcpus", &h.VCPUs}, {"host_cpu_model", &h.CPUModel},
		{"host_memory_mib", &h.MemoryMiB}, {"host_gpu_model", &h.GPUModel}, {"host_gpu_count", &h.GPUCount},
		{"host_gpu_vram_mib", &h.GPUVRAMMiB}, {"host_storage_gb", &h.StorageGB},
		{"cloud_vendor_id", &h.CloudVendorID}, {"cloud_account_id", &h.CloudAccountID},
		{"cloud_region_id", &h.CloudRegionID}, {"cloud_zone_id", &h.CloudZoneID},
		{"cloud_instance_type", &h.CloudInstanceType},
	}
}

func eventColumns(e *rt.Event) []column {
	return []column{
		{"time_us", &e.Time}, {"kind", &e.Kind}, {"name", &e.Name}, {"status", &e.Status}, {"detail", &e.Detail},
	}
}

func registrationColumns(r *rt.Registration) []column {
	return []column{
		{"endpoint", &r.Endpoint}, {"dialect", &r.Dialect}, {"run_id", &r.RemoteID},
		{"upload_uri_prefix", &r.UploadURIPrefix}, {"intent_us", &r.IntentAt},
		{"registered_us", &r.RegisteredAt}, {"finished_us", &r.FinishedAt}, {"attempts", &r.Attempts},
		{"scope", (*string)(&r.Scope)},
	}
}

func batchColumns(b *rt.Batch) []column {
	return []column{
		{"number", &b.Number}, {"first_seq", &b.FirstSeq}, {"last_seq", &b.LastSeq}, {"rows", &b.Rows},
		{"bytes", &b.Bytes}, {"sha256", &b.SHA256}, {"key", &b.Key}, {"sealed_us", &b.SealedAt},
		{"uploaded_us", &b.UploadedAt},
	}
}

// names lists the columns' names as SQL.
func names(columns []column) string {
	list := make([]string, len(columns))
	for i, c := range columns {
		list[i] = c.name
		if c.name == "group" { // a keyword of SQL. Quoted, a column that does not exist would be a text.
			list[i] = `"group"`
		}
	}
	return strings.Join(list, ", ")
}

// insertSQL inserts one row and replaces a row with the same key.
func insertSQL(table string, columns []column) string {
	return "INSERT OR REPLACE INTO " + table + " (" + names(columns) + ") VALUES (" + placeholders(len(columns)) + ")"
}

// updateSQL sets the columns in the one row of a table.
func updateSQL(table string, columns []column) string {
	return "UPDATE " + table + " SET (" + names(columns) + ") = (" + placeholders(len(columns)) + ") WHERE id = 1"
}

func selectSQL(table string, columns []column) string {
	return "SELECT " + names(columns) + " FROM " + table
}

// values encodes the fields.
func values(columns []column) []driver.Value {
	list := make([]driver.Value, len(columns))
	for i, c := range columns {
		list[i] = encode(c.field)
	}
	return list
}

func encode(field any) driver.Value {
	switch p := field.(type) {
	case *string:
		return textValue(*p)
	case *rt.Opt[uint64]:
		return optValue(*p)
	case *rt.Opt[int64]:
		return optValue(*p)
	case *rt.Opt[float64]:
		return optValue(*p)
	case *rt.Opt[bool]:
		return optValue(*p)
	case inKiB:
		n, ok := p.Get()
		if !ok {
			return nil
		}
		return toUnit(int64(n), kib)
	case *bool:
		if !*p {
			return nil
		}
		return int64(1)
	case *uint64:
		return int64(*p)
	case *int64:
		return *p
	case *int:
		return int64(*p)
	case *float64:
		return *p
	case *time.Time:
		if p.IsZero() {
			return nil
		}
		return p.UnixMicro()
	case *[]string:
		return jsonValue(len(*p), *p)
	case *map[string]string:
		return jsonValue(len(*p), *p)
	}
	return nil
}

func jsonValue(n int, v any) driver.Value {
	if n == 0 {
		return nil
	}
	text, _ := json.Marshal(v) // strings always marshal
	return string(text)
}

// scan decodes the first columns of a row into the fields.
func scan(row []driver.Value, columns []column) error {
	for i, c := range columns {
		if !decode(row[i], c.field) {
			return fmt.Errorf("column %s holds a %T, which is the wrong type", c.name, row[i])
		}
	}
	return nil
}

// decode is the reverse of encode. NULL does not change the field.
func decode(v driver.Value, field any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case int64:
		return decodeInt(v, field)
	case float64:
		switch p := field.(type) {
		case *rt.Opt[float64]:
			p.Set(v)
			return true
		case *float64:
			*p = v
			return true
		case inKiB:
			p.Set(uint64(int64(math.Round(v * kib))))
			return true
		}
	case string:
		switch p := field.(type) {
		case *string:
			*p = v
			return true
		case *[]string, *map[string]string:
			return json.Unmarshal([]byte(v), p) == nil
		}
	}
	return false
}

func decodeInt(v int64, field any) bool {
	switch p := field.(type) {
	case *rt.Opt[uint64]:
		p.Set(uint64(v))
	case *rt.Opt[int64]:
		p.Set(v)
	case *rt.Opt[float64]:
		p.Set(float64(v))
	case *rt.Opt[bool]:
		p.Set(v != 0)
	case inKiB:
		p.Set(uint64(v * kib))
	case *uint64:
		*p = uint64(v)
	case *int64:
		*p = v
	case *int:
		*p = int(v)
	case *float64:
		*p = float64(v)
	case *bool:
		*p = v != 0
	case *time.Time:
		*p = time.UnixMicro(v).UTC()
	default:
		return false
	}
	return true
}
