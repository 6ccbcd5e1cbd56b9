package tcpstore

import (
	"io"
	"testing"
)

func BenchmarkSetGet(b *testing.B) {
	_, addr := start(b, Options{})
	c := dialModern(b, addr)
	req := append(frame(1, "/default_pg/0//key", "a value of ordinary size"), frame(3, "/default_pg/0//key")...)
	reply := make([]byte, 8+len("a value of ordinary size"))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Write(req); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(c, reply); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAddParallel(b *testing.B) {
	_, addr := start(b, Options{})
	b.ReportAllocs()
	b.SetParallelism(16)
	req := frame(4, "/default_pg/0//counter", 1)
	b.RunParallel(func(pb *testing.PB) {
		c := dialModern(b, addr)
		reply := make([]byte, 8)
		for pb.Next() {
			if _, err := c.Write(req); err != nil {
				b.Error(err)
				return
			}
			if _, err := io.ReadFull(c, reply); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
