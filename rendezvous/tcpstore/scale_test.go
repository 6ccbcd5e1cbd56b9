package tcpstore

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The clients of TestTenThousandClients run in processes of their own, because
// both ends of all connections may exceed one process's file descriptors.
const (
	scaleAddr  = "TCPSTORE_TEST_SCALE_ADDR"
	scaleCount = "TCPSTORE_TEST_SCALE_COUNT"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(scaleAddr); addr != "" {
		if err := scaleClients(addr, os.Getenv(scaleCount)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// scaleClients connects count clients. Each of them does ADD n 1 and WAIT go.
// scaleClients prints that on stdout, and ends when all waits have ended.
func scaleClients(addr, count string) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	go func() { // ends with the test
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	conns := make([]net.Conn, n)
	errs := make(chan error, 2*n)
	var wg sync.WaitGroup
	slots := make(chan struct{}, 64)
	request := append([]byte{0x00, 0xCE, 0xF7, 0x85, 0x3C}, append(frame(4, "n", 1), frame(6, 1, "go")...)...)
	for i := range conns {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			var err error
			if conns[i], err = net.DialTimeout("tcp", addr, time.Minute); err != nil {
				errs <- err
				return
			}
			if _, err = conns[i].Write(request); err == nil {
				_, err = io.ReadFull(conns[i], make([]byte, 8)) // the sum
			}
			errs <- err
		})
	}
	wg.Wait()
	for range n {
		if err := <-errs; err != nil {
			return err
		}
	}
	fmt.Println("waiting")
	for _, c := range conns {
		wg.Go(func() {
			p := make([]byte, 1)
			_, err := io.ReadFull(c, p)
			if err == nil && p[0] != waitStop {
				err = fmt.Errorf("released with %d", p[0])
			}
			errs <- err
		})
	}
	for range n {
		if err := <-errs; err != nil {
			return err
		}
	}
	fmt.Println("released")
	return nil
}

func TestTenThousandClients(t *testing.T) {
	clients, processes := 10_000, 2
	if testing.Short() {
		clients = 1_000
	}
	var lim syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &lim); err != nil {
		t.Fatal(err)
	}
	if most := int(lim.Max) - 200; lim.Max < 1<<30 && clients > most {
		t.Logf("only %d clients: the hard limit of open files is %d", most, lim.Max)
		clients = most
	}
	s, addr := start(t, Options{})
	before := memory()
	var out []*bufio.Scanner
	for range processes {
		out = append(out, scaleProcess(t, addr, clients/processes))
	}
	begin := time.Now()
	for _, o := range out {
		expectLine(t, o, "waiting")
	}
	until(t, "all to wait", func() bool { return s.Stats().Waiting == clients })
	t.Logf("%d clients connected, added and wait after %v", clients, time.Since(begin).Round(time.Millisecond))
	used := memory() - before
	t.Logf("memory per waiting client: %d bytes (heap and stacks of the server)", used/uint64(clients))
	if used/uint64(clients) > 32<<10 {
		t.Error("a waiting client needs more than 32 KiB")
	}
	begin = time.Now()
	cl := s.Clients()
	t.Logf("Clients() of %d took %v", len(cl), time.Since(begin).Round(time.Microsecond))

	c := dialModern(t, addr)
	c.call(frame(3, "n"), encode(strconv.Itoa(clients)))
	begin = time.Now()
	c.call(append(frame(1, "go", "now"), frame(7)...), encode(2))
	t.Logf("the SET that releases them took %v", time.Since(begin).Round(time.Microsecond))
	for _, o := range out {
		expectLine(t, o, "released")
	}
	t.Logf("all released after %v", time.Since(begin).Round(time.Microsecond))
}

func scaleProcess(t *testing.T, addr string, n int) *bufio.Scanner {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), scaleAddr+"="+addr, scaleCount+"="+strconv.Itoa(n))
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cmd.StdinPipe(); err != nil { // open until the test ends
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return bufio.NewScanner(stdout)
}

func expectLine(t *testing.T, o *bufio.Scanner, want string) {
	t.Helper()
	if !o.Scan() || o.Text() != want {
		t.Fatalf("the clients print %q (%v), want %q", o.Text(), o.Err(), want)
	}
}

func memory() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}
