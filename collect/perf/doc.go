// Package perf counts hardware and software events of a job with perf_event_open(2).
//
// The events of the group "core" are counted for the processes of the job's cgroup,
// on each CPU (PERF_FLAG_PID_CGROUP), and those of "node" for all that runs there, so
// that the job's part of them is known (with cgroup version 2 slurmstepd is in the
// job's cgroup, and counts as the job); those of "rapl", the power PMU, and of "msr"
// (mperf, aperf, tsc) can only be counted for the whole node. Events of a group are
// on a CPU's counters together, as long as these are enough, and one read(2) has all.
//
// The counters of a CPU are few and whoever debugs a job wants them: when ours were
// off the CPU for a part of an interval somebody else counts, and the source stands
// down for a while. Where a machine has no such counters (most virtual ones), three
// software events are counted instead.
package perf
