package main

import (
	"io"
	"os"

	"github.com/pelletier/go-toml/v2"

	"github.com/resource-tracker/rt/internal/telemetry"
)

// maxConfig limits what is read of a configuration file, in bytes.
const maxConfig = 1 << 20

// config is the content of the user's TOML file (section 3.3), with the defaults.
type config struct {
	jobName  string
	pid      int                // 0: none
	interval uint64             // seconds
	connect  *telemetry.Address // of a GemPBA program; nil: none
}

// readConfig reads the file. It ignores, without a message, a file that is missing or invalid
// and keys that are unknown or of another type (section 3.3).
func readConfig(path string) config {
	c := config{interval: 1}
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return c
	}
	f, err := os.Open(path)
	if err != nil {
		return c
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxConfig))
	if err != nil {
		return c
	}
	c.parse(b)
	return c
}

func (c *config) parse(b []byte) {
	var doc map[string]any
	if toml.Unmarshal(b, &doc) != nil {
		return
	}
	job, _ := doc["job"].(map[string]any)
	tracker, _ := doc["tracker"].(map[string]any)
	if name, ok := job["name"].(string); ok {
		c.jobName = name
	}
	if pid, ok := job["pid"].(int64); ok && pid > 0 && pid == int64(int32(pid)) {
		c.pid = int(pid)
	}
	if secs, ok := tracker["interval_secs"].(int64); ok && secs >= 1 && secs <= maxInterval {
		c.interval = uint64(secs)
	}
	gempba, _ := doc["gempba"].(map[string]any)
	if text, ok := gempba["connect"].(string); ok {
		if a, err := telemetry.ParseAddress(text); err == nil {
			c.connect = &a
		}
	}
}
