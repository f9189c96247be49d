package site

import (
	"bytes"
	"encoding/json"
)

// EncodeJSON is json.Marshal without the escapes for HTML, by which a hostile text would grow to six times its size.
func EncodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
