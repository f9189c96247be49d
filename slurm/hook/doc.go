// Package hook starts a tracker in a job's Prolog and stops it in the job's Epilog. The two
// find each other by the files of State.
package hook
