package samples

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/resource-tracker/rt"
)

// DecodeJSON parses one line of resource-tracker: the sample, without its
// Scalars, and the version. A field that is not in section 6.1 is an error, except
// actual_interval_ms.
func DecodeJSON(line []byte) (rt.Sample, string, error) {
	var doc struct {
		rt.Sample
		Version  *string `json:"resource-tracker-version"`
		Interval uint64  `json:"actual_interval_ms"`
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	err := d.Decode(&doc)
	if err == nil {
		if _, end := d.Token(); !errors.Is(end, io.EOF) {
			err = errors.New("more than one value in the line")
		} else if doc.Version == nil {
			err = errors.New("no resource-tracker-version in it")
		}
	}
	if err != nil {
		return rt.Sample{}, "", fmt.Errorf("samples: parse a JSON sample: %w", err)
	}
	return doc.Sample, *doc.Version, nil
}
