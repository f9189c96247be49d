// Package cgroup reads one job's control group, version 1 or 2, and watches for its
// beginning and end. A Job waits with inotify until one of the places where the resource
// manager may make the job's directory exists, holds the files of that directory open,
// reads them again with pread and no allocation, and takes a reading by itself at once
// when a step or task directory is removed, because the job's counters can be gone 5 ms
// later.
//
// It composes four packages: counters reads the files of one cgroup, tasks the steps,
// tasks and processes, pressure watches the memory limit, and watch finds and watches the
// directories. None of them knows how the resource manager arranges them: see Layout.
//
// It joins no group, and the only files that it writes to are memory.peak, where a write
// begins a new peak for its own descriptor alone, and v1's cgroup.event_control, by which
// the kernel signals an OOM.
package cgroup
