package loader

import (
	"debug/elf"
	"runtime"
	"strings"

	"github.com/gorun/gorun/rendezvous/preflight/loader/tree"
)

// HostMachine is the machine that this program was built for.
func HostMachine() elf.Machine {
	switch runtime.GOARCH {
	case "amd64":
		return elf.EM_X86_64
	case "arm64":
		return elf.EM_AARCH64
	case "ppc64", "ppc64le":
		return elf.EM_PPC64
	case "riscv64":
		return elf.EM_RISCV
	case "s390x":
		return elf.EM_S390
	case "loong64":
		return elf.EM_LOONGARCH
	}
	return elf.EM_NONE
}

// platform is the loader's word for the machine ($PLATFORM), and triplet the
// name of Debian's folder for it. Of the two byte orders of ppc64 the one that
// GPUs are built for counts.
func platform(machine elf.Machine) (platform, triplet string) {
	switch machine {
	case elf.EM_X86_64:
		return "x86_64", "x86_64-linux-gnu"
	case elf.EM_AARCH64:
		return "aarch64", "aarch64-linux-gnu"
	case elf.EM_PPC64:
		return "powerpc64le", "powerpc64le-linux-gnu"
	case elf.EM_RISCV:
		return "riscv64", "riscv64-linux-gnu"
	case elf.EM_S390:
		return "s390x", "s390x-linux-gnu"
	case elf.EM_LOONGARCH:
		return "loongarch64", "loongarch64-linux-gnu"
	}
	return "", ""
}

// system is what the distribution's loader was built with.
type system struct {
	dirs []string // default folders, in order
	lib  string   // $LIB
	plat string   // $PLATFORM
}

// systemOf tells Debian's layout, that of Red Hat and SUSE, and the plain one
// apart by the place of the C library.
func systemOf(t tree.Tree, machine elf.Machine) system {
	plat, triplet := platform(machine)
	if triplet != "" && (t.IsFile("/lib/"+triplet+"/libc.so.6") || t.IsFile("/usr/lib/"+triplet+"/libc.so.6")) {
		lib := "lib/" + triplet
		return system{dirs: []string{"/" + lib, "/usr/" + lib, "/lib", "/usr/lib"}, lib: lib, plat: plat}
	}
	if t.IsFile("/lib64/libc.so.6") || t.IsFile("/usr/lib64/libc.so.6") {
		return system{dirs: []string{"/lib64", "/usr/lib64"}, lib: "lib64", plat: plat}
	}
	return system{dirs: []string{"/lib", "/usr/lib", "/lib64", "/usr/lib64"}, lib: "lib", plat: plat}
}

// expand replaces the loader's tokens in one element of a path list. ok is
// false when a token has no value: the loader drops such an element.
func (s system) expand(dir, origin string) (path string, ok bool) {
	if !strings.Contains(dir, "$") {
		return dir, true
	}
	var b strings.Builder
	for dir != "" {
		i := strings.IndexByte(dir, '$')
		if i < 0 {
			break
		}
		b.WriteString(dir[:i])
		dir = dir[i:]
		value, length := s.token(dir, origin)
		if length == 0 { // no token: an ordinary '$'
			value, length = "$", 1
		} else if value == "" {
			return "", false
		}
		b.WriteString(value)
		dir = dir[length:]
		if b.Len() > maxString {
			return "", false
		}
	}
	b.WriteString(dir)
	return b.String(), true
}

// token is the value of the token that s begins with and the token's length, 0
// for none.
func (s system) token(text, origin string) (value string, length int) {
	for _, t := range [...]struct{ name, value string }{{"ORIGIN", origin}, {"PLATFORM", s.plat}, {"LIB", s.lib}} {
		if strings.HasPrefix(text, "${"+t.name+"}") {
			return t.value, len(t.name) + 3
		}
		if rest, ok := strings.CutPrefix(text, "$"+t.name); ok && (rest == "" || !isNameByte(rest[0])) {
			return t.value, len(t.name) + 1
		}
	}
	return "", 0
}

func isNameByte(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
