package config

import "cmp"

// Privacy decides which names leave a node when its runs are delivered: "plain", "pseudonym" or
// "none". It is a drain.Privacy with the path of the key.
type Privacy struct {
	Users       string `toml:"users" default:"plain" words:"plain pseudonym none"`       // names of users and groups
	Jobs        string `toml:"jobs" default:"plain" words:"plain pseudonym none"`        // names of jobs
	Directories string `toml:"directories" default:"plain" words:"plain pseudonym none"` // working directories
	Commands    string `toml:"commands" default:"plain" words:"plain none"`              // command lines and other texts; "plain" or "none"
	KeyFile     string `toml:"key_file" path:"optional"`                                 // key of the pseudonyms, the same on all nodes
}

// pseudonym is the value that needs a key.
const pseudonym = "pseudonym"

// For returns the privacy of the runs that are sent to a configured receiver.
func (p Privacy) For(s Sentinel) Privacy {
	return Privacy{
		Users: cmp.Or(s.PrivacyUsers, p.Users), Jobs: cmp.Or(s.PrivacyJobs, p.Jobs),
		Directories: cmp.Or(s.PrivacyDirectories, p.Directories), Commands: cmp.Or(s.PrivacyCommands, p.Commands),
		KeyFile: p.KeyFile,
	}
}

// NeedsKey reports whether some names leave as pseudonyms.
func (p Privacy) NeedsKey() bool {
	return p.Users == pseudonym || p.Jobs == pseudonym || p.Directories == pseudonym
}
