package tcpstore

import (
	"context"
	"net"
	"testing"
	"time"
)

// FuzzConn feeds one connection with arbitrary bytes. Whatever they are, the
// server ends the connection when the peer has left, and has then released all
// that it charged for the connection itself.
func FuzzConn(f *testing.F) {
	for _, prefix := range [][]byte{{}, {0x00, 0xCE, 0xF7, 0x85, 0x3C}} {
		for code := byte(0); code < 18; code++ {
			f.Add(append(prefix[:len(prefix):len(prefix)], frame(code, "k", "v", "w")...))
			f.Add(append(prefix[:len(prefix):len(prefix)], frame(code, 2, "k", "v", "k", "v")...))
			f.Add(append(prefix[:len(prefix):len(prefix)], frame(code, -1)...))
		}
	}
	f.Add(append(frame(5, 1, "k"), frame(0, "k", "v")...))
	f.Add(append(frame(7, "k"), frame(0, "k", "v")...))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := New(Options{MaxBytes: 1 << 20, WriteTimeout: time.Second})
		here, there := net.Pipe()
		read := make(chan struct{})
		go func() { // reads the replies
			defer close(read)
			p := make([]byte, 4096)
			for {
				if _, err := here.Read(p); err != nil {
					return
				}
			}
		}()
		go func() {
			_ = here.SetWriteDeadline(time.Now().Add(patience))
			_, _ = here.Write(data)
			here.Close()
		}()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = s.ServeConn(ctx, there)
		if ctx.Err() != nil {
			t.Fatal("hangs")
		}
		<-read

		s.store.mu.Lock()
		defer s.store.mu.Unlock()
		if len(s.store.waits)+len(s.store.watches)+s.store.waiting != 0 {
			t.Error("a wait or a watch is left")
		}
		for key := range s.store.values {
			s.store.delete(key)
		}
		for key := range s.store.queues {
			for len(s.store.queues[key]) > 0 {
				s.store.pop(key)
			}
		}
		if n := s.store.budget.used.Load(); n != 0 {
			t.Errorf("%d bytes stay charged", n)
		}
	})
}
