package e2e_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
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
		in := l.listen(0, switchAddr+":0")
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

// listen opens a port in a host's namespace.
func (l *lan) listen(host int, addr string) net.Listener {
	l.Helper()
	// The thread must come back and live on, because its children die with it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		l.Fatal(err)
	}
	defer own.Close()
	other, err := os.Open("/run/netns/" + l.host(host))
	if err != nil {
		l.Fatal(err)
	}
	defer other.Close()
	if err := unix.Setns(int(other.Fd()), unix.CLONE_NEWNET); err != nil {
		l.Fatal(err)
	}
	in, err := net.Listen("tcp", addr)
	if back := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); back != nil {
		panic(fmt.Sprint("this thread cannot leave ", l.host(host), ": ", back)) // because no test could go on
	}
	if err != nil {
		l.Fatal(err)
	}
	return in
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
