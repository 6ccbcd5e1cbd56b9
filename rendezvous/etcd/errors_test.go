package etcd

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/etcd/etcdtest"
)

// TestRunEndsWithWhatOnlyTheUserCanCorrect checks that such an error ends Run at once,
// in one line that names the endpoint.
func TestRunEndsWithWhatOnlyTheUserCanCorrect(t *testing.T) {
	plain := etcdtest.Start(t, etcdtest.Options{})
	secure := etcdtest.Start(t, etcdtest.Options{TLS: true, ClientCert: true})
	locked := etcdtest.Start(t, etcdtest.Options{User: "u", Password: "p", Prefix: "/other/"})
	other := etcdtest.Start(t, etcdtest.Options{})
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	sshd, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sshd.Close() })
	go func() {
		for {
			c, err := sshd.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("SSH-2.0-OpenSSH\r\n"))
			defer c.Close()
		}
	}()
	good := TLS{CA: secure.TLS.CA, Cert: secure.TLS.Cert, Key: secure.TLS.Key}
	with := func(edit func(*TLS)) TLS {
		g := good
		edit(&g)
		return g
	}
	tests := []struct {
		name string
		at   string
		edit func(*Config)
		want string
	}{
		{"TLS against plain", plain.Endpoints()[0], func(c *Config) { c.TLS = good }, "does not use TLS: write http://"},
		{"plain against TLS", secure.Endpoints()[0], nil, "speaks TLS: write https://"},
		{"another CA", secure.Endpoints()[0], func(c *Config) { c.TLS = with(func(t *TLS) { t.CA = secure.TLS.OtherCA }) }, "give the CA that has signed it"},
		{"the system's CAs", "https://" + secure.Endpoints()[0], nil, "give the CA that has signed it"},
		{"no client certificate", secure.Endpoints()[0], func(c *Config) { c.TLS = TLS{CA: secure.TLS.CA} }, "requires a client certificate"},
		{"another name", secure.Endpoints()[0], func(c *Config) { c.TLS = with(func(t *TLS) { t.ServerName = "etcd.example" }) }, "etcd.example"},
		{"no user", locked.Endpoints()[0], nil, "give a user and a password"},
		{"wrong password", locked.Endpoints()[0], func(c *Config) { c.User, c.Password = "u", "x" }, `refuses user "u"`},
		{"no such user", locked.Endpoints()[0], func(c *Config) { c.User, c.Password = "v", "p" }, `refuses user "v"`},
		{"no permission", locked.Endpoints()[0], func(c *Config) { c.User, c.Password = "u", "p" }, `does not let user "u" read and write keys below /gorun/run/`},
		{"a web server", strings.TrimPrefix(web.URL, "http://"), nil, "is not etcd"},
		{"two clusters", plain.Endpoints()[0], func(c *Config) { c.Endpoints = append(c.Endpoints, other.Endpoints()...) }, "are two etcd clusters: name one"},
		{"another program", sshd.Addr().String(), nil, "is not etcd"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := config(1, tt.at)
			if tt.edit != nil {
				tt.edit(&c)
			}
			r := start(t, c)
			select {
			case err := <-r.done:
				r.done <- nil
				if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), strings.TrimPrefix(tt.at, "https://")) || strings.Contains(err.Error(), "\n") {
					t.Errorf("%v", err)
				} else {
					t.Log(err)
				}
			case <-time.After(patience):
				t.Errorf("Run does not end: %+v", latest[rendezvous.Peers](r))
			}
		})
	}
	for name, edit := range map[string]func(*Config){
		"all is right": func(c *Config) { c.Endpoints, c.TLS = secure.Endpoints(), good },
		"another name": func(c *Config) {
			c.Endpoints, c.TLS = secure.Endpoints(), with(func(t *TLS) { t.ServerName = "etcd.test" })
		},
		"a user": func(c *Config) {
			c.Endpoints, c.User, c.Password, c.Prefix = locked.Endpoints(), "u", "p", "/other/"
		},
		"one of three is right": func(c *Config) {
			c.Endpoints = []string{sshd.Addr().String(), plain.Endpoints()[0], "127.0.0.1:1"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := config(1)
			edit(&c)
			r := start(t, c)
			meet(t, r)
			r.sealed(rendezvous.Seal{World: world("j", 0, r)})
			r.e.Unseal("j", 0)
			if err := r.stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRunWaitsForAnUnreachableEndpoint checks that Run waits for an endpoint that may
// still come, and says why.
func TestRunWaitsForAnUnreachableEndpoint(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	c.Kill(0)
	silent := etcdtest.NewProxy(t, c.Endpoints()[0])
	silent.Cut()
	for at, want := range map[string]string{
		c.Endpoints()[0]:    c.Endpoints()[0] + " refuses connections",
		silent.Addr():       silent.Addr() + " does not answer within 2s",
		"etcd.invalid:2379": "etcd.invalid:2379 cannot be resolved",
	} {
		r := start(t, config(1, at))
		eventually(t, func() bool { return strings.Contains(latest[rendezvous.Peers](r).Trouble, want) },
			func() string { return "it says: " + latest[rendezvous.Peers](r).Trouble })
		if first := all[rendezvous.Peers](r)[0].Trouble; !strings.Contains(first, want) {
			t.Errorf("its first Peers has no reason: %s", first)
		}
		if p := latest[rendezvous.Peers](r).All; len(p) != 1 || p[0].Endpoint != -1 {
			t.Errorf("%+v", p)
		}
		if at != c.Endpoints()[0] {
			if err := r.stop(); err != nil {
				t.Error(err)
			}
			continue
		}
		if err := c.Restart(0); err != nil {
			t.Fatal(err)
		}
		meet(t, r)
		eventually(t, func() bool { return latest[rendezvous.Peers](r).Trouble == "" }, func() string { return "still in trouble" })
		if err := r.stop(); err != nil {
			t.Error(err)
		}
		c.Kill(0)
	}
}

func TestBadConfig(t *testing.T) {
	for want, edit := range map[string]func(*Config){
		"user and password":                    func(c *Config) { c.User = "u" },
		"no endpoint":                          func(c *Config) { c.Endpoints = nil },
		"is no endpoint":                       func(c *Config) { c.Endpoints = []string{"ftp://a:1"} },
		"write host:port":                      func(c *Config) { c.Endpoints = []string{"a"} },
		"either all endpoints":                 func(c *Config) { c.Endpoints = []string{"http://a:1", "https://b:1"} },
		"cannot read the CA":                   func(c *Config) { c.TLS.CA = "/nonexistent" },
		"the CA /nonexistent of --etcd-cacert": func(c *Config) { c.TLS.CA, c.TLS.From.CA = "/nonexistent", "--etcd-cacert" },
		"/a of X with the key /b of Y: /a: no such file": func(c *Config) {
			c.TLS = TLS{Cert: "/a", Key: "/b", From: Files{Cert: "X", Key: "Y"}}
		},
		"no certificate in PEM":    func(c *Config) { c.TLS.CA = "/dev/null" },
		"its key must be given":    func(c *Config) { c.TLS.Cert = "/dev/null" },
		"means no TLS":             func(c *Config) { c.TLS.ServerName, c.Endpoints = "x", []string{"http://a:1"} },
		"must be at least 1s":      func(c *Config) { c.TTL = time.Millisecond },
		"the third not negative":   func(c *Config) { c.Grace = -1 },
		"cannot use the client ce": func(c *Config) { c.TLS.Cert, c.TLS.Key = "/dev/null", "/dev/null" },
	} {
		c := config(1, "a:1")
		edit(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}
