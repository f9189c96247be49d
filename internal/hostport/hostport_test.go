package hostport

import (
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestCheck(t *testing.T) {
	for text, want := range map[string]string{
		"127.0.0.1:9000": "", ":0": "", "[::1]:9000": "", "n1:65535": "", "n1:http": "",
		"": `"": give HOST:PORT, such as n:1`, "9000": `"9000": give HOST:PORT, such as n:1`,
		"n1:":      `"n1:": the port is no number from 0 to 65535: give HOST:PORT, such as n:1`,
		"n1:65536": "the port is no number", "n1:-1": "the port is no number", "::1:9000": "in brackets, as [::1]:9000",
		"a b:1": "the host is neither a name nor an address",
	} {
		err := Check(text, "n:1")
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestListenError(t *testing.T) {
	of := func(err error) error {
		return &net.OpError{Op: "listen", Net: "tcp", Addr: &net.TCPAddr{Port: 80}, Err: err}
	}
	for want, err := range map[string]error{
		"choose another port":                      of(os.NewSyscallError("bind", syscall.EADDRINUSE)),
		"this machine has no such address":         of(os.NewSyscallError("bind", syscall.EADDRNOTAVAIL)),
		"only root may listen at ports below 1024": of(os.NewSyscallError("bind", syscall.EACCES)),
		"this name has no address":                 of(&net.DNSError{Err: "no such host", Name: "x", IsNotFound: true}),
		"something else":                           of(errors.New("something else")),
	} {
		got := ListenError(err)
		if !strings.Contains(got.Error(), want) || strings.Contains(got.Error(), "listen tcp") {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
		if cause := new(syscall.Errno); errors.As(err, cause) && !errors.Is(got, *cause) {
			t.Errorf("%v: %q has lost its cause", err, got)
		}
	}
	if err := ListenError(nil); err != nil {
		t.Errorf("nil: %v", err)
	}
}

func TestCrossesNetwork(t *testing.T) {
	for text, want := range map[string]bool{
		"http://receiver.example/v1": true, "http://192.0.2.1:8080": true, "http://[2001:db8::1]": true,
		"https://receiver.example": false, "http://localhost:8080": false, "http://127.0.0.2:1": false, "http://[::1]:1": false, "": false, "http://%": false,
	} {
		if got := CrossesNetwork(text); got != want {
			t.Errorf("%q: %t, want %t", text, got, want)
		}
	}
}
