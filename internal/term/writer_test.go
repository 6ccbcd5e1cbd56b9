package term

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

func TestWriterDoesNotWait(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p := newWriter(w)
	go p.run()
	line := []byte(strings.Repeat("x", 1023) + "\n")
	begun := time.Now()
	for range 4 * writerQueue { // 4 MiB into a pipe without a reader
		p.Write(line)
	}
	if took := time.Since(begun); took > 10*closeLimit {
		t.Errorf("writing to a full pipe took %v", took)
	}
	read := make(chan int)
	go func() {
		b, _ := io.ReadAll(r)
		read <- len(b)
	}()
	p.close()
	w.Close()
	if n := <-read; n < 1024*writerQueue {
		t.Errorf("%d bytes were written, want at least what the queue holds", n)
	}
}
