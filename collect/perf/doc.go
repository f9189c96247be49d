// Package perf counts hardware and software events of a job with perf_event_open(2).
//
// The events of the group "core" are counted for the processes of the job's cgroup, on
// each CPU (PERF_FLAG_PID_CGROUP), and those of "node" for all processes, so that the job's
// part is known (with cgroup version 2 slurmstepd is in the job's cgroup and counts as the
// job). The events of "rapl", the power PMU, and of "msr" (mperf, aperf, tsc) can only be
// counted for the whole node. The events of a group use a CPU's counters at the same time
// if these suffice, and one read(2) returns all of them.
//
// A CPU has few counters, and profilers need them: if the kernel removed ours from the CPU
// for a part of an interval, another process counts too, and the source pauses for a while.
// On a machine without such counters (most virtual ones), three software events are counted
// instead.
package perf
