package api

import (
	_ "embed"
	"net/http"
)

// openAPI describes the API of the readers.
//
//go:embed openapi.json
var openAPI []byte

// serveOpenAPI answers GET /v1/openapi.json, to anyone.
func (s *readers) serveOpenAPI(w http.ResponseWriter, r *http.Request, _ reading, _ string) error {
	if _, err := parseQuery(r); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(openAPI) // the client has closed the connection
	return nil
}
