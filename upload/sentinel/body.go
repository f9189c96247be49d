package sentinel

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/upload"
)

// specRegistration is the body of POST /runs as specified: flat (section 9.2.1).
type specRegistration struct {
	rt.Metadata
	rt.Host
	PID rt.Opt[uint64] `json:"pid,omitzero"`
}

// liveRegistration is the same for the public service, which refuses fields that it does not
// know.
type liveRegistration struct {
	rt.Metadata
	Command string `json:"command,omitempty"` // argv as a JSON array, in a string
	liveHost
}

// liveHost is rt.Host with the names of the public service.
type liveHost struct {
	HostID         string          `json:"host_id,omitempty"`
	HostName       string          `json:"host_hostname,omitempty"`
	HostIP         string          `json:"host_ip,omitempty"`
	HostAllocation string          `json:"host_server_allocation,omitempty"`
	VCPUs          rt.Opt[uint64]  `json:"host_vcpus,omitzero"`
	CPUModel       string          `json:"host_cpu_model,omitempty"`
	MemoryMiB      rt.Opt[uint64]  `json:"host_memory_mib,omitzero"`
	GPUModel       string          `json:"host_gpu_model,omitempty"`
	GPUCount       rt.Opt[uint64]  `json:"host_gpu_count,omitzero"`
	GPUVRAMMiB     rt.Opt[uint64]  `json:"host_gpu_memory_mib,omitzero"`
	StorageGB      rt.Opt[float64] `json:"host_storage_gb,omitzero"`

	CloudVendorID     string `json:"cloud_vendor_id,omitempty"`
	CloudAccountID    string `json:"cloud_account_id,omitempty"`
	CloudRegionID     string `json:"cloud_region_id,omitempty"`
	CloudZoneID       string `json:"cloud_zone_id,omitempty"`
	CloudInstanceType string `json:"cloud_instance_type,omitempty"`
}

// Registration returns the body of POST /runs in a dialect, for encoding/json.
func Registration(dialect string, run rt.Run, h rt.Host) any {
	meta := run.Meta
	if meta.ExternalRunID == "" {
		meta.ExternalRunID = run.ExternalRunID()
	}
	if dialect != upload.DialectLive {
		return specRegistration{Metadata: meta, Host: h, PID: run.PID}
	}
	live := liveRegistration{Metadata: meta, liveHost: liveHost(h)}
	if len(run.Command) > 0 {
		argv, err := json.Marshal(run.Command)
		if err == nil { // a []string always has a JSON form
			live.Command = string(argv)
		}
	}
	return live
}

// finishBody is the body of POST /runs/{id}/finish in both dialects: only the specified one
// has run_id, only the other one finished_at. The last two fields are for receivers that take
// records.
type finishBody struct {
	RunID      string        `json:"run_id,omitempty"`
	ExitCode   rt.Opt[int64] `json:"exit_code"`
	RunStatus  string        `json:"run_status"`
	FinishedAt string        `json:"finished_at,omitempty"` // ISO 8601, UTC
	DataSource string        `json:"data_source"`           // "s3" or "inline"
	DataURIs   []string      `json:"data_uris,omitempty"`
	DataCSV    string        `json:"data_csv,omitempty"` // base64(gzip(csv)); plain text in the other dialect

	Summary      json.RawMessage `json:"summary,omitempty"`
	RecordSHA256 string          `json:"record_sha256,omitempty"`
}

func finish(f upload.Finish) (finishBody, error) {
	b := finishBody{
		ExitCode: f.ExitCode, RunStatus: f.Status, DataSource: "s3", DataURIs: f.URIs, Summary: f.Summary, RecordSHA256: f.RecordSHA256,
	}
	live := f.Dialect == upload.DialectLive
	if live {
		b.FinishedAt = f.FinishedAt.UTC().Format(time.RFC3339Nano)
	} else {
		b.RunID = f.RemoteID
	}
	if len(f.URIs) > 0 {
		return b, nil
	}
	b.DataSource = "inline"
	if live {
		b.DataCSV = string(f.CSV)
		return b, nil
	}
	var err error
	b.DataCSV, err = pack(f.CSV)
	return b, err
}

// pack is base64(gzip(csv)), without a time stamp: the same text gives the same bytes.
func pack(csv []byte) (string, error) {
	var buf bytes.Buffer
	gz := gzip.NewWriter(&buf)
	gz.ModTime = time.Unix(0, 0) // "no time" in gzip; the zero Time would be written as a date
	if _, err := gz.Write(csv); err != nil {
		return "", fmt.Errorf("compress the inline data: %w", err)
	}
	if err := gz.Close(); err != nil {
		return "", fmt.Errorf("compress the inline data: %w", err)
	}
	return base64.StdEncoding.EncodeToString(buf.Bytes()), nil
}
