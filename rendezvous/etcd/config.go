package etcd

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/gorun/gorun/internal/smallfile"
	"github.com/gorun/gorun/rendezvous"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// Config of one agent. Only ID, RunID, Control and Endpoints must be given.
type Config struct {
	ID      rendezvous.NodeID
	Name    string // for messages
	RunID   string // part of every key
	Control string // host:port of this agent's control plane

	Endpoints []string // host:port, or a URL with http:// or https://
	Prefix    string   // of all keys, "/gorun" if empty
	TLS       TLS
	User      string
	Password  string

	TTL         time.Duration // of this agent's membership: whole seconds, at least 1; 5 s if zero
	LostTimeout time.Duration // how long a running job may do without etcd; 60 s if zero
	Grace       time.Duration // what stopping the workers may take at most

	// Lost is called when this agent sealed the running world and cannot keep the run
	// id any longer. It is called at most once for each lease of the run id, from Run's
	// goroutines, and must not block.
	Lost func(error)
	// Clock returns the time since some moment. It is the machine's time since boot
	// if nil.
	Clock func() time.Duration
}

// TLS of the connection to etcd. With any of it given, an endpoint without a
// scheme means https.
type TLS struct {
	CA         string // file with the trusted authorities; the system's if empty
	Cert, Key  string // files of this client's certificate
	From       Files  // flag or variable that named each file, for messages: "--etcd-cacert"
	ServerName string // name that the server's certificate must have; the endpoint's host if empty
}

// Files has one text for each file of TLS.
type Files struct{ CA, Cert, Key string }

// Etcd is one agent among the others.
type Etcd struct {
	cfg    Config
	client clientv3.Config
	keys   keys
	state
}

const (
	defaultTTL  = 5 * time.Second
	defaultLost = time.Minute
	// callLimit bounds one request. Another member of the cluster may answer the next
	// one.
	callLimit = 2 * time.Second
)

// New checks the configuration and reads the certificates. Its errors are bad input.
func New(cfg Config) (*Etcd, error) {
	if cfg.Prefix == "" {
		cfg.Prefix = "/gorun"
	}
	if cfg.TTL == 0 {
		cfg.TTL = defaultTTL
	}
	if cfg.LostTimeout == 0 {
		cfg.LostTimeout = defaultLost
	}
	if cfg.Clock == nil {
		cfg.Clock = sinceBoot
	}
	switch {
	case cfg.TTL < time.Second || cfg.LostTimeout < time.Second || cfg.Grace < 0:
		return nil, fmt.Errorf("etcd: lease %v, lost timeout %v, grace period %v: the first two must be at least 1s, the third not negative", cfg.TTL, cfg.LostTimeout, cfg.Grace)
	case (cfg.User == "") != (cfg.Password == ""):
		return nil, errors.New("etcd: user and password must be given together")
	case len(cfg.Endpoints) == 0:
		return nil, errors.New("etcd: no endpoint is given; give its host:port")
	}
	t, err := cfg.TLS.load()
	if err != nil {
		return nil, err
	}
	urls, err := urls(cfg.Endpoints, t != nil)
	if err != nil {
		return nil, err
	}
	if t == nil && strings.HasPrefix(urls[0], "https://") {
		t = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	e := &Etcd{
		cfg: cfg, keys: newKeys(cfg.Prefix, cfg.RunID, cfg.ID),
		client: clientv3.Config{
			Endpoints: urls, TLS: t, Username: cfg.User, Password: cfg.Password, Logger: zap.NewNop(),
			DialTimeout: callLimit, DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 3 * time.Second,
			MaxCallRecvMsgSize: 16 << 20, // the keys of as many nodes as fit one round
			DialOptions:        []grpc.DialOption{grpc.WithNoProxy()},
		},
	}
	if cfg.TLS.ServerName != "" { // else gRPC verifies the endpoint's host and ignores TLS.ServerName
		e.client.DialOptions = append(e.client.DialOptions, grpc.WithAuthority(cfg.TLS.ServerName))
	}
	e.client.DialOptions = append(e.client.DialOptions, e.dialOptions()...)
	e.prepare()
	return e, nil
}

// load reads the files. It returns nil if no field is set.
func (t TLS) load() (*tls.Config, error) {
	if t == (TLS{}) {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CA != "" {
		b, _, err := smallfile.Read(t.CA, maxPEM)
		if err != nil {
			return nil, fmt.Errorf("etcd: cannot read the CA %s%s: %w", t.CA, of(t.From.CA), err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(b) {
			return nil, fmt.Errorf("etcd: %s%s holds no certificate in PEM", t.CA, of(t.From.CA))
		}
	}
	if (t.Cert == "") != (t.Key == "") {
		return nil, errors.New("etcd: a client certificate and its key must be given together")
	}
	if t.Cert != "" {
		pair, err := readPair(t.Cert, t.Key)
		if err != nil {
			return nil, fmt.Errorf("etcd: cannot use the client certificate %s%s with the key %s%s: %w", t.Cert, of(t.From.Cert), t.Key, of(t.From.Key), err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// maxPEM bounds a file of certificates, or of a key, in bytes.
const maxPEM = 4 << 20

func readPair(certFile, keyFile string) (tls.Certificate, error) {
	cert, _, err := smallfile.Read(certFile, maxPEM)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("%s: %w", certFile, err)
	}
	key, _, err := smallfile.Read(keyFile, maxPEM)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("%s: %w", keyFile, err)
	}
	return tls.X509KeyPair(cert, key)
}

// of ends the name of a file with the flag or variable that named it.
func of(source string) string {
	if source == "" {
		return ""
	}
	return " of " + source
}

// urls gives every endpoint a scheme, the same for all.
func urls(endpoints []string, secure bool) ([]string, error) {
	scheme := "http"
	if secure {
		scheme = "https"
	}
	var out []string
	for _, e := range endpoints {
		s, host, found := strings.Cut(strings.TrimSpace(e), "://")
		if !found {
			s, host = scheme, s
		}
		host = strings.TrimSuffix(host, "/")
		if _, _, err := net.SplitHostPort(host); err != nil || s != "http" && s != "https" {
			return nil, fmt.Errorf("etcd: %q is no endpoint; write host:port, http://host:port or https://host:port", e)
		}
		if secure && s == "http" {
			return nil, fmt.Errorf("etcd: %s means no TLS, but TLS options are given; write https://%s", e, host)
		}
		if len(out) > 0 && !strings.HasPrefix(out[0], s+"://") {
			return nil, fmt.Errorf("etcd: %s and %s: either all endpoints use TLS or none does", out[0], e)
		}
		out = append(out, s+"://"+host)
	}
	return out, nil
}

// at returns the endpoints as messages name them.
func (e *Etcd) at() string {
	hosts := make([]string, len(e.client.Endpoints))
	for i, u := range e.client.Endpoints {
		hosts[i] = hostOf(u)
	}
	return strings.Join(hosts, ", ")
}

func hostOf(url string) string {
	_, host, _ := strings.Cut(url, "://")
	return host
}
