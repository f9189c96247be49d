package resourcetracker

import (
	"math"
	"strconv"

	"github.com/resource-tracker/rt"
)

// CSVHeader is the header line of section 7.2, with its newline.
const CSVHeader = "timestamp,processes,utime,stime,cpu_usage,memory_free,memory_used,memory_buffers,memory_cached," +
	"memory_active,memory_inactive,disk_read_bytes,disk_write_bytes,disk_space_total_gb,disk_space_used_gb," +
	"disk_space_free_gb,net_recv_bytes,net_sent_bytes,gpu_usage,gpu_vram,gpu_utilized\n"

// LiveCSVHeader is the header line of the live dialect, with its newline. The system_* columns are the node, the
// process_* columns the job or the tree.
const LiveCSVHeader = "timestamp,system_processes,system_utime,system_stime,system_cpu_usage,system_memory_free_mib," +
	"system_memory_used_mib,system_memory_buffers_mib,system_memory_cached_mib,system_memory_active_mib," +
	"system_memory_inactive_mib,system_disk_read_bytes,system_disk_write_bytes,system_disk_space_total_gb," +
	"system_disk_space_used_gb,system_disk_space_free_gb,system_net_recv_bytes,system_net_sent_bytes," +
	"system_gpu_usage,system_gpu_vram_mib,system_gpu_utilized,process_pid,process_children,process_utime," +
	"process_stime,process_cpu_usage,process_memory_mib,process_disk_read_bytes,process_disk_write_bytes," +
	"process_gpu_usage,process_gpu_vram_mib,process_gpu_utilized\n"

// notANumber is the last field of a row if it was not read. No row ends in a comma (T-CSV-06), and 0 would be a
// figure.
const notANumber = "NaN"

// AppendCSV appends the row of one interval, with its newline. timestamp is the
// interval's end in seconds since the epoch. Times have 3 decimals, usages and
// GPU memory 4, disk space 6 (section 7.2). A value that was not read is an empty
// field, or NaN at the end of the row. The buffers of a job are 0: the kernel counts
// them in its page cache, which is in memory_cached. A node without a GPU uses 0 GPUs.
func AppendCSV(dst []byte, timestamp int64, s *rt.Scalars) []byte {
	row := withoutGPU(s)
	isOfJob := row.MemCached.Valid() && !row.MemBuffers.Valid()
	if isOfJob {
		row.MemBuffers.Set(0)
	}
	dst = appendScalars(dst, timestamp, &row)
	if !row.GPUUtilized.Valid() {
		dst = append(dst, notANumber...)
	}
	return append(dst, '\n')
}

// withoutGPU returns the figures with 0 for the GPU use of a node that has no GPU: these columns are numbers in both
// dialects.
func withoutGPU(s *rt.Scalars) rt.Scalars {
	row := *s
	if row.GPUs == rt.Some[uint64](0) {
		row.GPUUsage, row.GPUVRAMUsed, row.GPUUtilized = rt.Some(0.0), rt.Some[uint64](0), rt.Some[uint64](0)
	}
	return row
}

// AppendLiveCSV appends a row of the live dialect: system is the node's interval (rt.ScopeNode), process the interval
// of the job or the tree below pid. A value that was not read is an empty field, also at the end of the row, as in
// the rows of other clients.
func AppendLiveCSV(dst []byte, timestamp int64, system *rt.Scalars, pid rt.Opt[uint64], process *rt.ProcessScalars) []byte {
	row := withoutGPU(system)
	dst = appendScalars(dst, timestamp, &row)
	dst = whole(dst, pid)
	dst = whole(dst, process.Children)
	dst = thousandths(dst, process.UserMillis)
	dst = thousandths(dst, process.SystemMillis)
	dst = fraction(dst, process.CPUUsage)
	dst = whole(dst, wholeMiB(process.Memory))
	dst = whole(dst, process.DiskReadBytes)
	dst = whole(dst, process.DiskWriteBytes)
	dst = fraction(dst, process.GPU.Usage)
	dst = mebibytes(dst, process.GPU.VRAMUsed)
	dst = whole(dst, process.GPU.Utilized)
	return append(dst, '\n')
}

func appendScalars(dst []byte, timestamp int64, s *rt.Scalars) []byte {
	dst = strconv.AppendInt(dst, timestamp, 10)
	dst = whole(dst, s.Processes)
	dst = thousandths(dst, s.UserMillis)
	dst = thousandths(dst, s.SystemMillis)
	dst = fraction(dst, s.CPUUsage)
	dst = whole(dst, s.MemFree)
	dst = whole(dst, s.MemUsed)
	dst = whole(dst, s.MemBuffers)
	dst = whole(dst, s.MemCached)
	dst = whole(dst, s.MemActive)
	dst = whole(dst, s.MemInactive)
	dst = whole(dst, s.DiskReadBytes)
	dst = whole(dst, s.DiskWriteBytes)
	dst = space(dst, s.SpaceTotal, s.SpaceAvailable)
	dst = whole(dst, s.NetRecvBytes)
	dst = whole(dst, s.NetSentBytes)
	dst = fraction(dst, s.GPUUsage)
	dst = mebibytes(dst, s.GPUVRAMUsed)
	return whole(dst, s.GPUUtilized)
}

// Each of these functions appends a comma and a field, which is empty if the value was not read.

func column[T any](dst []byte, o rt.Opt[T], one func([]byte, T) []byte) []byte {
	dst = append(dst, ',')
	if v, ok := o.Get(); ok {
		return one(dst, v)
	}
	return dst
}

func whole(dst []byte, o rt.Opt[uint64]) []byte { return column(dst, o, appendUint) }

func appendUint(dst []byte, v uint64) []byte { return strconv.AppendUint(dst, v, 10) }

func thousandths(dst []byte, o rt.Opt[uint64]) []byte {
	return column(dst, o, func(dst []byte, v uint64) []byte { return fixed(dst, v, 1000) })
}

func fraction(dst []byte, o rt.Opt[float64]) []byte {
	return column(dst, o, func(dst []byte, v float64) []byte {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return dst
		}
		if math.Abs(v) < 0.00005 {
			v = 0 // no "-0.0000"
		}
		return strconv.AppendFloat(dst, v, 'f', 4, 64)
	})
}

func mebibytes(dst []byte, o rt.Opt[uint64]) []byte {
	const unit, mask = 10_000, 1<<20 - 1
	return column(dst, o, func(dst []byte, v uint64) []byte { return fixed(dst, v>>20*unit+(v&mask*unit+1<<19)>>20, unit) })
}

// space appends total, used and free in GB. All are multiples of 1000 bytes as
// printed, so that used is exactly total - free (T-CSV-04).
func space(dst []byte, totalBytes, freeBytes rt.Opt[uint64]) []byte {
	const unit = 1_000_000
	totalBytes, freeBytes = thousands(totalBytes), thousands(freeBytes)
	total, ok1 := totalBytes.Get()
	free, ok2 := freeBytes.Get()
	gigabytes := func(dst []byte, v uint64) []byte { return fixed(dst, v, unit) }
	dst = column(dst, totalBytes, gigabytes)
	dst = append(dst, ',')
	switch {
	case !ok1 || !ok2:
	case free > total: // the file system reports invalid figures
		dst = fixed(append(dst, '-'), free-total, unit)
	default:
		dst = fixed(dst, total-free, unit)
	}
	return column(dst, freeBytes, gigabytes)
}

func thousands(o rt.Opt[uint64]) rt.Opt[uint64] {
	v, ok := o.Get()
	if !ok {
		return o
	}
	if v%1000 >= 500 {
		return rt.Some(v/1000 + 1)
	}
	return rt.Some(v / 1000)
}

// fixed appends v / unit with as many decimals as unit has zeros.
func fixed(dst []byte, v, unit uint64) []byte {
	dst = strconv.AppendUint(dst, v/unit, 10)
	dst = append(dst, '.')
	for v %= unit; unit > 1; v %= unit {
		unit /= 10
		dst = append(dst, '0'+byte(v/unit))
	}
	return dst
}
