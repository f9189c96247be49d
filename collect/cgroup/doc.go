// Package cgroup reads one job's control group, version 1 or 2, and watches for
// its coming and going. A Job waits by inotify until one of the places where the
// resource manager may make the job's directory is there, holds the files of that
// directory open, reads them again with pread and no allocation, and takes a
// reading of its own the instant a step or task directory is removed, because the
// job's counters can be gone 5 ms later.
//
// It only reads: it joins no group, and writes to no file of one but memory.peak,
// where that begins a new peak for its own descriptor and nobody else's, and v1's
// cgroup.event_control, by which the kernel tells it of an OOM.
package cgroup
