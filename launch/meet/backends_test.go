package meet

import (
	"strings"
	"testing"
)

func TestLookupMaster(t *testing.T) {
	for host, want := range map[string]masterAddress{
		"127.0.0.9":            {ip: "127.0.0.9"},
		"localhost":            {ip: "127.0.0.1"},
		"::1":                  {ip: "::1"},
		"192.0.2.77":           {why: "this machine does not have that address"},
		"no-such-host.invalid": {why: "gorun cannot look up the name ("},
	} {
		got := lookupMaster(t.Context(), host)
		if host == "localhost" && got.ip == "::1" {
			continue // this machine's /etc/hosts maps it so
		}
		if got.ip != want.ip || !strings.HasPrefix(got.why, want.why) || (got.why == "") != (want.why == "") {
			t.Errorf("%s: %+v, want %+v", host, got, want)
		}
	}
}
