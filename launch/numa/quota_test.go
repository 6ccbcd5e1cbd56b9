package numa

import (
	"testing"
	"testing/fstest"
)

func TestQuota(t *testing.T) {
	const v2, v1 = "sys/fs/cgroup", "sys/fs/cgroup/cpu,cpuacct"
	for _, c := range []struct {
		name  string
		files map[string]string
		want  float64
	}{
		{"no cgroup file", nil, 0},
		{"no limit", map[string]string{"proc/self/cgroup": "0::/a\n", v2 + "/a/cpu.max": "max 100000\n"}, 0},
		{"a container", map[string]string{"proc/self/cgroup": "0::/\n", v2 + "/cpu.max": "1600000 100000\n"}, 16},
		{"a container that knows its name on the machine", map[string]string{"proc/self/cgroup": "0::/kubepods/pod1/c\n", v2 + "/cpu.max": "150000 100000\n"}, 1.5},
		{"a container beside its root", map[string]string{"proc/self/cgroup": "0::/../other\n", v2 + "/cpu.max": "100000 100000\n"}, 1},
		{
			"an ancestor has less",
			map[string]string{"proc/self/cgroup": "0::/user/job/step\n", v2 + "/user/cpu.max": "400000 50000\n", v2 + "/user/job/cpu.max": "max 100000\n", v2 + "/user/job/step/cpu.max": "3200000 100000\n"},
			8,
		},
		{
			"version 1",
			map[string]string{"proc/self/cgroup": "4:memory:/m\n3:cpu,cpuacct:/docker/x\n", v1 + "/docker/x/cpu.cfs_quota_us": "250000\n", v1 + "/docker/x/cpu.cfs_period_us": "100000\n", v1 + "/m/cpu.cfs_quota_us": "1\n", v1 + "/m/cpu.cfs_period_us": "1\n"},
			2.5,
		},
		{
			"version 1, an ancestor, beside an empty version 2",
			map[string]string{"proc/self/cgroup": "2:cpu:/a/b\n0::/a\n", "sys/fs/cgroup/cpu/a/cpu.cfs_quota_us": "300000\n", "sys/fs/cgroup/cpu/a/cpu.cfs_period_us": "100000\n", "sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us": "-1\n", "sys/fs/cgroup/cpu/a/b/cpu.cfs_period_us": "100000\n"},
			3,
		},
		{
			"version 1, mounted by two names",
			map[string]string{"proc/self/cgroup": "2:cpu,cpuacct:/\n", "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n", v1 + "/cpu.cfs_quota_us": "500000\n", v1 + "/cpu.cfs_period_us": "100000\n"},
			5,
		},
		{"another controller's name", map[string]string{"proc/self/cgroup": "2:cpuset:/a\n", "sys/fs/cgroup/cpuset/a/cpu.cfs_quota_us": "1\n", "sys/fs/cgroup/cpuset/a/cpu.cfs_period_us": "1\n"}, 0},
		{"rubbish", map[string]string{"proc/self/cgroup": "x\n0::/a\n0::/b\n0::/c\n", v2 + "/a/cpu.max": "1 0\n", v2 + "/b/cpu.max": "-5 7\n", v2 + "/c/cpu.max": "\n"}, 0},
	} {
		root := fstest.MapFS{}
		for name, text := range c.files {
			root[name] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := Quota(root); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
