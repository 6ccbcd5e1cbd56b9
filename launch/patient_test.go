package launch

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

func TestPatientDoesNotWait(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p := newPatient(w)
	go p.run()
	line := []byte(strings.Repeat("x", 1023) + "\n")
	begun := time.Now()
	for range 4 * patientQueue { // 4 MiB into a pipe that nobody reads
		if n, err := p.Write(line); n != len(line) || err != nil {
			t.Fatalf("Write = %d, %v", n, err)
		}
	}
	if took := time.Since(begun); took > patientFlush {
		t.Errorf("writing to a full pipe took %v", took)
	}
	read := make(chan int)
	go func() {
		b, _ := io.ReadAll(r)
		read <- len(b)
	}()
	p.finish()
	w.Close()
	if n := <-read; n < 1024*patientQueue {
		t.Errorf("%d bytes were written, want at least what the queue holds", n)
	}
}
