package handout

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/gorun/gorun/internal/term"
	"github.com/gorun/gorun/launch/munge"
)

// First is the first byte of a request. No message of gossip, of the store or of TLS
// begins with it.
const First = 'G'

const (
	greeting   = "GORUN-SECRET 1 "
	purpose    = "gorun secret 1"
	maxRequest = 1 << 10
	maxAnswer  = munge.MaxCredential + 1<<10
)

// request is what a node asks. It travels as the greeting and a line of JSON.
type request struct {
	Run   string `json:"run"`   // hash of the run id
	Nonce string `json:"nonce"` // makes an old credential useless
	Munge bool   `json:"munge"` // the node can open credentials
}

// way says where a node gets the secret.
type way string

// These are the ways of an answer.
const (
	byMunge    way = "munge"    // from the credential
	byFile     way = "file"     // from the file in the shared home folder
	byUser     way = "user"     // from the user, who gave it to the answering node
	byNobody   way = "none"     // the job has none
	ofOtherRun way = "otherrun" // the answering node is of another run
)

// answer is a line of JSON.
type answer struct {
	Way        way    `json:"way"`
	Credential string `json:"credential,omitempty"` // "": the asking node has no munge
	File       string `json:"file,omitempty"`       // name of the file, without a folder
	Why        string `json:"why,omitempty"`        // why there is no credential or no secret
}

// sealed is the text in a credential.
type sealed struct {
	Purpose string `json:"purpose"`
	Run     string `json:"run"`
	Nonce   string `json:"nonce"`
	Key     string `json:"key"`
}

var errNoGorun = errors.New("no gorun answers there")

// fileName is the form of the name of a file with a key: the run's hash, and a text
// that each file has for itself.
var fileName = regexp.MustCompile(`^secret-[0-9a-f]{16}-[0-9a-f]{32}$`)

// hashRun returns a run id as it travels and as it is in the name of a file.
func hashRun(id string) string {
	sum := sha256.Sum256([]byte("gorun run of a secret: " + id))
	return hex.EncodeToString(sum[:])
}

// randomText returns a random text of 64 characters.
func randomText() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails; without random bytes it ends the program
	return hex.EncodeToString(b[:])
}

// isRandomText reports whether a text has the form of what randomText and hashRun return.
func isRandomText(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == 32
}

func (r request) encode() []byte { return append([]byte(greeting), line(r)...) }

// decodeRequest reads a request, without the line's end.
func decodeRequest(text []byte) (r request, err error) {
	body, ok := strings.CutPrefix(string(text), greeting)
	if !ok || len(text) > maxRequest || json.Unmarshal([]byte(body), &r) != nil || !isRandomText(r.Run) || !isRandomText(r.Nonce) {
		return request{}, errNoGorun
	}
	return r, nil
}

func (a answer) encode() []byte { return line(a) }

// decodeAnswer reads an answer, without the line's end.
func decodeAnswer(text []byte) (a answer, err error) {
	if len(text) > maxAnswer || !utf8.Valid(text) || json.Unmarshal(text, &a) != nil {
		return answer{}, errNoGorun
	}
	switch a.Way {
	case byMunge, byUser, byNobody, ofOtherRun:
	case byFile:
		if !fileName.MatchString(a.File) {
			return answer{}, errNoGorun
		}
	default:
		return answer{}, errNoGorun
	}
	a.Why = term.OneLine(term.Truncate(a.Why, 300))
	return a, nil
}

// openSealed reads the text of a credential. It must answer one request.
func openSealed(text []byte, asked request) (key string, err error) {
	var s sealed
	switch {
	case len(text) > maxRequest || json.Unmarshal(text, &s) != nil || s.Purpose != purpose:
		return "", errors.New("its credential has no secret of a job")
	case s.Run != asked.Run:
		return "", errors.New("its credential is of another run")
	case s.Nonce != asked.Nonce:
		return "", errors.New("its credential answers another request")
	case !isRandomText(s.Key):
		return "", errors.New("its credential has no key")
	}
	return s.Key, nil
}

// line returns JSON with a line's end.
func line(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("handout: structs of strings are always JSON: " + err.Error())
	}
	return append(b, '\n')
}
