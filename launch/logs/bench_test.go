package logs

import (
	"context"
	"os"
	"testing"
)

// BenchmarkEightWorkers measures what the output of 8 workers costs, without
// the workers. With files the file system takes most of the time.
func BenchmarkEightWorkers(b *testing.B) {
	for _, c := range []struct {
		name  string
		tee   Std
		files bool
	}{{"passed-through", 0, false}, {"teed", 3, false}, {"teed-with-files", 3, true}} {
		b.Run(c.name, func(b *testing.B) {
			con, err := NewConsole(devNull(b), devNull(b))
			if err != nil {
				b.Fatal(err)
			}
			defer con.Close()
			o := FolderOptions{Base: os.DevNull, Workers: 8}
			if c.files {
				o.Base = b.TempDir()
			}
			folders, err := NewFolders(o)
			if err != nil {
				b.Fatal(err)
			}
			for n := 0; b.Loop(); n++ {
				attempt, err := folders.Make(n)
				if err != nil {
					b.Fatal(err)
				}
				var ws [8]*Worker
				for i := range ws {
					if ws[i], err = Open(WorkerOptions{LocalRank: i, Dir: attempt, Tee: c.tee, Console: con}); err != nil {
						b.Fatal(err)
					}
				}
				for _, w := range ws {
					w.CloseChildEnds()
				}
				for _, w := range ws {
					if err := w.Wait(context.Background()); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
