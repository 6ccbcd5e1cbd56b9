package launch

import (
	"context"
	"os"
	"testing"
)

func TestSocketIsPrivate(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := openSocket(ctx, nil, NewScratch("test").socket(), func(round, rank int, message string) {})
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(s.path())
	if err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("mode %v, %v; want that nobody else can connect", info.Mode(), err)
	}
	cancel()
	if err := s.serve(ctx); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(s.path()); !os.IsNotExist(err) {
		t.Errorf("the file is still there: %v", err)
	}
}
