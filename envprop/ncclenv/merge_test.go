package ncclenv

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
)

func TestMerge(t *testing.T) {
	user := ParseConf("/home/u/.nccl.conf", []byte("NCCL_PROTO=LL\nNCCL_DEBUG=INFO\nMY_OWN=1\n"))
	system := ParseConf("/etc/nccl.conf", []byte("NCCL_PROTO=Simple\nNCCL_IB_HCA=mlx5\n"))
	got := Merge([]string{
		"NCCL_DEBUG=WARN", "PATH=/bin", "broken", "GLOO_SOCKET_IFNAME=eth0", "OMP_NUM_THREADS=4", "NCCL_DEBUG=VERSION",
		"NCCL_ALGO=", "LD_LIBRARY_PATH=/a:/b", "PYTHONPATH=/p", "SLURM_JOB_ID=1", "HOME=/root", "MASTER_PORT=1",
	}, []File{user, system})
	want := []Value{
		{Name: "GLOO_SOCKET_IFNAME", Value: "eth0", Source: Environment},
		{Name: "LD_LIBRARY_PATH", Value: "/a:/b", Source: Environment},
		{Name: "MASTER_PORT", Value: "1", Source: Environment},
		{Name: "MY_OWN", Value: "1", Source: "/home/u/.nccl.conf"},
		{Name: "NCCL_ALGO", Value: "", Source: Environment},
		{Name: "NCCL_DEBUG", Value: "VERSION", Source: Environment, Hidden: []From{{"INFO", "/home/u/.nccl.conf"}}},
		{Name: "NCCL_IB_HCA", Value: "mlx5", Source: "/etc/nccl.conf"},
		{Name: "NCCL_PROTO", Value: "LL", Source: "/home/u/.nccl.conf", Hidden: []From{{"Simple", "/etc/nccl.conf"}}},
		{Name: "OMP_NUM_THREADS", Value: "4", Source: Environment},
		{Name: "PYTHONPATH", Value: "/p", Source: Environment},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if v, ok := Find(got, "NCCL_PROTO"); !ok || v.Value != "LL" {
		t.Errorf("Find: %+v, %v", v, ok)
	}
	if v, ok := Find(got, "NCCL_NONE"); ok {
		t.Errorf("Find: %+v", v)
	}
}

func TestMergeHidesCredentials(t *testing.T) {
	for entry, want := range map[string]string{
		"http_proxy=http://user:pw@proxy:3128":      "http://***@proxy:3128",
		"https_proxy=user:pw@proxy:3128":            "***@proxy:3128",
		"HTTPS_PROXY=http://proxy:3128":             "http://proxy:3128",
		"ALL_PROXY=socks5://u:a/b@c@proxy:1":        "socks5://***@proxy:1",
		"NO_PROXY=10.0.0.0/8,.local":                "10.0.0.0/8,.local",
		"TORCH_LOGS=a://u:p@h,b://u:p@h":            "a://***@h,b://***@h",
		"NVIDIA_API_KEY=abc":                        "(hidden)",
		"NCCL_PSK=abc":                              "(hidden)",
		"NCCL_PSK=":                                 "",
		"NCCL_IB_PKEY=1":                            "1",
		"NCCL_SOCKET_IFNAME=^=docker0":              "^=docker0",
		"PYTHONPATH=/home/me@work":                  "/home/me@work",
		"LD_PRELOAD=" + strings.Repeat("x", 10_000): strings.Repeat("x", maxValue) + "...",
	} {
		if got := Merge([]string{entry}, nil); len(got) != 1 || got[0].Value != want {
			t.Errorf("%.50s: %+v, want %q", entry, got, want)
		}
	}
}

func TestMergeIsBounded(t *testing.T) {
	var env []string
	for i := range 3 * maxValues {
		env = append(env, fmt.Sprintf("NCCL_X%d=1", i))
	}
	if n := len(Merge(env, nil)); n != maxValues {
		t.Errorf("%d values", n)
	}
}

func FuzzPasswordIsHidden(f *testing.F) {
	f.Add("http", "user", "secret", "proxy:3128")
	f.Fuzz(func(t *testing.T, scheme, user, password, host string) {
		// Marks that cannot come from elsewhere in the value.
		password = "<<" + strings.NewReplacer(" ", "", ",", "", "\t", "", "\n", "").Replace(password) + ">>"
		user = strings.NewReplacer(" ", "", ",", "", "\t", "", "\n", "").Replace(user)
		got := withoutUser(scheme+"://"+user+":"+password+"@"+strings.NewReplacer("<", "", ">", "").Replace(host), true)
		if strings.Contains(got, password) && !strings.Contains(scheme+user, password) {
			t.Errorf("%q", got)
		}
	})
}

// place makes a root with the own user's home in its password database.
func place(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func passwd() string {
	return fmt.Sprintf("daemon:x:99999:1::/:/bin/sh\nbroken\nme:x:%d:0:Me:/home/me:/bin/sh\n", os.Getuid())
}

func TestGather(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		env   []string
		nccl  int
		paths []string // of the conf files
		value string   // of NCCL_PROTO
		lacks int      // things left unknown
	}{
		{"none", nil, nil, 0, nil, "", 0},
		{"system", map[string]string{"etc/nccl.conf": "NCCL_PROTO=S"}, nil, 0, []string{"/etc/nccl.conf"}, "S", 0},
		{
			"user before system",
			map[string]string{"etc/passwd": passwd(), "home/me/.nccl.conf": "NCCL_PROTO=U", "etc/nccl.conf": "NCCL_PROTO=S"},
			[]string{"HOME=/elsewhere"},
			0,
			[]string{"/home/me/.nccl.conf", "/etc/nccl.conf"},
			"U", 0,
		},
		{
			"$HOME is not what NCCL asks",
			map[string]string{"etc/passwd": passwd(), "elsewhere/.nccl.conf": "NCCL_PROTO=U"},
			[]string{"HOME=/elsewhere"},
			0, nil, "", 0,
		},
		{"unknown user", map[string]string{"h/.nccl.conf": "NCCL_PROTO=U"}, []string{"HOME=/h"}, 0, []string{"/h/.nccl.conf"}, "U", 1},
		{
			"named file",
			map[string]string{"etc/passwd": passwd(), "home/me/.nccl.conf": "NCCL_PROTO=U", "x.conf": "NCCL_PROTO=N"},
			[]string{"NCCL_CONF_FILE=/x.conf"},
			0,
			[]string{"/x.conf"},
			"N", 0,
		},
		{
			"named file before 2.23",
			map[string]string{"etc/passwd": passwd(), "home/me/.nccl.conf": "NCCL_PROTO=U", "x.conf": "NCCL_PROTO=N"},
			[]string{"NCCL_CONF_FILE=/x.conf"},
			22205,
			[]string{"/home/me/.nccl.conf"},
			"U", 0,
		},
		{"relative name", map[string]string{"job/x.conf": "NCCL_PROTO=N"}, []string{"NCCL_CONF_FILE=x.conf"}, 0, []string{"x.conf"}, "N", 0},
		{"no user file wanted", map[string]string{"etc/passwd": passwd(), "home/me/.nccl.conf": "NCCL_PROTO=U"}, []string{"NCCL_CONF_FILE=/dev/null"}, 0, nil, "", 0},
		{"environment wins", map[string]string{"etc/nccl.conf": "NCCL_PROTO=S"}, []string{"NCCL_PROTO=E"}, 0, []string{"/etc/nccl.conf"}, "E", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			values, confs, unknown := Gather(context.Background(), Options{Root: place(t, c.files), Env: c.env, Dir: "/job", NCCL: c.nccl})
			var paths []string
			for _, f := range confs {
				paths = append(paths, f.Path)
				if f.Error != "" {
					t.Errorf("%s: %s", f.Path, f.Error)
				}
			}
			v, _ := Find(values, "NCCL_PROTO")
			if !reflect.DeepEqual(paths, c.paths) || v.Value != c.value || len(unknown) != c.lacks {
				t.Errorf("files %q, value %q, unknown %q; want %q, %q, %d", paths, v.Value, unknown, c.paths, c.value, c.lacks)
			}
		})
	}
}

func TestGatherNamesAFileThatCannotBeRead(t *testing.T) {
	root := place(t, map[string]string{"dir/x": ""})
	fifo := filepath.Join(root, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/none": "no such file", "/dir": "not a regular file", "/fifo": "not a regular file", "~/nccl.conf": "does not expand ~",
	} {
		_, confs, _ := Gather(context.Background(), Options{Root: root, Env: []string{"NCCL_CONF_FILE=" + path}, Dir: "/"})
		if len(confs) != 1 || confs[0].Path != path || !strings.Contains(confs[0].Error, want) {
			t.Errorf("%s: %+v, want %q", path, confs, want)
		}
	}
}

func TestGatherHere(t *testing.T) {
	values, _, _ := Gather(context.Background(), Options{Env: append(os.Environ(), "NCCL_DEBUG=WARN")})
	if v, ok := Find(values, "NCCL_DEBUG"); !ok || v.Value != "WARN" || v.Source != Environment {
		t.Errorf("%+v", values)
	}
}

func BenchmarkGather(b *testing.B) {
	o := Options{Env: append(os.Environ(), "NCCL_DEBUG=WARN", "NCCL_SOCKET_IFNAME=eth0")}
	for b.Loop() {
		Gather(context.Background(), o)
	}
}
