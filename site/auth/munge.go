package auth

import (
	"bytes"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os/exec"
	"os/user"
	"regexp"
	"strings"
	"time"

	"github.com/resource-tracker/rt/site"
)

// mungeTime is how long unmunge may take.
const mungeTime = 5 * time.Second

// mungeMax is how many processes of unmunge run at the same time. Further requests wait for mungeTime.
const mungeMax = 8

// mungeMaxOfAddress is how many of them are for requests of one address.
const mungeMaxOfAddress = 4

// credentialMax is the limit of a credential, in bytes, as in the clients of rt.
const credentialMax = 16 << 10

// outputMax is the limit of the output of unmunge, in bytes. The payload of a request is shorter.
const outputMax = 128 << 10

// Munge decodes credentials with unmunge, the program of MUNGE. The daemon munged refuses credentials that
// are expired, from the future, used before or sealed with another key.
type Munge struct {
	program string
	socket  string          // of munged; empty: its default
	turns   *site.Slots     // by address
	names   *lookup[string] // of users, by UID
}

// NewMunge returns the decoder that runs a program with the socket of munged, by default the one that it
// is compiled with.
func NewMunge(program, socket string) *Munge {
	return &Munge{program: program, socket: socket, turns: site.NewSlots(mungeMax, mungeMaxOfAddress), names: newLookup(func(uid string) (string, error) {
		u, err := user.LookupId(uid)
		if err != nil {
			return "", err
		}
		return u.Username, nil
	})}
}

// turn waits until unmunge may run for a request of an address. The caller calls leave after it.
func (m *Munge) turn(ctx context.Context, remote string) (leave func(), err error) {
	if address, err := netip.ParseAddrPort(remote); err == nil {
		remote = address.Addr().Unmap().String()
	}
	leave = m.turns.TakeUnits(ctx, remote, 1)
	if leave == nil {
		return nil, fmt.Errorf("%w: %d MUNGE credentials are being decoded, %d of them for one address", site.ErrBusy, mungeMax, mungeMaxOfAddress)
	}
	return leave, nil
}

// MungePayload is the payload of the credential of a request. It binds the credential to the request: a
// receiver cannot use the credential elsewhere.
func MungePayload(r *http.Request) string {
	return "rt-site/1\n" + r.Method + "\n" + r.Host + "\n" + r.RequestURI
}

// credentials matches the credentials of munge: base64 in armor.
var credentials = regexp.MustCompile(`^MUNGE:[A-Za-z0-9+/=]+:$`)

// user returns the name of the user who has made the credential of a request.
func (m *Munge) user(r *http.Request, credential string) (string, error) {
	isCredential := len(credential) <= credentialMax && credentials.MatchString(credential)
	if !isCredential {
		return "", fmt.Errorf("%w: this is not a MUNGE credential", site.ErrUnknownReader)
	}
	ctx, cancel := context.WithTimeout(r.Context(), mungeTime)
	defer cancel()
	leave, err := m.turn(ctx, r.RemoteAddr)
	if err != nil {
		return "", err
	}
	defer leave()
	uid, payload, err := m.decode(ctx, credential)
	if err != nil {
		return "", err
	}
	if subtle.ConstantTimeCompare([]byte(payload), []byte(MungePayload(r))) != 1 {
		return "", fmt.Errorf("%w: the MUNGE credential is for another request", site.ErrUnknownReader)
	}
	name, err := m.names.get(ctx, uid)
	if unknown := user.UnknownUserIdError(0); errors.As(err, &unknown) {
		return "", fmt.Errorf("%w: this machine knows no user with UID %s", site.ErrNoReader, uid)
	}
	if err != nil {
		return "", fmt.Errorf("find the user with UID %s: %w", uid, err)
	}
	return name, nil
}

// mungeRefusals are the exit statuses of unmunge for a credential that is not valid: enum munge_err of munge.h.
var mungeRefusals = map[int]string{
	8: "is damaged", 9: "has another version", 10: "has another cipher", 11: "has another MAC", 12: "has another compression",
	13: "is of another realm", 14: "is not sealed with the key of this site", 15: "is expired",
	16: "is from the future: compare the clocks", 17: "was used before", 18: "is for another user",
}

// decode runs unmunge. The credential is on its standard input: arguments are visible to all users.
func (m *Munge) decode(ctx context.Context, credential string) (uid, payload string, err error) {
	args := []string{"--numeric", "--keys=STATUS,UID"}
	if m.socket != "" {
		args = append(args, "--socket="+m.socket)
	}
	cmd := exec.CommandContext(ctx, m.program, args...)
	cmd.Env = []string{"LC_ALL=C", "PATH=/usr/bin:/bin"}
	cmd.Stdin = strings.NewReader(credential)
	stdout, stderr := limited{max: outputMax}, limited{max: 1 << 10}
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = time.Second
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		if refusal := mungeRefusals[exit.ExitCode()]; refusal != "" {
			return "", "", fmt.Errorf("%w: the MUNGE credential %s", site.ErrUnknownReader, refusal)
		}
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
	}
	if err != nil {
		return "", "", fmt.Errorf("run %s: %w", m.program, err)
	}
	return parseUnmunge(stdout.String())
}

var errUnmunge = errors.New("unmunge prints something else than STATUS and UID")

// parseUnmunge parses the output of unmunge: lines of a key and a value, an empty line, and the payload.
func parseUnmunge(text string) (uid, payload string, err error) {
	head, payload, found := strings.Cut(text, "\n\n")
	values := map[string]string{}
	for line := range strings.Lines(head) {
		key, value, _ := strings.Cut(line, ":")
		values[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	isComplete := found && len(values) == 2 && values["STATUS"] == "0"
	if !isComplete || !isNumber(values["UID"]) {
		return "", "", errUnmunge
	}
	return values["UID"], payload, nil
}

func isNumber(text string) bool {
	return text != "" && len(text) <= 10 && strings.Trim(text, "0123456789") == ""
}

// limited keeps the beginning of an output.
type limited struct {
	bytes.Buffer
	max int
}

func (l *limited) Write(b []byte) (int, error) {
	room := max(0, l.max-l.Len())
	l.Buffer.Write(b[:min(room, len(b))])
	return len(b), nil
}
