// Package procfile reads the text files of procfs, sysfs and cgroupfs: files that
// are held open and read again, and the one parser each of /proc/<pid>/stat and
// /proc/<pid>/mountinfo. A reading allocates nothing once the buffers have grown.
//
// It imports only the standard library and no package of this module, so that a
// program that starts in milliseconds can link it.
package procfile
