// Package sys reads figures of a process and its machine for an ftdc.FTDC: its types are Statsers.
// A figure that cannot be read is left out of the record.
//
//	f.Add("proc", sys.NewProcess(sys.NewFS("/proc"), os.Getpid()))
package sys
