package spec

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestResolveEtcd checks all the ways in which a user can give the settings of
// etcd.
func TestResolveEtcd(t *testing.T) {
	base := Etcd{Prefix: "/gorun", TTL: 5 * time.Second, LostTimeout: time.Minute}
	with := func(f func(*Etcd)) Etcd {
		e := base
		f(&e)
		return e
	}
	for _, tt := range []struct {
		name  string
		flags map[string]string
		env   map[string]string
		want  Etcd
	}{
		{"plain", nil, nil, base},
		{"https", map[string]string{"rdzv_endpoint": "https://a,b:1"}, nil, with(func(e *Etcd) { e.TLS = true })},
		{"protocol", map[string]string{"rdzv_conf": "protocol=https,etcd_prefix=x/"}, nil, with(func(e *Etcd) { e.TLS, e.Prefix = true, "/x" })},
		{
			"torchrun's names",
			map[string]string{"rdzv_conf": "ca_cert=ca,ssl_cert=c,ssl_cert_key=k,ttl=2.5,lost_timeout=9"},
			nil,
			with(func(e *Etcd) {
				e.TLS, e.CACert, e.Cert, e.Key, e.TTL, e.LostTimeout = true, "ca", "c", "k", 2500*time.Millisecond, 9*time.Second
				e.From = EtcdFrom{"--rdzv-conf ca_cert", "--rdzv-conf ssl_cert", "--rdzv-conf ssl_cert_key"}
			}),
		},
		{
			"a flag wins",
			map[string]string{"etcd_cacert": "flag", "rdzv_conf": "cacert=conf"},
			map[string]string{"ETCDCTL_CACERT": "env"},
			with(func(e *Etcd) { e.TLS, e.CACert, e.From.CA = true, "flag", "--etcd-cacert" }),
		},
		{
			"etcdctl's CA", nil,
			map[string]string{"ETCDCTL_CACERT": "env"},
			with(func(e *Etcd) { e.TLS, e.CACert, e.From.CA = true, "env", "ETCDCTL_CACERT" }),
		},
		{"http", map[string]string{"rdzv_endpoint": "http://a/,b:1", "rdzv_conf": "protocol=http"}, nil, base},
		{"etcdctl's user", nil, map[string]string{"ETCDCTL_USER": "me:secret:x"}, with(func(e *Etcd) { e.User, e.Password = "me", "secret:x" })},
		{
			"password apart",
			map[string]string{"etcd_user": "me"},
			map[string]string{"ETCDCTL_PASSWORD": "p"},
			with(func(e *Etcd) { e.User, e.Password = "me", "p" }),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			flags := map[string]string{"rdzv_backend": "etcd", "rdzv_endpoint": "a,b:1", "nnodes": "2"}
			for k, v := range tt.flags {
				flags[k] = v
			}
			s, err := Raw{Flags: flags, Command: []string{"x"}}.Resolve(func(n string) (string, bool) {
				v, ok := tt.env[n]
				return v, ok
			})
			if err != nil {
				t.Fatal(err)
			}
			if s.Backend != EtcdV3 || s.Etcd != tt.want || len(s.Notes) > 0 {
				t.Errorf("%s %+v %q, want %+v", s.Backend, s.Etcd, s.Notes, tt.want)
			}
			if want := []Endpoint{{"a", 2379}, {"b", 1}}; !slices.Equal(s.Endpoints, want) {
				t.Errorf("%v, want %v", s.Endpoints, want)
			}
		})
	}
}

// TestResolveEtcdContradictions checks that contradictions are errors that name
// both sides.
func TestResolveEtcdContradictions(t *testing.T) {
	for _, tt := range []struct {
		endpoint string
		flags    map[string]string
		want     string
	}{
		{"http://me:hush@a:b", nil, `"***@a:b" is not host[:port]`},
		{"x://me:hush@a", nil, `"x://***@a" begins with neither`},
		{"http://a,https://b", nil, "cannot use --rdzv-endpoint: https://b and http:// in one list: either all"},
		{"ftp://a", nil, `cannot use --rdzv-endpoint: "ftp://a" begins with neither`},
		{"http://a", map[string]string{"etcd_cacert": "f"}, "cannot use --etcd-cacert f together with --rdzv-endpoint http://a"},
		{"http://a", map[string]string{"rdzv_conf": "ssl_cert=f,ssl_cert_key=k"}, "cannot use --rdzv-conf ssl_cert f together with --rdzv-endpoint http://a"},
		{"http://a", map[string]string{"etcd_server_name": "n"}, "cannot use --etcd-server-name n together"},
		{"http://a", map[string]string{"rdzv_conf": "protocol=https"}, "--rdzv-conf protocol=https together with --rdzv-endpoint http://a"},
		{"https://a", map[string]string{"rdzv_conf": "protocol=http"}, "--rdzv-conf protocol=http together with --rdzv-endpoint https://a"},
		{"a", map[string]string{"rdzv_conf": "protocol=http", "etcd_cacert": "f"}, "cannot use --etcd-cacert f together with --rdzv-conf protocol=http"},
		{"a", map[string]string{"rdzv_conf": "protocol=ftp"}, "neither http nor https"},
		{"a", map[string]string{"etcd_cert": "f"}, "without its key"},
	} {
		flags := map[string]string{"rdzv_backend": "etcd", "rdzv_endpoint": tt.endpoint, "nnodes": "2"}
		for k, v := range tt.flags {
			flags[k] = v
		}
		if _, err := resolve(flags, nil); err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s %v: %v, want %q", tt.endpoint, tt.flags, err, tt.want)
		}
	}
}

// TestResolveEtcdPlainWins checks that http:// wins over etcdctl's variables, as in
// etcdctl, and that a note says so.
func TestResolveEtcdPlainWins(t *testing.T) {
	s, err := resolve(map[string]string{"rdzv_backend": "etcd", "rdzv_endpoint": "http://a"},
		map[string]string{"ETCDCTL_CACERT": "ca", "ETCDCTL_CERT": "c", "ETCDCTL_KEY": "k"})
	if err != nil {
		t.Fatal(err)
	}
	if e := s.Etcd; e.TLS || e.CACert != "" || e.Cert != "" || e.Key != "" || e.From != (EtcdFrom{}) {
		t.Errorf("%+v", e)
	}
	if len(s.Notes) != 3 || s.Notes[0] != "ETCDCTL_CACERT is ignored: --rdzv-endpoint http://a means no TLS" {
		t.Errorf("%q", s.Notes)
	}
}

// TestResolveEtcdless checks that flags of etcd without etcd are noted, without
// their secrets.
func TestResolveEtcdless(t *testing.T) {
	s, err := resolve(map[string]string{"nnodes": "2", "rdzv_endpoint": "a", "etcd_user": "me:secret", "etcd_cacert": "f"}, nil)
	want := []string{
		"--etcd-cacert has no meaning with the gossip rendezvous and is ignored",
		"--etcd-user has no meaning with the gossip rendezvous and is ignored",
	}
	if err != nil || !slices.Equal(s.Notes, want) {
		t.Errorf("%q, %v", s.Notes, err)
	}
}

func TestResolveEtcdV2(t *testing.T) {
	s, err := Raw{Flags: map[string]string{"rdzv_backend": "etcd-v2", "rdzv_endpoint": "a"}, Command: []string{"x"}}.Resolve(func(string) (string, bool) { return "", false })
	if err != nil || s.Backend != EtcdV3 || len(s.Notes) != 1 || !strings.Contains(s.Notes[0], "v3") {
		t.Errorf("%+v, %v", s, err)
	}
}
