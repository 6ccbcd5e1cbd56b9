package host

import (
	"testing"
)

func TestCgroupPath(t *testing.T) {
	const v1 = "12:pids:/docker/abc\n4:memory,hugetlb:/m\n1:name=systemd:/s\n0::/unified\n"
	for _, c := range []struct{ text, controller, want string }{
		{v1, "pids", "/docker/abc"},
		{v1, "memory", "/m"},
		{v1, "cpu", "/"},
		{v1, "", "/unified"},
		{"0::/a:b/c\n", "", "/a:b/c"},
		{"0::/../../x\n", "", "/x"},
		{"", "", "/"},
		{"0::relative\nrubbish\n", "", "/"},
	} {
		if got := cgroupPath([]byte(c.text), c.controller); got != c.want {
			t.Errorf("cgroupPath(%q, %q) = %q, want %q", c.text, c.controller, got, c.want)
		}
	}
}

func TestCgroupLimits(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  Limits
	}{
		{
			"version 2, nothing limited",
			map[string]string{
				"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/cgroup.controllers": "pids memory",
				"sys/fs/cgroup/a/pids.max": "max\n", "sys/fs/cgroup/a/pids.current": "3\n",
			},
			Limits{PidsMax: Unlimited, PidsCurrent: 3, MemMax: Unlimited, MemCurrent: Unknown},
		},
		{
			"version 1 in a container that sees only its own group",
			map[string]string{
				"proc/self/cgroup":                               "9:pids:/docker/abc\n5:memory:/docker/abc\n",
				"sys/fs/cgroup/pids/pids.max":                    "512\n",
				"sys/fs/cgroup/pids/pids.current":                "12\n",
				"sys/fs/cgroup/memory/memory.limit_in_bytes":     "9223372036854771712\n",
				"sys/fs/cgroup/memory/memory.usage_in_bytes":     "1000\n",
				"sys/fs/cgroup/memory/docker/memory.unimportant": "",
			},
			Limits{PidsMax: 512, PidsCurrent: 12, MemMax: Unlimited, MemCurrent: 1000},
		},
		{
			"the least room of all ancestors counts",
			map[string]string{
				"proc/self/cgroup": "0::/a/b/c\n", "sys/fs/cgroup/cgroup.controllers": "pids",
				"sys/fs/cgroup/a/pids.max": "1000\n", "sys/fs/cgroup/a/pids.current": "990\n",
				"sys/fs/cgroup/a/b/pids.max": "max\n", "sys/fs/cgroup/a/b/pids.current": "10\n",
				"sys/fs/cgroup/a/b/c/pids.max": "100\n", "sys/fs/cgroup/a/b/c/pids.current": "10\n",
			},
			Limits{PidsMax: 1000, PidsCurrent: 990, MemMax: Unlimited, MemCurrent: Unknown},
		},
		{"none", nil, Limits{PidsMax: Unknown, PidsCurrent: Unknown, MemMax: Unknown, MemCurrent: Unknown}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var l Limits
			Options{Root: fake(t, c.files)}.cgroup(&l)
			if l != c.want {
				t.Errorf("got  %+v\nwant %+v", l, c.want)
			}
		})
	}
}

func TestParseNumber(t *testing.T) {
	for text, want := range map[string]int64{
		"12\n": 12, "max\n": Unlimited, "": Unknown, "-1": Unknown, "x": Unknown, "0": 0,
		"9223372036854771712": Unlimited, "18446744073709551615": Unlimited, "18446744073709551616": Unknown,
	} {
		if got := parseNumber([]byte(text)); got != want {
			t.Errorf("parseNumber(%q) = %d, want %d", text, got, want)
		}
	}
}

func TestCPUVendor(t *testing.T) {
	for text, want := range map[string]string{
		"processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\n": "AuthenticAMD",
		"processor\t: 0\nCPU implementer\t: 0x4e\n":                     "NVIDIA",
		"CPU implementer : 0x41\n":                                      "ARM",
		"CPU implementer : 0x99\n":                                      "ARM implementer 0x99",
		"":                                                              "",
		"rubbish":                                                       "",
	} {
		if got := cpuVendor([]byte(text)); got != want {
			t.Errorf("cpuVendor(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestContainer(t *testing.T) {
	for _, c := range []struct {
		files map[string]string
		env   []string
		want  string
	}{
		{nil, nil, ""},
		{map[string]string{".dockerenv": ""}, nil, "docker"},
		{map[string]string{"run/.containerenv": ""}, nil, "podman"},
		{map[string]string{".dockerenv": ""}, []string{"KUBERNETES_SERVICE_HOST=10.0.0.1"}, "kubernetes"},
		{map[string]string{"proc/self/cgroup": "0::/kubepods.slice/x\n"}, nil, "kubernetes"},
		{nil, []string{"APPTAINER_CONTAINER=/x.sif"}, "apptainer"},
		{nil, []string{"container=lxc"}, "lxc"},
	} {
		if got := (Options{Root: fake(t, c.files), Env: c.env}).container(); got != c.want {
			t.Errorf("%v %v: %q, want %q", c.files, c.env, got, c.want)
		}
	}
}

func TestParent(t *testing.T) {
	for text, want := range map[string]int{
		"17 (python3) S 5 17 17": 5, "17 (a) b) S 6 1": 6, "": 0, "17 (x)": 0, "17 (x) S y": 0,
	} {
		if got := parent([]byte(text)); got != want {
			t.Errorf("parent(%q) = %d, want %d", text, got, want)
		}
	}
}

func FuzzProc(f *testing.F) {
	f.Add([]byte("9:pids:/docker/abc\n0::/x\n"), "pids")
	f.Add([]byte("17 (a) b) S 6 1"), "")
	f.Add([]byte("vendor_id : x\nCPU implementer : 0xff"), "A=b")
	f.Add([]byte("A=b\x00C=d\x00"), "C=d")
	f.Add([]byte("7f00-7f01 rw-s 0 00:1a 5 /dev/shm/nccl-used (deleted)\n"), "")
	f.Fuzz(func(t *testing.T, text []byte, word string) {
		if p := cgroupPath(text, word); p == "" || p[0] != '/' {
			t.Errorf("cgroupPath: %q", p)
		}
		if n := parseNumber(text); n < Unknown {
			t.Errorf("parseNumber: %d", n)
		}
		if v := cpuVendor(text); len(v) > maxText {
			t.Errorf("cpuVendor: %d bytes", len(v))
		}
		parent(text)
		if word != "" && hasEntry(text, []byte(word)) && !hasEntry(append([]byte("x\x00"), text...), []byte(word)) {
			t.Error("hasEntry depends on what is before")
		}
		size := map[string]int64{"/dev/shm/nccl-used": 1}
		deleteMapped(size, text)
	})
}
