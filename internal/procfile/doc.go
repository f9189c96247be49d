// Package procfile reads the text files of procfs, sysfs and cgroupfs, which are held open and read again. It has the
// one parser of /proc/<pid>/stat and of /proc/<pid>/mountinfo. A reading allocates nothing once the buffers have
// grown.
//
// It imports only the standard library, so that a program that starts in milliseconds can link it.
package procfile
