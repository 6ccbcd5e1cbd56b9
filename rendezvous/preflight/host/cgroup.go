package host

import (
	"bytes"
	"path"
	"strings"
)

// maxDepth bounds how far a cgroup's ancestors are followed.
const maxDepth = 32

// MemoryMax returns the most memory that the cgroup of this process allows it,
// in bytes. It returns Unlimited or Unknown if there is no such number.
func MemoryMax() int64 {
	l := unknownLimits()
	Options{}.cgroup(&l)
	return l.MemMax
}

// cgroup sets the limits of this process's cgroup and its ancestors. The one
// with the least room counts.
func (o Options) cgroup(l *Limits) {
	text := o.head("/proc/self/cgroup", 16<<10)
	const mount = "/sys/fs/cgroup"
	pids, memory := room{Unknown, Unknown}, room{Unknown, Unknown}
	if o.head(mount+"/cgroup.controllers", 1) != nil { // version 2 alone
		group := cgroupPath(text, "")
		pids = o.tightestLimit(mount, group, "pids.max", "pids.current")
		memory = o.tightestLimit(mount, group, "memory.max", "memory.current")
	} else {
		pids = o.tightestLimit(mount+"/pids", cgroupPath(text, "pids"), "pids.max", "pids.current")
		memory = o.tightestLimit(mount+"/memory", cgroupPath(text, "memory"), "memory.limit_in_bytes", "memory.usage_in_bytes")
	}
	l.PidsMax, l.PidsCurrent = pids.most, pids.used
	l.MemMax, l.MemCurrent = memory.most, memory.used
}

// cgroupPath returns the path of a controller's group in /proc/PID/cgroup, "/"
// if it is not there. A line is ID:CONTROLLERS:PATH, without controllers for
// version 2 (cgroups(7)).
func cgroupPath(text []byte, controller string) string {
	for line := range bytes.Lines(text) {
		parts := strings.SplitN(strings.TrimSuffix(string(line), "\n"), ":", 3)
		if len(parts) != 3 || !strings.HasPrefix(parts[2], "/") {
			continue
		}
		if controller == "" && parts[1] == "" {
			return path.Clean(parts[2])
		}
		for name := range strings.SplitSeq(parts[1], ",") {
			if controller != "" && name == controller {
				return path.Clean(parts[2])
			}
		}
	}
	return "/"
}

// room is a limit and how much of it is used.
type room struct{ most, used int64 }

func (r room) left() int64 { return r.most - max(r.used, 0) }

// tightestLimit reads the limits of a group and of its ancestors up to the
// mount. In a container the path may be the host's while the mount is the
// container's own, so tightestLimit skips folders that do not exist. A group
// that limits nothing has no file at the root.
func (o Options) tightestLimit(mount, group, most, used string) room {
	best, found := room{Unknown, Unknown}, false
	for range maxDepth {
		dir := path.Join(mount, group)
		if r := (room{o.number(dir + "/" + most), Unknown}); r.most != Unknown {
			r.used = o.number(dir + "/" + used)
			switch {
			case !found:
				best, found = r, true
			case r.most != Unlimited && (best.most == Unlimited || r.left() < best.left()):
				best = r
			}
		}
		if group == "/" || group == "." {
			break
		}
		group = path.Dir(group)
	}
	if !found && o.readable(mount) {
		best.most = Unlimited
	}
	return best
}
