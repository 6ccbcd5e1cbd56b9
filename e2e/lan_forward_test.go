package e2e_test

import (
	"context"
	"io"
	"net"
	"sync"
)

// switchAddr is the switch's own address, at which hosts reach programs outside.
const switchAddr = "10.77.0.254"

// etcd makes a cluster outside reachable for the hosts, and returns the endpoints at
// which they reach it.
func (l *lan) etcd(targets []string) []string {
	l.Helper()
	l.ip(0, "addr add "+switchAddr+"/24 dev br0")
	var out []string
	for _, target := range targets {
		in, err := listenIn("/run/netns/"+l.host(0), "tcp", switchAddr+":0")
		if err != nil {
			l.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				near, err := in.Accept()
				if err != nil {
					return
				}
				wg.Go(func() { forward(ctx, near, target) })
			}
		})
		l.Cleanup(func() {
			in.Close()
			cancel()
			wg.Wait()
		})
		out = append(out, in.Addr().String())
	}
	return out
}

// forward copies bytes both ways until one side ends or ctx ends. A side that was cut
// off never ends.
func forward(ctx context.Context, near net.Conn, target string) {
	defer near.Close()
	far, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		near.Close()
		far.Close()
	})()
	var wg sync.WaitGroup
	for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
		wg.Go(func() {
			defer cancel()
			_, _ = io.Copy(way[0], way[1])
		})
	}
	wg.Wait()
	far.Close()
}
