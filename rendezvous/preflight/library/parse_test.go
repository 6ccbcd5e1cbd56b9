package library

import (
	"context"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestVersionCode(t *testing.T) {
	for want, v := range map[int][3]int{2804: {2, 8, 4}, 20906: {2, 9, 6}, 21403: {2, 14, 3}, 23007: {2, 30, 7}, 1305: {1, 3, 5}, 30000: {3, 0, 0}} {
		if got := versionCode(v[0], v[1], v[2]); got != want {
			t.Errorf("%v: %d, want %d", v, got, want)
		}
	}
}

func TestParseVersion(t *testing.T) {
	for text, want := range map[string]version{
		"2.19.3+cuda12.3":                      {"2.19.3", 21903, "12.3"},
		"2.8.4+cuda11.2\x00rest":               {"2.8.4", 2804, "11.2"},
		"2.30.7-1+cuda13.0 and more":           {"2.30.7-1", 23007, "13.0"},
		"2.18.5.mscclpp+cuda12.2\n":            {"2.18.5.mscclpp", 21805, "12.2"},
		"2.4.2+cudaCUDA_MAJOR.CUDA_MINOR":      {"2.4.2", 2402, ""},
		"2.27.5+cuda12.9dev":                   {"2.27.5", 22705, "12.9"},
		"%d.%d.%d%s+cuda%d.%d":                 {},
		"2.19+cuda12.3":                        {},
		"2.19.3 +cuda12.3":                     {},
		"2.19.3":                               {},
		"2.19.3+cuda":                          {},
		"2.19.3+cuda12":                        {},
		"mismatch detected : rank 1":           {},
		"2.19.999999999999999999999+cuda12.3":  {},
		"2.1.0" + strings.Repeat("x", 1000):    {},
		strings.Repeat("9", 1000) + "+cuda1.2": {},
	} {
		got, ok := parseVersion([]byte(text))
		if ok != (want.text != "") || ok && got != want {
			t.Errorf("%.50q: got %+v, %v, want %+v", text, got, ok, want)
		}
	}
}

func parts(text string) []*io.SectionReader {
	return []*io.SectionReader{io.NewSectionReader(strings.NewReader(text), 0, int64(len(text)))}
}

// TestScanVersion checks that the version is found at any place, also across
// two blocks that are read.
func TestScanVersion(t *testing.T) {
	limit := bound{bytes: libraryBound.bytes, time: time.Minute}
	for _, at := range []int{0, chunk - 200, chunk - 30, chunk - 10, chunk - 1, chunk, 3*chunk - 20} {
		for _, filler := range []string{marker, "N", "x"} {
			text := strings.Repeat(filler, 1+at/len(filler))[:at] + "\x00NCCL version 2.19.3+cuda12.3"
			v, ok, err := scanVersion(t.Context(), parts(text), limit)
			if err != nil || !ok || v.text != "2.19.3" {
				t.Errorf("at %d after %q: %+v, %v, %v", at, filler, v, ok, err)
			}
		}
	}
}

func TestScanVersionHasBounds(t *testing.T) {
	long := parts(strings.Repeat("x", 3*chunk) + "NCCL version 2.19.3+cuda12.3")
	if v, ok, err := scanVersion(t.Context(), long, bound{bytes: 2 * chunk, time: time.Minute}); ok || err == nil || !strings.Contains(err.Error(), "no version found in") {
		t.Errorf("bytes: %+v, %v, %v", v, ok, err)
	}
	if _, ok, err := scanVersion(t.Context(), long, bound{bytes: 1 << 30}); ok || err == nil || !strings.Contains(err.Error(), "no version found within") {
		t.Errorf("time: %v, %v", ok, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	over := errors.New("over")
	cancel(over)
	if _, _, err := scanVersion(ctx, long, libraryBound); !errors.Is(err, over) {
		t.Errorf("context: %v", err)
	}
	if _, ok, err := scanVersion(t.Context(), parts("nothing"), libraryBound); ok || err != nil {
		t.Errorf("without a version: %v, %v", ok, err)
	}
}

func TestParseTorch(t *testing.T) {
	for text, want := range map[string][2]string{
		"__version__ = '2.6.0+cu124'\ncuda: Optional[str] = '12.4'\n": {"2.6.0+cu124", "12.4"},
		"__version__ = \"1.13.1\"\ncuda = None\nhip = '5.2'\n":        {"1.13.1", ""},
		"__version__ = '2.3.0\ncuda = '":                              {"", ""},
		"cuda: Optional[str] = '" + strings.Repeat("1", 4000) + "'":   {"", ""},
	} {
		if v, c := parseTorch(text); v != want[0] || c != want[1] {
			t.Errorf("%.40q: %q, %q, want %q", text, v, c, want)
		}
	}
}

func TestParseDriver(t *testing.T) {
	for text, want := range map[string]string{
		"NVRM version: NVIDIA UNIX x86_64 Kernel Module  450.80.02  Wed Sep 23 01:13:39 UTC 2020\nGCC version:  gcc version 9.3.0": "450.80.02",
		"580.65.06": "580.65.06", "": "", "GCC version 9.3.0": "", "NVRM version: 1.2": "",
	} {
		if got := parseDriver(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func FuzzParseVersion(f *testing.F) {
	for _, s := range []string{"2.19.3+cuda12.3", "2.30.7-1+cuda13.0 x", "2.4.2+cudaCUDA_MAJOR.CUDA_MINOR", "%d.%d.%d%s+cuda%d.%d"} {
		f.Add([]byte(s))
	}
	strict := regexp.MustCompile(`^(\d+)\.(\d+)\.(\d+)(\S*?)\+cuda(\d+)\.(\d+)`)
	f.Fuzz(func(t *testing.T, b []byte) {
		v, ok := parseVersion(b)
		if ok && v.cuda != "" && !strict.Match(b) {
			t.Errorf("%q read as %+v", b, v)
		}
		_, found, err := scanVersion(t.Context(), parts(marker+string(b)), bound{bytes: 1 << 20, time: time.Minute})
		if err != nil || ok && !found {
			t.Errorf("%q alone is %v, in a file %v, %v", b, ok, found, err)
		}
	})
}

func FuzzParseText(f *testing.F) {
	f.Add("__version__ = '2.6.0+cu124'\ncuda: Optional[str] = '12.4'\n")
	f.Add("home = /usr/bin\ninclude-system-site-packages = false\nversion = 3.11.2\n")
	f.Add("NVRM version: NVIDIA UNIX x86_64 Kernel Module  450.80.02\n")
	f.Fuzz(func(t *testing.T, text string) {
		if v, c := parseTorch(text); len(v)+len(c) > 2*maxVersion {
			t.Errorf("%d bytes of versions", len(v)+len(c))
		}
		for key := range parseConfig(text) {
			if key != strings.TrimSpace(key) {
				t.Errorf("key %q", key)
			}
		}
		if v := parseDriver(text); v != "" && !isDriverVersion(v) {
			t.Errorf("driver %q", v)
		}
		g := gatherer{env: environ{"PATH=/none"}}
		g.interpreter("#!" + text)
		readFlags(strings.Fields(text))
	})
}
