package logs

import "testing"

func TestParseStd(t *testing.T) {
	for _, c := range []struct {
		in   string
		want map[int]Std // local rank → streams
		bad  bool
	}{
		{in: "0", want: map[int]Std{0: 0, 7: 0}},
		{in: "1", want: map[int]Std{0: Stdout, 7: Stdout}},
		{in: "2", want: map[int]Std{0: Stderr}},
		{in: "3", want: map[int]Std{0: Stdout | Stderr, 123: Stdout | Stderr}},
		{in: "0:3", want: map[int]Std{0: 3, 1: 0}},
		{in: "0:3,1:0,12:2", want: map[int]Std{0: 3, 1: 0, 2: 0, 12: 2}},
		{in: "1:0", want: map[int]Std{0: 0, 1: 0}},
		{in: "", bad: true},
		{in: "4", bad: true},
		{in: "-1", bad: true},
		{in: "33", bad: true},
		{in: "0:4", bad: true},
		{in: "0:", bad: true},
		{in: ":3", bad: true},
		{in: "+1:3", bad: true},
		{in: "0:3,", bad: true},
		{in: ",0:3", bad: true},
		{in: "3,1:0", bad: true},
		{in: "0:3:1", bad: true},
		{in: "0:1,0:2", want: map[int]Std{0: Stderr}},
		{in: "0:3, 1:0", bad: true},
		{in: "99999999999999999999:3", bad: true},
		{in: "stdout", bad: true},
	} {
		got, err := ParseStd(c.in)
		if (err != nil) != c.bad {
			t.Errorf("ParseStd(%q): error %v", c.in, err)
		}
		for rank, want := range c.want {
			if got.For(rank) != want {
				t.Errorf("ParseStd(%q).For(%d) = %d, want %d", c.in, rank, got.For(rank), want)
			}
		}
	}
}

func FuzzParseStd(f *testing.F) {
	for _, s := range []string{"0", "3", "0:3,1:0", "10:2", "", ",", "0:3,", "::", "+1:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		spec, err := ParseStd(s)
		if err != nil {
			if spec.For(0) != 0 {
				t.Errorf("an error and streams: %q", s)
			}
			return
		}
		again, err := ParseStd(spec.String())
		if err != nil || again.String() != spec.String() {
			t.Errorf("%q reads as %q, which reads as %q (%v)", s, spec, again, err)
		}
	})
}

func TestStdAny(t *testing.T) {
	for in, want := range map[string][3]bool{ // of 0, 1 and 11 workers
		"0":       {},
		"2":       {false, true, true},
		"10:3":    {false, false, true},
		"0:0,5:1": {false, false, true},
		"0:0":     {},
	} {
		s, err := ParseStd(in)
		if err != nil {
			t.Fatal(err)
		}
		if got := [3]bool{s.Any(0), s.Any(1), s.Any(11)}; got != want {
			t.Errorf("%s: %v, want %v", in, got, want)
		}
	}
}
