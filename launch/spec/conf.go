package spec

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// ParseConf reads the text of --rdzv-conf, "key=value,key=value", as torchrun does:
// a later pair wins over an earlier one, and a pair without a value is an error. It
// drops quotes around the whole text. A shell would have removed them, but some
// scripts pass them on.
func ParseConf(s string) (map[string]string, error) {
	s = strings.TrimSpace(s)
	if n := len(s); n >= 2 && (s[0] == '\'' || s[0] == '"') && s[n-1] == s[0] {
		s = strings.TrimSpace(s[1 : n-1])
	}
	pairs := map[string]string{}
	if s == "" {
		return pairs, nil
	}
	for pair := range strings.SplitSeq(s, ",") {
		key, val, _ := strings.Cut(pair, "=")
		key, val = strings.TrimSpace(key), strings.TrimSpace(val)
		if key == "" {
			return nil, fmt.Errorf("%q is not key=value", pair)
		}
		if val == "" {
			return nil, fmt.Errorf("%s has no value", key)
		}
		pairs[key] = val
	}
	return pairs, nil
}

// confResult is the meaning of --rdzv-conf for one backend.
type confResult struct {
	Conf
	rank  int // -1: not given
	notes []string
}

// resolveConf gives the pairs their meaning. Wrong text is an error; keys without a
// meaning here become notes.
func resolveConf(pairs map[string]string, backend Backend) (confResult, error) {
	c := confResult{
		Conf: Conf{
			JoinTimeout:         600 * time.Second,
			LastCallTimeout:     30 * time.Second,
			KeepAliveInterval:   time.Second,
			KeepAliveMaxAttempt: 10,
		},
		rank: -1,
	}
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		val := pairs[key]
		var err error
		switch {
		case key == "join_timeout":
			err = positive(&c.JoinTimeout, val)
		case key == "last_call_timeout":
			c.LastCallTimeout, err = ParseSeconds(val)
		case key == "keep_alive_interval":
			err = positive(&c.KeepAliveInterval, val)
		case key == "keep_alive_max_attempt":
			c.KeepAliveMaxAttempt, err = wholeNumber(val, 1)
		case key == "is_host" && backend == Gossip:
			c.IsHost, err = parseBool(val)
		// torchrun's static rendezvous has this limit and no join_timeout.
		case key == "timeout" && backend == Static:
			if _, both := pairs["join_timeout"]; !both {
				err = positive(&c.JoinTimeout, val)
			}
		case key == "rank" && backend == Static:
			c.rank, err = wholeNumber(val, 0)
		default:
			c.notes = append(c.notes, fmt.Sprintf("--rdzv-conf %s has no meaning with the %s rendezvous and is ignored", key, backend))
		}
		if err != nil {
			return confResult{}, fmt.Errorf("cannot use --rdzv-conf: %s: %w", key, err)
		}
	}
	return c, nil
}

func positive(d *time.Duration, s string) error {
	v, err := ParseSeconds(s)
	if err == nil && v == 0 {
		err = fmt.Errorf("%s is not a positive time", s)
	}
	*d = v
	return err
}

func wholeNumber(s string, min int) (int, error) {
	n, err := parseInt(s)
	if err != nil || n < min {
		return 0, fmt.Errorf("%q is not a whole number of at least %d", s, min)
	}
	return n, nil
}

func parseBool(s string) (*bool, error) {
	var b bool
	switch strings.ToLower(s) {
	case "1", "true", "t", "yes", "y":
		b = true
	case "0", "false", "f", "no", "n":
	default:
		return nil, fmt.Errorf("%q is neither true nor false", s)
	}
	return &b, nil
}
