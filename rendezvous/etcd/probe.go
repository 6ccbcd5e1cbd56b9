package etcd

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"strings"
	"sync"
	"syscall"
)

// probeEndpoints finds out why no endpoint can be used, because gRPC does not
// distinguish a wrong scheme, certificate or address. It posts each trouble at once. A
// final trouble comes before others. It returns nil if it finds none.
func (e *Etcd) probeEndpoints(ctx context.Context) *trouble {
	var wg sync.WaitGroup
	var mu sync.Mutex
	found := make([]*trouble, len(e.client.Endpoints))
	for i, url := range e.client.Endpoints {
		wg.Go(func() {
			t := e.probeEndpoint(ctx, url)
			mu.Lock()
			defer mu.Unlock()
			if found[i] = t; t != nil && ctx.Err() == nil {
				e.postTrouble(joinTroubles(found))
			}
		})
	}
	wg.Wait()
	return joinTroubles(found)
}

// joinTroubles combines the troubles of several endpoints. A final one comes alone.
func joinTroubles(found []*trouble) *trouble {
	var texts []string
	for _, t := range found {
		switch {
		case t == nil:
		case t.final:
			return t
		default:
			texts = append(texts, t.text)
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return passing("%s", strings.Join(texts, "; "))
}

// probeEndpoint returns what is wrong with an endpoint, nil if it finds nothing.
func (e *Etcd) probeEndpoint(ctx context.Context, url string) *trouble {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	res, body, err := get(ctx, hostOf(url), e.client.TLS)
	if err != nil {
		return e.unreachable(ctx, url, err)
	}
	var v struct {
		Etcdserver string `json:"etcdserver"`
	}
	_ = json.Unmarshal([]byte(body), &v)
	host := hostOf(url)
	switch {
	case old(v.Etcdserver):
		return final("etcd at %s is version %s; gorun needs 3.4 or newer", host, clip(v.Etcdserver))
	case v.Etcdserver != "":
		return nil
	case strings.HasPrefix(url, "http://") && strings.Contains(body, "HTTPS"):
		return final("%s speaks TLS: write https://%s and give its CA", host, host)
	case res.StatusCode >= 500:
		return passing("%s answers %q", host, clip(res.Status))
	}
	return final("%s is not etcd: it answers as another web server (%q)", host, clip(res.Status))
}

// unreachable explains why an endpoint did not answer an HTTP request.
func (e *Etcd) unreachable(ctx context.Context, url string, err error) *trouble {
	host := hostOf(url)
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return final("etcd at %s has a certificate of an unknown authority: give the CA that has signed it", host)
	}
	if bad, ok := errors.AsType[x509.HostnameError](err); ok {
		return final("etcd at %s has a certificate for another name (%s): give that name as the server name", host, clip(bad.Error()))
	}
	if bad, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return final("etcd at %s has an invalid certificate: %s", host, clip(bad.Err.Error()))
	}
	if bad, ok := errors.AsType[*net.DNSError](err); ok {
		return passing("the name of the etcd endpoint %s cannot be resolved: %s", host, clip(bad.Err))
	}
	if why, ok := alert(err); ok && e.client.TLS != nil {
		if len(e.client.TLS.Certificates) == 0 {
			return final("etcd at %s requires a client certificate (%s): give one and its key", host, why)
		}
		return final("etcd at %s refuses this client's certificate: %s", host, why)
	}
	_, garbled := errors.AsType[textproto.ProtocolError](err)
	text := err.Error()
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return passing("%s refuses connections: does etcd run there?", host)
	case ctx.Err() != nil:
		return passing("%s does not answer within %v: is the address right, and does a firewall let it through?", host, callLimit)
	case e.client.TLS != nil && speaksHTTP(ctx, host):
		return final("etcd at %s does not use TLS: write http://%s and give no certificates", host, host)
	case e.client.TLS == nil && speaksTLS(ctx, host):
		return final("%s speaks TLS: write https://%s and give its CA", host, host)
	case garbled, strings.Contains(text, "malformed HTTP"), strings.Contains(text, "does not look like a TLS handshake"):
		return final("%s is not etcd: it is another program's port", host)
	}
	inner := err
	for errors.Unwrap(inner) != nil {
		inner = errors.Unwrap(inner)
	}
	return passing("cannot reach etcd at %s: %s", host, clip(inner.Error()))
}

// alert returns why the other side has ended TLS. It checks the error's type, because
// its text may come from a server.
func alert(err error) (why string, ok bool) {
	bad, ok := errors.AsType[*net.OpError](err)
	if !ok || bad.Op != "remote error" {
		return "", false
	}
	return clip(strings.TrimPrefix(bad.Err.Error(), "tls: ")), true
}

// speaksHTTP reports whether a request without TLS gets an answer.
func speaksHTTP(ctx context.Context, host string) bool {
	res, _, err := get(ctx, host, nil)
	return err == nil && res.StatusCode == http.StatusOK
}

// get asks for the version over a new connection. The standard library's client would
// write to stderr about servers that send before they receive.
func get(ctx context.Context, host string, t *tls.Config) (*http.Response, string, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", host)
	if err != nil {
		return nil, "", err
	}
	defer c.Close()
	tcp := c
	defer context.AfterFunc(ctx, func() { tcp.Close() })()
	if t != nil {
		t = t.Clone()
		if t.ServerName == "" {
			t.ServerName, _, _ = net.SplitHostPort(host)
		}
		c = tls.Client(c, t)
	}
	if _, err := fmt.Fprintf(c, "GET /version HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", host); err != nil {
		return nil, "", err
	}
	res, err := http.ReadResponse(bufio.NewReader(io.LimitReader(c, 16<<10)), nil)
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	return res, string(body), nil
}

// speaksTLS reports whether the other side answers a TLS handshake, if only by an
// alert.
func speaksTLS(ctx context.Context, host string) bool {
	d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}} // nothing is sent over it
	c, err := d.DialContext(ctx, "tcp", host)
	if err != nil {
		_, ok := alert(err)
		return ok
	}
	c.Close()
	return true
}
