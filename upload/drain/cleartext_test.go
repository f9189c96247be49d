package drain

import (
	"slices"
	"testing"
)

func TestClearText(t *testing.T) {
	for _, tc := range []struct {
		api, store string
		want       []string
	}{
		{"", "", nil},
		{"https://a.example", "https://b.example", nil},
		{"http://localhost:8080", "http://127.9.9.9", nil},
		{"http://[::1]:1", "", nil},
		{"http://u:secret@a.example:8080/x", "", []string{"the API's token crosses the network to a.example:8080 in clear text"}},
		{"http://10.0.0.1", "http://store", []string{
			"the API's token crosses the network to 10.0.0.1 in clear text", "uploads cross the network to store in clear text",
		}},
	} {
		if got := (Receiver{Endpoint: tc.api, S3Endpoint: tc.store}).ClearText(); !slices.Equal(got, tc.want) {
			t.Errorf("%s, %s: %q, want %q", tc.api, tc.store, got, tc.want)
		}
	}
}
