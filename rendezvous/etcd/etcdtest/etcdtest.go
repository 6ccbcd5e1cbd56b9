// Package etcdtest runs a real etcd cluster on loopback for tests and
// benchmarks, and a link to it that can be cut.
//
// The program is $GORUN_ETCD, else etcd in PATH. It ends with the process that
// started it, however that process ends. A test without it is skipped; with CI=true
// it fails.
package etcdtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// Options of a cluster.
type Options struct {
	Members    int    // 1 (also for 0), 3 or 5
	TLS        bool   // clients use TLS; see Cluster.TLS
	ClientCert bool   // and must show a certificate
	User       string // clients must be this user, if any
	Password   string
	Prefix     string // the user may use keys below it only; "": all keys
}

// TLS are the files of a cluster with Options.TLS.
type TLS struct {
	CA, Cert, Key string
	OtherCA       string // has signed nothing here
}

// Cluster is a running cluster.
type Cluster struct {
	TLS     TLS
	opts    Options
	binary  string
	dir     string
	members []*member

	mu    sync.Mutex
	admin *clientv3.Client
}

// ErrMissing says that there is no etcd on this machine.
var ErrMissing = errors.New("no etcd: install Debian's etcd-server, or set GORUN_ETCD to the program")

// limit is how long a cluster may take to answer, on a machine that is busy.
const limit = 30 * time.Second

// Start runs a cluster until the test ends.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	c, err := Launch(t.TempDir(), o)
	switch {
	case errors.Is(err, ErrMissing) && os.Getenv("CI") != "true":
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// Launch runs a cluster whose files are in dir, until Close.
func Launch(dir string, o Options) (*Cluster, error) {
	binary := os.Getenv("GORUN_ETCD")
	if binary == "" {
		var err error
		if binary, err = exec.LookPath("etcd"); err != nil {
			return nil, ErrMissing
		}
	}
	o.Members = max(1, o.Members)
	var last error
	for try := range 5 { // a port that was free may be taken a moment later
		c := &Cluster{opts: o, binary: binary, dir: filepath.Join(dir, fmt.Sprint(try))}
		if last = c.start(); last == nil {
			return c, nil
		}
		c.Close()
		if !errors.Is(last, errPort) {
			break
		}
	}
	return nil, last
}

func (c *Cluster) start() error {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	if c.opts.TLS {
		var err error
		if c.TLS, err = certificates(c.dir); err != nil {
			return err
		}
	}
	if err := c.plan(); err != nil {
		return err
	}
	for _, m := range c.members {
		if err := m.start(); err != nil {
			return err
		}
	}
	for i := range c.members {
		if err := c.await(i); err != nil {
			return err
		}
	}
	return c.enableAuth()
}

// Endpoints returns the members' client addresses, host:port.
func (c *Cluster) Endpoints() []string {
	var out []string
	for _, m := range c.members {
		out = append(out, m.client)
	}
	return out
}

// Client returns a client that may do everything.
func (c *Cluster) Client() *clientv3.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.admin == nil {
		cl, err := c.connect("", "")
		if err != nil {
			panic("etcdtest: " + err.Error()) // the configuration is this package's own
		}
		c.admin = cl
	}
	return c.admin
}

func (c *Cluster) connect(user, password string) (*clientv3.Client, error) {
	conf := clientv3.Config{
		Endpoints: c.Endpoints(), DialTimeout: limit, Logger: zap.NewNop(), Username: user, Password: password,
		DialKeepAliveTime: 2 * time.Second, DialKeepAliveTimeout: time.Second,
	}
	if c.opts.TLS {
		t, err := c.TLS.config()
		if err != nil {
			return nil, err
		}
		conf.TLS = t
	}
	return clientv3.New(conf)
}

// Keys returns the keys below prefix, in order.
func (c *Cluster) Keys(prefix string) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	got, err := c.Client().Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return nil, err
	}
	var keys []string
	for _, kv := range got.Kvs {
		keys = append(keys, string(kv.Key))
	}
	return keys, nil
}

// Leader returns the index of the member that leads, -1 while none does.
func (c *Cluster) Leader() int {
	for i, m := range c.members {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		st, err := c.Client().Status(ctx, m.client)
		cancel()
		if err == nil && st.Leader != 0 && st.Leader == st.Header.MemberId {
			return i
		}
	}
	return -1
}

// await returns when a member answers requests that need a majority.
func (c *Cluster) await(i int) error {
	var last error
	for end := time.Now().Add(limit); time.Now().Before(end); <-time.After(20 * time.Millisecond) {
		if last = c.members[i].trouble(); last != nil {
			return last
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		st, err := c.Client().Status(ctx, c.members[i].client)
		cancel()
		if err == nil && st.Leader != 0 {
			return nil
		}
		last = err
	}
	return fmt.Errorf("etcd at %s is not ready within %v: %w; %s", c.members[i].client, limit, last, c.members[i].tail())
}

// rootPassword is the password of etcd's administrator in a cluster with users.
const rootPassword = "etcdtest"

func (c *Cluster) enableAuth() error {
	if c.opts.User == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cl := c.Client()
	from, to := c.opts.Prefix, clientv3.GetPrefixRangeEnd(c.opts.Prefix)
	if from == "" {
		from, to = "\x00", "\x00"
	}
	steps := []func() error{
		func() error { _, err := cl.UserAdd(ctx, "root", rootPassword); return err },
		func() error { _, err := cl.RoleAdd(ctx, "root"); return err },
		func() error { _, err := cl.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := cl.UserAdd(ctx, c.opts.User, c.opts.Password); return err },
		func() error { _, err := cl.RoleAdd(ctx, "tester"); return err },
		func() error {
			_, err := cl.RoleGrantPermission(ctx, "tester", from, to, clientv3.PermissionType(clientv3.PermReadWrite))
			return err
		},
		func() error { _, err := cl.UserGrantRole(ctx, c.opts.User, "tester"); return err },
		func() error { _, err := cl.AuthEnable(ctx); return err },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("cannot make etcd's users: %w", err)
		}
	}
	root, err := c.connect("root", rootPassword)
	if err != nil {
		return err
	}
	_ = cl.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.admin = root
	return nil
}

// Close ends the cluster at once.
func (c *Cluster) Close() {
	c.mu.Lock()
	if c.admin != nil {
		_ = c.admin.Close()
		c.admin = nil
	}
	c.mu.Unlock()
	for i := range c.members {
		c.Kill(i)
	}
}

// environ returns this process's environment without etcd's own variables.
func environ() []string {
	var out []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "ETCD") {
			out = append(out, e)
		}
	}
	return out
}
