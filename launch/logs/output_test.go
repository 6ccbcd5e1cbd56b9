package logs

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestNewOutput checks which files the flags ask for, and what happens if there is
// no place for them.
func TestNewOutput(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "no", "such", "folder")
	for name, c := range map[string]struct {
		options         OutputOptions
		redirect, files bool // of local rank 0; whether there are files
		notes           []string
		err             string
	}{
		"nothing asked":           {options: OutputOptions{}, files: true},
		"files":                   {options: OutputOptions{Redirects: "3"}, redirect: true, files: true, notes: []string{"the workers' output is in "}},
		"a folder":                {options: OutputOptions{Redirects: "3", LogDir: t.TempDir()}, redirect: true, files: true},
		"another node's rank":     {options: OutputOptions{Tee: "9:3"}, files: true, notes: []string{"--tee 9:3 has no effect on this node: its local ranks are below 2"}},
		"no worker starts":        {options: OutputOptions{Redirects: "3", Dry: true}, files: true},
		"no place":                {options: OutputOptions{Temp: missing}},
		"no place for the output": {options: OutputOptions{Temp: missing, Tee: "3"}, err: "no such file"},
		"a bad flag":              {options: OutputOptions{Tee: "x"}, err: "--tee: "},
	} {
		o := c.options
		o.Workers, o.RunID = 2, "run"
		if o.Temp == "" {
			o.Temp = filepath.Join(t.TempDir(), "logs")
		}
		for _, text := range []*string{&o.Redirects, &o.Tee} {
			if *text == "" {
				*text = "0"
			}
		}
		out, notes, err := NewOutput(o)
		if err != nil || c.err != "" {
			if c.err == "" || err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v, want %q", name, err, c.err)
			}
			continue
		}
		if out.NoFiles == c.files || out.Redirect.Any(1) != c.redirect || !slices.EqualFunc(notes, c.notes, strings.HasPrefix) {
			t.Errorf("%s: %+v, notes %q", name, out, notes)
		}
	}
}
