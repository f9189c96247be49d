package config

import (
	"cmp"
	"fmt"
)

// Privacy decides which names leave a node when its runs are delivered: "plain", "pseudonym" or
// "none". It is a drain.Privacy with the path of the key.
type Privacy struct {
	Users       string `toml:"users" default:"plain"`       // names of users and groups
	Jobs        string `toml:"jobs" default:"plain"`        // names of jobs
	Directories string `toml:"directories" default:"plain"` // working directories
	Commands    string `toml:"commands" default:"plain"`    // command lines and other texts; "plain" or "none"
	KeyFile     string `toml:"key_file" path:"optional"`    // key of the pseudonyms, the same on all nodes
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

// checkPrivacy does not read the key: hooks and trackers, which parse the file too, need none.
func (c *Config) checkPrivacy() *keyError {
	p, s := &c.Privacy, &c.Sentinel
	for _, k := range [...]struct {
		key, value string
		isOptional bool
	}{
		{"privacy.users", p.Users, false}, {"privacy.jobs", p.Jobs, false}, {"privacy.directories", p.Directories, false},
		{"sentinel.privacy_users", s.PrivacyUsers, true}, {"sentinel.privacy_jobs", s.PrivacyJobs, true},
		{"sentinel.privacy_directories", s.PrivacyDirectories, true},
	} {
		isUnset := k.isOptional && k.value == ""
		isKnown := k.value == "plain" || k.value == pseudonym || k.value == "none"
		if !isUnset && !isKnown {
			return &keyError{k.key, fmt.Sprintf("%q is none of \"plain\", \"pseudonym\" and \"none\"", k.value)}
		}
	}
	if w := p.Commands; w != "plain" && w != "none" {
		return &keyError{"privacy.commands", fmt.Sprintf("%q is neither \"plain\" nor \"none\"", w)}
	}
	if w := s.PrivacyCommands; w != "" && w != "plain" && w != "none" {
		return &keyError{"sentinel.privacy_commands", fmt.Sprintf("%q is neither \"plain\" nor \"none\"", w)}
	}
	return nil
}
