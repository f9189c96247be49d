// Package sys has figures of a process and its machine as an ftdc.FTDC records them:
// its types are Statsers. What cannot be read is left out of the record.
//
//	f.Add("proc", sys.NewProcess(sys.NewFS("/proc"), os.Getpid()))
package sys
