package spec

import (
	"fmt"
	"strings"
	"time"

	"github.com/gorun/gorun/envprop/ncclenv"
)

// Etcd says how to reach etcd, and how long its answers hold.
type Etcd struct {
	TLS               bool   // the user asked for TLS, with or without files
	CACert, Cert, Key string // files in PEM, "" for the system's authorities and no client certificate
	From              EtcdFrom
	ServerName        string // name that the servers' certificates must have; "": the endpoints' own names
	User, Password    string
	Prefix            string        // of all keys
	TTL               time.Duration // of the lease under which a node is a member (5 s)
	LostTimeout       time.Duration // how long a running job may go on without etcd (60 s)
}

// EtcdFrom says where the user named each file ("--etcd-cacert", "ETCDCTL_CACERT"),
// for messages.
type EtcdFrom struct{ CA, Cert, Key string }

// etcdFlags lists the flags that have a meaning with etcd only.
var etcdFlags = []string{"etcd_cacert", "etcd_cert", "etcd_key", "etcd_server_name", "etcd_user", "etcd_password"}

const (
	defaultEtcdPrefix = "/gorun"
	defaultEtcdTTL    = 5 * time.Second
	defaultEtcdLost   = 60 * time.Second
	minEtcdTTL        = 2 * time.Second // below it, ordinary delays would end a membership
)

func isEtcd(name string) bool { return name == string(EtcdV3) || name == "etcd-v2" }

// etcd sets up the rendezvous in etcd v3.
func (in *input) etcd(s *Spec, m meeting) {
	s.Backend = EtcdV3
	s.Etcd = Etcd{Prefix: defaultEtcdPrefix, TTL: defaultEtcdTTL, LostTimeout: defaultEtcdLost}
	if m.backend.text == "etcd-v2" {
		s.note("%s etcd-v2 means etcd here: gorun uses etcd's API v3", m.backend.from)
	}
	if !m.endpoint.given {
		in.fail("cannot use --rdzv-backend %s without --rdzv-endpoint HOST[:PORT],... of etcd", m.backend.text)
		return
	}
	hosts, _, err := cutScheme(m.endpoint.text)
	var list []Endpoint
	if err == nil {
		list, err = ParseEndpoints(hosts, DefaultEtcdPort)
	}
	if err != nil {
		in.fail("cannot use %s: %w", m.endpoint.from, err)
	}
	for _, e := range list {
		if e.Port == 0 {
			in.fail("cannot use %s %s: etcd has no port 0", m.endpoint.from, e)
		}
		if e.IsService() {
			in.fail("cannot use %s %s: a DNS service record is for the gossip rendezvous", m.endpoint.from, e)
		}
	}
	s.Endpoints = list
	in.noteUnused(s, EtcdV3, m.addr)
	in.noteUnused(s, EtcdV3, m.portFlag)
}

// cutScheme removes http:// and https:// from etcd's endpoints. scheme is "" if no
// endpoint has one. An endpoint without a scheme gets the scheme of the others.
func cutScheme(endpoints string) (hosts, scheme string, err error) {
	var list []string
	for part := range strings.SplitSeq(endpoints, ",") {
		part = strings.TrimSpace(part)
		this, host, found := strings.Cut(part, "://")
		switch {
		case !found:
			host = part
		case this != "http" && this != "https":
			return "", "", fmt.Errorf("%q begins with neither http:// nor https://", ncclenv.ShownAddress(part))
		case scheme != "" && this != scheme:
			return "", "", fmt.Errorf("%s and %s:// in one list: either all of etcd's endpoints use TLS or none does", ncclenv.ShownAddress(part), scheme)
		default:
			scheme = this
		}
		list = append(list, strings.TrimSuffix(host, "/"))
	}
	return strings.Join(list, ","), scheme, nil
}

// etcdConf reads how to reach etcd. A flag wins over --rdzv-conf, which wins over
// the variables of etcdctl. etcdConf removes the keys that it reads from pairs. The
// names are those of torchrun's two etcd rendezvous and of etcdctl.
func (in *input) etcdConf(s *Spec, pairs map[string]string) {
	e := &s.Etcd
	read := func(flag, variable string, keys ...string) value {
		v := in.text("etcd_"+flag, "")
		for _, k := range keys {
			if text := pairs[k]; text != "" && !v.given {
				v = value{text: text, from: in.get("rdzv_conf").from + " " + k, given: true}
			}
			delete(pairs, k)
		}
		if !v.given && variable != "" {
			v = value{from: variable, env: true}
			v.text, _ = in.lookup(variable)
			v.given = v.text != ""
		}
		return v
	}
	ca := read("cacert", "ETCDCTL_CACERT", "ca_cert", "cacert")
	cert := read("cert", "ETCDCTL_CERT", "ssl_cert", "cert")
	key := read("key", "ETCDCTL_KEY", "ssl_cert_key", "key")
	name := read("server_name", "", "server_name")
	e.User = read("user", "ETCDCTL_USER", "user").text
	e.Password = read("password", "ETCDCTL_PASSWORD", "password").text
	if user, password, ok := strings.Cut(e.User, ":"); ok && e.Password == "" { // etcdctl accepts this form, too
		e.User, e.Password = user, password
	}
	in.etcdTimes(e, pairs)
	for _, k := range []string{"prefix", "etcd_prefix"} {
		if v := pairs[k]; v != "" {
			e.Prefix = "/" + strings.Trim(v, "/")
			delete(pairs, k)
		}
	}
	in.etcdTLS(s, pairs["protocol"], ca, cert, key, name)
	delete(pairs, "protocol")
	switch {
	case (e.Cert == "") != (e.Key == ""):
		in.fail("cannot use a certificate for etcd without its key: give both --etcd-cert and --etcd-key")
	case e.Password != "" && e.User == "":
		in.fail("cannot use a password for etcd without a user: give --etcd-user")
	case e.User != "" && e.Password == "":
		in.fail("cannot use the etcd user %s without a password: give --etcd-user %s:PASSWORD or ETCDCTL_PASSWORD", e.User, e.User)
	}
}

// etcdTLS decides whether TLS is used. As with etcdctl, http:// wins over the
// variables, which may be meant for another etcd. Flags that contradict http:// are
// an error.
func (in *input) etcdTLS(s *Spec, protocol string, ca, cert, key, name value) {
	endpoint := in.text("rdzv_endpoint", "")
	_, scheme, _ := cutScheme(endpoint.text)
	from := fmt.Sprintf("%s %s", endpoint.from, endpoint.text)
	switch {
	case protocol != "" && protocol != "http" && protocol != "https":
		in.fail("cannot use --rdzv-conf: protocol: %q is neither http nor https", protocol)
	case protocol != "" && scheme != "" && protocol != scheme:
		in.fail("cannot use --rdzv-conf protocol=%s together with %s: they contradict each other", protocol, from)
	case protocol != "" && scheme == "":
		scheme, from = protocol, "--rdzv-conf protocol="+protocol
	}
	e := &s.Etcd
	if e.TLS = scheme == "https"; scheme == "http" {
		for _, v := range []*value{&ca, &cert, &key, &name} {
			switch {
			case v.given && v.env:
				s.note("%s is ignored: %s means no TLS", v.from, from)
				*v = value{}
			case v.given:
				in.fail("cannot use %s %s together with %s, which means no TLS: drop one, or write https", v.from, v.text, from)
			}
		}
	}
	source := func(v value) string {
		if v.given {
			return v.from
		}
		return ""
	}
	e.CACert, e.Cert, e.Key, e.ServerName = ca.text, cert.text, key.text, name.text
	e.From = EtcdFrom{source(ca), source(cert), source(key)}
	e.TLS = e.TLS || e.CACert != "" || e.Cert != "" || e.ServerName != ""
}

// noteEtcdFlags notes the flags that only etcd uses. It does not print their values,
// which may be secret.
func (in *input) noteEtcdFlags(s *Spec) {
	for _, name := range etcdFlags {
		if v := in.text(name, ""); v.given {
			s.note("%s has no meaning with the %s rendezvous and is ignored", v.from, s.Backend)
		}
	}
}

func (in *input) etcdTimes(e *Etcd, pairs map[string]string) {
	for _, t := range []struct {
		key string
		d   *time.Duration
		min time.Duration
	}{{"ttl", &e.TTL, minEtcdTTL}, {"lost_timeout", &e.LostTimeout, time.Second}} {
		v, ok := pairs[t.key]
		if !ok {
			continue
		}
		delete(pairs, t.key)
		err := positive(t.d, v)
		if err == nil && *t.d < t.min {
			err = fmt.Errorf("%v is less than %v", *t.d, t.min)
		}
		if err != nil {
			in.fail("cannot use --rdzv-conf: %s: %w", t.key, err)
		}
	}
}

// onJoin reads what a node does when it comes while the job runs.
func (in *input) onJoin(s *Spec) {
	v := in.text("on_join", "restart")
	if v.text != "restart" && v.text != "wait" {
		in.fail("cannot use %s: %q is neither restart nor wait", v.from, v.text)
	}
	s.JoinWaits = v.text == "wait"
	if v.given && s.MinNodes == s.MaxNodes {
		s.note("%s %s has no meaning with a fixed number of nodes and is ignored: nodes above it wait as spares", v.from, v.text)
	}
}
