// Package config reads rt.toml, the configuration of all programs. An unknown key is an
// error, so that a typo changes nothing silently.
package config

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// DefaultPath is the file that Load reads for an empty path.
const DefaultPath = "/etc/rt/rt.toml"

// Config is rt.toml. The tags of a key are its name, its default, the limits of a number or
// duration, and whether a path may be empty. The tag words lists the words that the key accepts; a
// slash among them is an absolute path.
type Config struct {
	Spool    Spool    `toml:"spool"`
	Tracker  Tracker  `toml:"tracker"`
	Hooks    Hooks    `toml:"hooks"`
	Log      Log      `toml:"log"`
	Sentinel Sentinel `toml:"sentinel"`
	Privacy  Privacy  `toml:"privacy"`
	Drain    Drain    `toml:"drain"`
	Serve    Serve    `toml:"serve"`
	Site     Site     `toml:"site"`
	Waste    Waste    `toml:"waste"`
	Advice   Advice   `toml:"advice"`
	Energy   Energy   `toml:"energy"`
	Perf     Perf     `toml:"perf"`
	PowerAPI PowerAPI `toml:"powerapi"`
}

// Spool is the directory of runs that are not delivered yet.
type Spool struct {
	Dir            string   `toml:"dir" default:"/var/spool/rt" path:"required"` // one SQLite file per run, on a local disk
	User           string   `toml:"user" default:"rt"`                           // owner of the files; trackers run as this user
	CommitInterval Duration `toml:"commit_interval" default:"10s" in:"1s 1h"`    // snapshots are committed together at least this often
	Retain         Duration `toml:"retain" default:"168h" in:"0s 87840h"`        // how long a delivered run stays
	QuotaRun       Size     `toml:"quota_run" default:"64MiB"`                   // bytes of one run's file, 0: no limit
	QuotaNode      Size     `toml:"quota_node" default:"1GiB"`                   // bytes of all runs together, 0: no limit
	Access         string   `toml:"access" default:"owner"`                      // who may read a run: "owner", "group:NAME" or "root"
}

// Tracker is the daemon of one job on one node.
type Tracker struct {
	Path          string   `toml:"path" path:"optional"`                                       // the rt-tracker binary; empty: the one next to rt-prolog
	Interval      Duration `toml:"interval" default:"10s" in:"100ms 24h"`                      // between two readings
	FirstInterval Duration `toml:"first_interval" default:"1s" in:"100ms 24h"`                 // between two readings at the start of a job
	FirstFor      Duration `toml:"first_for" default:"1m" in:"0s 24h"`                         // how long the start of a job is
	Grace         Duration `toml:"grace" default:"5m" in:"1s 24h"`                             // how long a tracker waits for its Epilog after the job's end
	StateDir      string   `toml:"state_dir" default:"/run/rt" path:"required"`                // directory of the files by which Prolog and Epilog find each other; a reboot empties it
	HostCache     string   `toml:"host_cache" default:"/var/lib/rt/host.json" path:"optional"` // facts of the host and the cloud, written by rt-spool host; empty: none
	TopProcesses  int      `toml:"top_processes" default:"10" in:"0 1000"`                     // number of the job's processes with the most CPU time, and with the most memory; 0: none are read
	BudgetCPU     float64  `toml:"budget_cpu" default:"0.5" in:"0 100"`                        // part of a core that a tracker may use, in percent; 0: no limit

	FlightRecorder Size `toml:"flight_recorder" default:"4MiB"` // bytes of a node's flight records; 0: no records
}

// Hooks are rt-prolog and rt-epilog. A Prolog delays its job and an Epilog keeps its node,
// so both timeouts are short.
type Hooks struct {
	ReadyTimeout    Duration `toml:"ready_timeout" default:"250ms" in:"1ms 30s"`              // how long the Prolog waits for the tracker's first reading
	StopTimeout     Duration `toml:"stop_timeout" default:"2s" in:"1ms 1m"`                   // how long the Epilog waits for the tracker to end
	DisableFile     string   `toml:"disable_file" default:"/etc/rt/disabled" path:"optional"` // the hooks do nothing while this file exists
	BreakerFailures int      `toml:"breaker_failures" default:"5" in:"1 1000000"`             // the Prolog starts no tracker after this many failures in a row
	BreakerReset    Duration `toml:"breaker_reset" default:"1h" in:"1s 720h"`                 // until this time has passed
}

// Log is the log of hooks and trackers.
type Log struct {
	Target string `toml:"target" default:"syslog" words:"syslog /"` // "syslog" or the path of a file
}

// Sentinel is the receiver of runs.
type Sentinel struct {
	Endpoint   string `toml:"endpoint"`                                                    // base URL of the API; empty: nothing is sent
	TokenFile  string `toml:"token_file" default:"/etc/rt/sentinel-token" path:"optional"` // file with the API token on its first line
	Dialect    string `toml:"dialect" default:"auto" words:"spec live auto"`               // "spec", "live" or "auto"
	S3Endpoint string `toml:"s3_endpoint"`                                                 // base URL of an S3-compatible store; empty: Amazon's
	S3Region   string `toml:"s3_region"`                                                   // empty: the store's answer
	CAFile     string `toml:"ca_file" path:"optional"`                                     // PEM certificates trusted in addition to the system's
	AllowHTTP  bool   `toml:"allow_http"`                                                  // no warning when the token is sent in clear text

	// What leaves for this receiver, in the place of the keys of Privacy; empty: as those.
	PrivacyUsers       string `toml:"privacy_users" words:"plain pseudonym none"`
	PrivacyJobs        string `toml:"privacy_jobs" words:"plain pseudonym none"`
	PrivacyDirectories string `toml:"privacy_directories" words:"plain pseudonym none"`
	PrivacyCommands    string `toml:"privacy_commands" words:"plain none"`
}

// Drain is the delivery of the spooled runs.
type Drain struct {
	Scope       string   `toml:"scope" default:"job" words:"job node"`     // figures in a job's rows: of the "job" or of the "node"
	Concurrency int      `toml:"concurrency" default:"4" in:"1 64"`        // runs delivered at the same time
	Deadline    Duration `toml:"deadline" default:"30m" in:"1s 168h"`      // after this a drain stops; the next one continues
	Jitter      Duration `toml:"jitter" in:"0s 24h"`                       // limit of the random wait before a drain starts
	BatchRows   int      `toml:"batch_rows" default:"3600" in:"1 1000000"` // limit of the rows of one uploaded file

	Live     bool     `toml:"live" default:"true"`                // report runs that are not delivered yet to rt-site
	Interval Duration `toml:"interval" default:"30s" in:"0s 24h"` // the least time between two such reports

	Sacct         string   `toml:"sacct" default:"auto" words:"auto off /"`  // "auto", "off" or the path of sacct
	SacctDeadline Duration `toml:"sacct_deadline" default:"10s" in:"1s 10m"` // limit of its running time
	SacctWait     Duration `toml:"sacct_wait" default:"30s" in:"0s 24h"`     // limit of an ended run's wait for its record
}

// Serve is the receiver of rt-site serve.
type Serve struct {
	Listen    string `toml:"listen" default:"127.0.0.1:8470"`                           // host:port, or unix:/path
	Dir       string `toml:"dir" default:"/var/lib/rt/receiver" path:"required"`        // directory of the received runs
	Database  string `toml:"database"`                                                  // postgres://...; empty: registry.db in dir
	Objects   string `toml:"objects"`                                                   // s3://bucket/prefix; empty: objects in dir
	Endpoint  string `toml:"objects_endpoint"`                                          // base URL of the S3-compatible store; empty: Amazon's
	Keys      string `toml:"objects_keys" path:"optional"`                              // file with the credentials of the store; empty: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY
	Lake      string `toml:"lake"`                                                      // directory or s3://bucket/prefix of the Iceberg tables of rt-lake; empty: none
	Catalog   string `toml:"lake_catalog"`                                              // URL of an Iceberg REST catalog; empty: the database of the site
	TokenFile string `toml:"token_file" default:"/etc/rt/serve-tokens" path:"optional"` // file with the accepted API tokens, one per line
	TLSCert   string `toml:"tls_cert" path:"optional"`                                  // PEM file; empty: plain HTTP
	TLSKey    string `toml:"tls_key" path:"optional"`                                   // PEM file
	AccessLog string `toml:"access_log" path:"optional"`                                // file with a line for each request; empty: none

	Munge          string `toml:"munge" default:"off" words:"off on /"` // who reads: "off", "on" or the path of munged's socket
	ReadTokenFile  string `toml:"read_token_file" path:"optional"`      // file with the tokens of readers, one per line
	PrivacyKeyFile string `toml:"privacy_key_file" path:"optional"`     // file with the key of the nodes' pseudonyms; empty: none

	ProxyHeader  string   `toml:"proxy_header"`                    // header in which a proxy names the user; empty: none
	ProxyFrom    []string `toml:"proxy_from" default:""`           // addresses and networks of the proxy, or "unix"
	Operators    []string `toml:"operators" default:""`            // users, and groups with @, that read all runs
	Coordinators string   `toml:"coordinators" words:"sacctmgr /"` // "sacctmgr", or the path of a file; empty: none

	Name       string   `toml:"name"`                                    // of the site, at the top of the pages; empty: rt
	Logo       string   `toml:"logo" path:"optional"`                    // image next to the name; empty: none
	URL        string   `toml:"url"`                                     // of the pages as browsers see them; empty: not known
	ShareLife  Duration `toml:"share_life" default:"168h" in:"0s 8784h"` // of a link that shares a job; 0: there are none
	OIDCIssuer string   `toml:"oidc_issuer"`                             // URL of the provider of single sign-on; empty: none
	OIDCClient string   `toml:"oidc_client_id"`                          // of this site at the provider
	OIDCSecret string   `toml:"oidc_secret_file" path:"optional"`        // file with the secret of the client; empty: it has none
	OIDCClaim  string   `toml:"oidc_claim" default:"preferred_username"` // of the ID token, with the name of the user
	OIDCScopes string   `toml:"oidc_scopes" default:"profile"`           // in addition to openid, separated by blanks

	MaxObject      int      `toml:"max_object_mib" default:"64" in:"1 256"`    // MiB of one uploaded file, compressed
	MaxRequests    int      `toml:"max_requests" default:"256" in:"1 100000"`  // served at the same time, a quarter of them for one token; others wait
	ClientRate     int      `toml:"client_rate" in:"0 1000000"`                // requests a second from one address; 0: any number
	TokenRate      Size     `toml:"token_rate" default:"16MiB"`                // bytes a second of the requests with one token, on average; 0: any number
	Quota          Size     `toml:"quota"`                                     // bytes of all runs on the disk, 0: no limit
	TokenQuota     Size     `toml:"token_quota"`                               // bytes of the runs of one token, 0: no limit
	CredentialLife Duration `toml:"credential_life" default:"1h" in:"1m 720h"` // how long a run's upload credentials last
	RetainRuns     Duration `toml:"retain_runs" in:"0s 878400h"`               // how long a finished run stays; 0: forever
	RetainRecords  Duration `toml:"retain_records" in:"0s 878400h"`            // how long its complete record stays; 0: as long as the run
	RetainCSV      Duration `toml:"retain_csv" in:"0s 878400h"`                // how long its rows stay; 0: as long as the run
	RetainLake     Duration `toml:"retain_lake" in:"0s 878400h"`               // how long a date stays in the lake; 0: forever
}

// Site is the site service that rt-spool asks for runs of other machines.
type Site struct {
	URL         string   `toml:"url"`                                      // base URL of rt-site serve; empty: none is asked
	TokenFile   string   `toml:"token_file" path:"optional"`               // file with a read token on its first line; empty: MUNGE
	MungeSocket string   `toml:"munge_socket" path:"optional"`             // munged's socket; empty: the default of munge
	AllowHTTP   bool     `toml:"allow_http"`                               // no warning when the read token is sent in clear text
	CAFile      string   `toml:"ca_file" path:"optional"`                  // PEM certificates trusted in addition to the system's
	Timeout     Duration `toml:"timeout" default:"30s" in:"100ms 10m"`     // limit of one request with its answer
	Squeue      string   `toml:"squeue" default:"auto" words:"auto off /"` // "auto", "off" or the path of squeue, which knows jobs without a run
}

// Waste is what reserved resources cost, and from when on their use is shown as wasteful or harmful.
type Waste struct {
	GPU      float64 `toml:"gpu" default:"16" in:"0 1000000"`   // core-hours to which an hour of a GPU is equivalent
	GiB      float64 `toml:"gib" default:"0.25" in:"0 1000000"` // core-hours to which an hour of a GiB of memory is equivalent
	CoreHour float64 `toml:"core_hour" in:"0 1000000"`          // price of a core-hour; 0: no price is shown
	Currency string  `toml:"currency"`                          // of the price
	Wasteful float64 `toml:"wasteful" default:"50" in:"0 100"`  // percent of what was requested: less use is wasteful
	Harmful  float64 `toml:"harmful" default:"95" in:"0 1000"`  // percent of a limit of memory or time: more use is harmful
}

// Advice is when a submission gets a line of advice.
type Advice struct {
	Waste float64 `toml:"waste" default:"10" in:"0 1000000"` // core-hours that comparable jobs of 30 days wasted together: from here on
	Runs  int     `toml:"runs" default:"3" in:"1 1000"`      // comparable jobs that finished: from here on
}

// Energy is the energy that the node measures, and what is computed from it.
type Energy struct {
	Source    string  `toml:"source" default:"auto" words:"auto off"` // "auto" or "off": whether trackers read it
	IdleWatts float64 `toml:"idle_watts" in:"0 1000000"`              // power of the node without a job; 0: the least measured
	CO2e      float64 `toml:"co2e_grams_per_kwh" in:"0 100000"`       // of the site's electricity; 0: unknown
}

// Perf are the hardware and software counters of a job.
type Perf struct {
	Core string `toml:"core"` // events of the job's cgroup, separated by commas; empty: none
	Node string `toml:"node"` // events of the whole node while core is counted
	RAPL string `toml:"rapl"` // events of the node's power PMU
	MSR  string `toml:"msr"`  // events of the node's msr PMU
}

// PowerAPI is the stream of reports to a formula.
type PowerAPI struct {
	Socket  string `toml:"socket"`                                // host:port of the formula; empty: none
	Reports string `toml:"reports" default:"hwpc"`                // kinds of reports, separated by commas: "hwpc", "power", "procfs"
	Queue   int    `toml:"queue" default:"10000" in:"1 10000000"` // limit of the reports that wait while there is no connection to the formula
}

// Duration is a time span, written as a string such as "250ms", "10s" or "168h".
type Duration struct{ time.Duration }

// UnmarshalText parses a duration of time.ParseDuration.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf(`%q is not a duration such as "250ms", "10s" or "168h"`, text)
	}
	d.Duration = v
	return nil
}

// MarshalText formats the duration for UnmarshalText.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// Size is a number of bytes, written as a string such as "64MiB", "1GiB" or "0".
type Size struct{ Bytes int64 }

// units are the suffixes of a Size, the largest first.
var units = []struct {
	suffix string
	bytes  int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}, {"", 1}}

// UnmarshalText parses a whole number and a unit; without a unit it is bytes.
func (s *Size) UnmarshalText(text []byte) error {
	for _, u := range units {
		number, ok := strings.CutSuffix(string(text), u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64/u.bytes {
			break
		}
		s.Bytes = n * u.bytes
		return nil
	}
	return fmt.Errorf(`%q is not a size such as "64MiB", "1GiB" or "0"`, text)
}

// String formats the size in the largest unit that divides it.
func (s Size) String() string {
	for _, u := range units {
		if s.Bytes != 0 && s.Bytes%u.bytes == 0 {
			return strconv.FormatInt(s.Bytes/u.bytes, 10) + u.suffix
		}
	}
	return "0"
}

// MarshalText formats the size for UnmarshalText.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Default returns the configuration of an empty rt.toml.
func Default() Config {
	var c Config
	setDefaults(c.keys())
	return c
}

func setDefaults(keys []key) {
	for _, k := range keys {
		if text, has := k.tag.Lookup("default"); has {
			k.set(text)
		}
	}
}

// key is one key of rt.toml.
type key struct {
	section reflect.StructTag
	tag     reflect.StructTag
	value   reflect.Value // can be set
}

// name is section.key.
func (k *key) name() string { return k.section.Get("toml") + "." + k.tag.Get("toml") }

// keys lists the keys. It runs in each hook and each start of a tracker: names are for errors only.
func (c *Config) keys() []key {
	list := make([]key, 0, 128)
	for section, value := range reflect.ValueOf(c).Elem().Fields() {
		for k, v := range value.Fields() {
			list = append(list, key{section.Tag, k.Tag, v})
		}
	}
	return list
}

// set sets the value to a default; a test compares all of them with rt.toml(5).
func (k *key) set(text string) {
	switch v := k.value.Addr().Interface().(type) {
	case *string:
		*v = text
	case *[]string:
		*v = strings.Fields(text)
	case *int:
		*v, _ = strconv.Atoi(text)
	case *bool:
		*v = text == "true"
	case *float64:
		*v, _ = strconv.ParseFloat(text, 64)
	case encoding.TextUnmarshaler:
		_ = v.UnmarshalText([]byte(text))
	}
}
