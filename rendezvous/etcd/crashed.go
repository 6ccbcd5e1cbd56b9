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

// mayLive says why a sealed round of another job may still live. It is "" if all of
// the round's members have left or expired, and nothing listens at their addresses.
func (e *Etcd) mayLive(ctx context.Context, r entry[round]) (string, error) {
	if r.value == nil {
		return e.foreign(e.keys.round), nil
	}
	marks, err := e.marks(ctx, r.value.ids())
	if err != nil {
		return "", err
	}
	job := fmt.Sprintf("a job of this run id is in etcd at %s, led by %s (round %d)", e.at(), r.value.Control, r.value.Round)
	var left []string
	for _, m := range r.value.Members {
		if _, there := marks[m.ID]; there {
			return job + "; waiting for its end", nil
		}
		if !plausible(m.Control) {
			return e.foreign(e.keys.round), nil
		}
		left = append(left, m.Control)
	}
	slices.Sort(left)
	left = slices.Compact(left)
	if len(left) > maxAsked {
		return fmt.Sprintf("%s; its nodes have left etcd, but are too many to ask each of them; waiting for its end, or until you delete the key %s", job, e.keys.round), nil
	}
	if at := answering(ctx, left); at != "" {
		return fmt.Sprintf("%s; its nodes have left etcd, but %s; waiting for its end", job, at), nil
	}
	return "", nil
}

// maxAsked bounds the connections that a record makes this agent try.
const maxAsked = 4096

// plausible reports whether text is the address of a node's control plane.
func plausible(addr string) bool {
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

// answering returns one of the addresses that does not refuse connections, and how it
// answers. It is "" if all refuse.
func answering(ctx context.Context, addrs []string) string {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	next := make(chan string)
	found := make(chan string, 1)
	var wg sync.WaitGroup
	for range min(32, len(addrs)) {
		wg.Go(func() {
			for a := range next {
				if why := unrefused(ctx, a); why != "" {
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
		next <- a // after an end each takes no time
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

func unrefused(ctx context.Context, addr string) string {
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
