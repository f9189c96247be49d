// Package cgroup reads one job's control group, version 1 or 2, and watches for its
// beginning and end. A Job waits with inotify until the resource manager makes the job's
// directory in one of several places. It holds the files of the directory open, and reads
// them again with pread and no allocation. When a step or task directory is removed, the
// Job takes a reading at once: the job's counters can be gone 5 ms later.
//
// The package does not know how the resource manager arranges the directories: see Layout.
//
// It joins no group, and writes to two files only. A write to memory.peak begins a new peak
// for its own descriptor alone. A write to v1's cgroup.event_control requests a signal at an OOM.
package cgroup
