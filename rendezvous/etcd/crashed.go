package etcd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// remove deletes a round's key that has not changed, and its lease.
func (e *Etcd) remove(ctx context.Context, r entry[round]) error {
	got, err := e.txn(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(e.keys.round), "=", r.rev)}, []clientv3.Op{clientv3.OpDelete(e.keys.round)}, nil)
	if err == nil && got.Succeeded && r.lease != 0 {
		_ = e.revoke(ctx, r.lease) // a lease without a key only wastes a number until it ends
	}
	return err
}

// stillRunning says why the job of a sealed round may still run. It is "" if all of the
// round's members have left or expired, and nothing listens at their addresses but agents that
// are in etcd now.
func (e *Etcd) stillRunning(ctx context.Context, r entry[round]) (why string, err error) {
	if r.value == nil {
		return e.foreignKey(e.keys.round), nil
	}
	nodes, err := e.readNodes(ctx, r.value.ids())
	if err != nil {
		return "", err
	}
	job := fmt.Sprintf("a job with this run id is in etcd at %s, coordinated by %s (round %d)", e.at(), r.value.Control, r.value.Round)
	var addrs []string
	for _, m := range r.value.Members {
		if _, found := nodes[m.ID]; found {
			return job + "; waiting for its end", nil
		}
		if !isControlAddress(m.Control) {
			return e.foreignKey(e.keys.round), nil
		}
		addrs = append(addrs, m.Control)
	}
	slices.Sort(addrs)
	addrs = slices.Compact(addrs)
	if len(addrs) > maxProbed {
		return fmt.Sprintf("%s; its nodes have left etcd, but they are too many to probe (%d addresses); waiting for its end, or until you delete the key %s", job, len(addrs), e.keys.round), nil
	}
	now, err := e.addressesNow(ctx)
	if err != nil {
		return "", err
	}
	addrs = slices.DeleteFunc(addrs, func(a string) bool { return now[a] })
	if found := findListener(ctx, addrs); found != "" {
		return fmt.Sprintf("%s; its nodes have left etcd, but %s; waiting for its end", job, found), nil
	}
	return "", nil
}

// addressesNow returns the control addresses of the agents that are in etcd. What listens there
// is no agent of a crashed job, also where the system gave the port to both, one after the
// other.
func (e *Etcd) addressesNow(ctx context.Context) (map[string]bool, error) {
	got, err := e.session.cl.Get(ctx, e.keys.nodes, clientv3.WithPrefix(), clientv3.WithLimit(maxProbed))
	if err != nil {
		return nil, err
	}
	now := map[string]bool{}
	for _, kv := range got.Kvs {
		if a, err := decodeAgent(kv.Value); err == nil {
			now[a.Control] = true
		}
	}
	return now, nil
}

// maxProbed bounds the addresses of one round that this agent connects to.
const maxProbed = 4096

// isControlAddress reports whether text can be the address of a control plane.
func isControlAddress(addr string) bool {
	host, port, err := net.SplitHostPort(addr)
	n, bad := strconv.ParseUint(port, 10, 16)
	if err != nil || bad != nil || n == 0 {
		return false
	}
	if strings.Contains(host, ":") {
		_, err := netip.ParseAddr(host)
		return err == nil
	}
	return host != "" && len(host) <= 253 && !strings.ContainsFunc(host, func(r rune) bool {
		return r != '.' && r != '-' && r != '_' && (r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r))
	})
}

// findListener returns one of the addresses that does not refuse connections, and what
// it does. It returns "" if all refuse.
func findListener(ctx context.Context, addrs []string) string {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	next := make(chan string)
	found := make(chan string, 1)
	var wg sync.WaitGroup
	for range min(32, len(addrs)) {
		wg.Go(func() {
			for a := range next {
				if why := probeAddress(ctx, a); why != "" {
					select {
					case found <- a + " " + why:
						cancel()
					default:
					}
				}
			}
		})
	}
	for _, a := range addrs {
		next <- a // after cancel each takes no time
	}
	close(next)
	wg.Wait()
	select {
	case s := <-found:
		return s
	default:
		return ""
	}
}

// probeAddress returns "" if an address refuses connections, else what it does.
func probeAddress(ctx context.Context, addr string) string {
	c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", addr)
	switch {
	case err == nil:
		c.Close()
		return "still answers"
	case errors.Is(err, syscall.ECONNREFUSED):
		return ""
	}
	return "may still run: it does not refuse connections"
}
