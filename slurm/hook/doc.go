// Package hook starts a tracker from a Prolog and finds it again from the Epilog.
package hook
