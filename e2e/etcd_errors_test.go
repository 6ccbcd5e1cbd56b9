package e2e_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/porttest"
	"github.com/gorun/gorun/rendezvous/etcd/etcdtest"
)

// TestEtcdErrorsNameTheEndpoint checks that if a node cannot use etcd, it says why
// within seconds, in one line that names the endpoint. It waits until the end of the
// rendezvous for trouble that may pass, but not for trouble that only the user can
// repair. Both give 75; an unusable file gives 2.
func TestEtcdErrorsNameTheEndpoint(t *testing.T) {
	t.Parallel()
	plain := etcdtest.Start(t, etcdtest.Options{})
	secure := etcdtest.Start(t, etcdtest.Options{TLS: true, ClientCert: true})
	locked := etcdtest.Start(t, etcdtest.Options{User: "u", Password: "p", Prefix: "/other/"})
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	shut := fmt.Sprintf("127.0.0.1:%d", porttest.Free(t, ""))
	silent := etcdtest.NewProxy(t, plain.Endpoints()[0])
	silent.Cut()
	p, s, l, w := plain.Endpoints()[0], secure.Endpoints()[0], locked.Endpoints()[0], strings.TrimPrefix(web.URL, "http://")
	keys := []string{"--etcd-cert", secure.TLS.Cert, "--etcd-key", secure.TLS.Key}
	ca := func(file string, more ...string) []string {
		return append(append([]string{"--etcd-cacert", file}, keys...), more...)
	}
	none := filepath.Join(t.TempDir(), "none.pem")
	for _, c := range []struct {
		name, at string
		flags    []string
		code     int
		texts    []string
	}{
		{"refused", shut, nil, 75, []string{shut + " refuses connections"}},
		{"no answer", silent.Addr(), nil, 75, []string{silent.Addr() + " does not answer"}},
		{"no such name", "etcd.invalid:2379", nil, 75, []string{"etcd.invalid"}},
		{"not etcd", w, nil, 75, []string{w, "not etcd"}},
		{"http against https", s, nil, 75, []string{s, "https://"}},
		{"https against http", "https://" + p, nil, 75, []string{p, "http://"}},
		{"unknown CA", s, ca(secure.TLS.OtherCA), 75, []string{s, "CA"}},
		{"no client certificate", s, []string{"--etcd-cacert", secure.TLS.CA}, 75, []string{s, "requires a client certificate"}},
		{"wrong server name", s, ca(secure.TLS.CA, "--etcd-server-name", "etcd.example"), 75, []string{s, "etcd.example"}},
		{"no user", l, nil, 75, []string{l, "password"}},
		{"wrong password", l, []string{"--etcd-user", "u:x"}, 75, []string{l, `"u"`}},
		{"no permission", l, []string{"--etcd-user", "u:p"}, 75, []string{l, `"u"`, "/gorun/"}},
		{"no CA file", s, []string{"--etcd-cacert", none}, 2, []string{none}},
		{"CA file of something else", s, []string{"--etcd-cacert", secure.TLS.Key}, 2, []string{secure.TLS.Key}},
		{"no key file", s, []string{"--etcd-cacert", secure.TLS.CA, "--etcd-cert", secure.TLS.Cert, "--etcd-key", none}, 2, []string{none}},
		{"no key", s, []string{"--etcd-cert", secure.TLS.Cert}, 2, []string{"--etcd-cert", "--etcd-key"}},
		{"no password", l, []string{"--etcd-user", "u"}, 2, []string{"password"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, append(c.flags, "--rdzv-conf", "join_timeout=8")...).inEtcd(c.at)
			a := j.node(1, "1", sh("echo started")...)
			j.wantExit(longWait, c.code, a)
			j.wantCause(j.agents, c.texts...)
			if took := a.ended.Sub(a.began); took > 8*time.Second+shortWait {
				t.Errorf("it took %v", took)
			}
			if strings.Contains(a.out.String(), "started") {
				t.Error("a worker was started")
			}
			t.Logf("%v: %s", a.ended.Sub(a.began).Round(100*time.Millisecond), a.err)
		})
	}
	for name, c := range map[string]struct {
		at    string
		flags []string
		env   []string
	}{
		"flags":       {s, ca(secure.TLS.CA, "--etcd-server-name", "etcd.test"), nil},
		"rdzv-conf":   {"https://" + s, []string{"--rdzv-conf", "protocol=https,cacert=" + secure.TLS.CA + ",ssl_cert=" + secure.TLS.Cert + ",ssl_cert_key=" + secure.TLS.Key}, nil},
		"environment": {s, nil, []string{"ETCDCTL_CACERT=" + secure.TLS.CA, "ETCDCTL_CERT=" + secure.TLS.Cert, "ETCDCTL_KEY=" + secure.TLS.Key}},
		"user":        {l, []string{"--rdzv-conf", "prefix=/other"}, []string{"ETCDCTL_USER=u", "ETCDCTL_PASSWORD=p"}},
	} {
		t.Run("right by "+name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, c.flags...).inEtcd(c.at)
			j.env = c.env
			agents := j.nodes(2, sh(printRank)...)
			j.wantExit(longWait, 0, agents...)
			agents[1].waitForStdout("rank 1 of 2", 1)
		})
	}
}
