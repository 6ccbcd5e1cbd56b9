package board

import (
	"os"
	"strings"
	"testing"
)

func TestMapAddress(t *testing.T) {
	b := create(t, Options{Ranks: 2, Memory: 64})
	text, err := b.Address()
	if err != nil {
		t.Fatal(err)
	}
	other, err := MapAddress(text)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close() })
	if b.Memory()[3] = 5; other.Memory()[3] != 5 {
		t.Error("it is another board")
	}
	if id := b.ID(); id == "" || other.ID() != id || create(t, Options{Ranks: 1}).ID() == id {
		t.Errorf("id %q, there %q", id, other.ID())
	}
	if _, err := other.Address(); err == nil {
		t.Error("a process that made no board has an address")
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	words := strings.Fields(text)
	with := func(i int, word string) string {
		w := append([]string(nil), words...)
		w[i] = word
		return strings.Join(w, " ")
	}
	for name, text := range map[string]string{
		"empty": "", "junk": "a b c d e", "half": strings.Join(words[:4], " "), "more": text + " 1", "longer": text + "x",
		"machine": with(0, "elsewhere"), "process": with(1, "0"), "no process": with(1, "4194305"), "no file": with(2, "99999"),
		"another file": with(2, "2"), "below": with(2, "-1"), "inode": with(4, "1"), "path": with(2, "../../x"),
	} {
		if b, err := MapAddress(text); err == nil {
			b.Close()
			t.Errorf("%s: mapped %q", name, text)
		}
	}
}

func FuzzMapAddress(f *testing.F) {
	f.Add("boot/pid:[1] 1 2 3 4")
	f.Fuzz(func(t *testing.T, text string) {
		if b, err := MapAddress(text); err == nil {
			b.Close()
			t.Errorf("mapped %q", text)
		}
	})
}
