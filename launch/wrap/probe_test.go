package wrap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/launch/process"
	"github.com/gorun/gorun/rendezvous/preflight"
)

// testNode is a node with programs of its own in front of PATH.
type testNode struct {
	*testing.T
	dir   string
	env   []string
	table *process.Table
}

func newTestNode(t *testing.T, fakes map[string]string) *testNode {
	t.Helper()
	b := &testNode{T: t, dir: t.TempDir()}
	for name, text := range fakes {
		if err := os.WriteFile(filepath.Join(b.dir, name), []byte("#!/bin/bash\n"+text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	b.env = []string{
		"PATH=" + b.dir + ":" + os.Getenv("PATH") + ":/usr/sbin:/sbin", "HOME=" + b.dir, "DIR=" + b.dir,
		"RANK=7", "WORLD_SIZE=11", "NCCL_ALGO=Ring", "MINE=a b\nc=d",
	}
	var err error
	if b.table, err = process.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.table.Close)
	return b
}

// probe runs a probe behind a command line.
func (b *testNode) probe(ctx context.Context, line string) (preflight.WrapperLoss, error) {
	b.Helper()
	argv := words(line)
	p, err := Parse(argv)
	if err != nil {
		return preflight.WrapperLoss{}, err
	}
	if len(p.layers) == 0 {
		b.Fatalf("%s is no wrapper", line)
	}
	b.Setenv("PATH", strings.TrimPrefix(b.env[0], "PATH="))
	path, err := exec.LookPath(argv[0])
	if err != nil {
		b.Skip(err)
	}
	return Probe(ctx, Options{
		Prefix: p, Path: path, Dir: b.dir, Table: b.table, Name: fmt.Sprintf("gorun-probe-%d", os.Getpid()), Say: b.Logf,
		Sent: Sent{Env: b.env, FromGorun: []string{"RANK", "WORLD_SIZE"}, Requested: []string{"MINE"}},
	})
}

// file returns what a fake wrote.
func (b *testNode) file(name string) string {
	text, _ := os.ReadFile(filepath.Join(b.dir, name))
	return string(text)
}

// fakes returns programs that drop what the real wrappers drop, and obey the
// options that pass variables.
func fakes() map[string]string {
	const payload = "\nprogram() { touch $DIR/program-ran; }\n"
	return map[string]string{
		"docker": payload + `echo "$@" >> $DIR/docker.log
[ $1 = run ] || exit 0
shift; pass=() entry=()
while [ $# -gt 0 ]; do case $1 in
  -e) pass+=("$2=${!2}"); shift 2 ;;
  --entrypoint=*) entry=("${1#*=}"); shift ;;
  -*) shift ;;
  *) break ;;
esac; done
image=$1; shift
[ $image = absent ] && { echo "docker: Error response from daemon: No such image: absent" >&2; exit 125; }
[ $image = hanging ] && sleep 1000
[ $image = scratch ] && { echo "exec: env: not found" >&2; [ ${entry[0]} = env ] && exit 127; }
[ $image = tuned ] && pass+=(NCCL_ALGO=Tree)
exec env -i PATH="$PATH" "${pass[@]}" "${entry[@]}" "$@"`,
		"ssh": `while [ $# -gt 0 ]; do case $1 in
  -o) [[ $2 = SendEnv=* ]] && send=${2#*=}; shift 2 ;;
  --) shift; break ;;
  -*) shift ;;
  *) break ;;
esac; done
[ $1 = mute ] && exit 0
[ $1 = down ] && { echo "ssh: connect to host down port 22: Connection refused" >&2; exit 255; }
shift; pass=(); for n in $send; do pass+=("$n=${!n}"); done
echo "Authorized users only" >&2
exec env -i PATH="$PATH" "${pass[@]}" sh -c "$*"`,
		"srun": `while [ $# -gt 0 ]; do case $1 in
  --export=NONE) clear=-i; shift ;;
  --export=ALL) clear=; shift ;;
  -*) shift ;;
  *) break ;;
esac; done
exec env $clear PATH="$PATH" "$@"`,
		"sudo": `while [ $# -gt 0 ]; do case $1 in
  -n) quiet=1; shift ;;
  -E) all=1; shift ;;
  --preserve-env=*) for n in $(tr , ' ' <<< "${1#*=}"); do keep+=("$n=${!n}"); done; shift ;;
  *) break ;;
esac; done
[ "$quiet" ] || { sleep 1000; }
[ "$all" ] && exec "$@"
exec env -i PATH="$PATH" DIR="$DIR" "${keep[@]}" "$@"`,
		"python-fake": `echo no >&2; exit 1`,
	}
}

func TestProbe(t *testing.T) {
	all := []string{"RANK", "WORLD_SIZE", "NCCL_ALGO", "MINE"}
	for _, c := range []struct {
		line  string
		setup func(*testNode)
		want  preflight.WrapperLoss
		err   string
	}{
		{line: "env -i program", want: preflight.WrapperLoss{Missing: all}},
		{line: "env -i RANK=7 NCCL_ALGO=Tree program", want: preflight.WrapperLoss{Missing: []string{"WORLD_SIZE", "MINE"}}},
		{line: "env A=1 program"},
		{line: "timeout 60 program"},
		{line: "nice -n 1 program"},
		{line: "setsid -w program"},
		{line: "bash -lc program"},
		{
			line:  "timeout 60 bash -lc program~--flag~&&~other",
			setup: func(b *testNode) { b.write(".bash_profile", "echo Welcome; export NCCL_ALGO=Tree; unset WORLD_SIZE\n") },
			want:  preflight.WrapperLoss{Missing: []string{"WORLD_SIZE"}, Changed: []string{"NCCL_ALGO"}},
		},
		{line: "docker run -it image program", want: preflight.WrapperLoss{Missing: all}},
		{line: "docker run -e RANK -e WORLD_SIZE -e NCCL_ALGO -e MINE image program"},
		{line: "docker run -e RANK -e WORLD_SIZE -e MINE tuned program", want: preflight.WrapperLoss{Changed: []string{"NCCL_ALGO"}}},
		{line: "docker run scratch program", want: preflight.WrapperLoss{Missing: all}},
		{line: "docker run absent program", err: "No such image"},
		{line: "sudo docker run -e RANK image program", want: preflight.WrapperLoss{Missing: all[1:]}, setup: func(b *testNode) {
			b.write("sudo", "#!/bin/bash\nshift\nexec \"$@\"\n")
		}},
		{line: "sudo program", want: preflight.WrapperLoss{Missing: all}},
		{line: "sudo -E program"},
		{line: "ssh host program", want: preflight.WrapperLoss{Missing: all}},
		{line: "ssh -o SendEnv=RANK~WORLD_SIZE host program~&&~x", want: preflight.WrapperLoss{Missing: all[2:]}},
		{line: "ssh mute program", err: "nothing was printed"},
		{line: "ssh down program", err: "Connection refused"},
		{line: "srun --export=NONE program", err: "outside of an allocation"},
		{line: "srun --export=NONE program", setup: func(b *testNode) { b.env = append(b.env, "SLURM_JOB_ID=1") }, want: preflight.WrapperLoss{Missing: all}},
		{line: "srun program", setup: func(b *testNode) { b.env = append(b.env, "SLURM_JOB_ID=1") }},
	} {
		t.Run(c.line, func(t *testing.T) {
			b := newTestNode(t, fakes())
			if c.setup != nil {
				c.setup(b)
			}
			got, err := b.probe(t.Context(), c.line)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "\n") {
					t.Errorf("%v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got.Missing, c.want.Missing) || !slices.Equal(got.Changed, c.want.Changed) {
				t.Errorf("%+v, want %+v", got, c.want)
			}
			if b.file("program-ran") != "" {
				t.Error("the worker's program was run")
			}
		})
	}
}

// TestFixIsPasted checks that everything arrives when the fix is pasted into the
// command line. A fix is options behind the wrapper's name, in the place of the
// same options that are there; or it leaves out an option.
func TestFixIsPasted(t *testing.T) {
	for line, by := range map[string]string{
		"docker run -it image program":          "",
		"docker run -e RANK image program":      "",
		"sudo program":                          "",
		"sudo docker run -e RANK image program": "",
		"ssh host program":                      "",
		"srun --export=NONE program":            "",
		"env -i program":                        "env program",
		"timeout 60 docker run image program":   "",
	} {
		t.Run(line, func(t *testing.T) {
			b := newTestNode(t, fakes())
			b.env = append(b.env, "SLURM_JOB_ID=1")
			now := line
			for range 3 { // one for each wrapper
				lost, err := b.probe(t.Context(), now)
				if err != nil {
					t.Fatal(err)
				}
				if !hasLoss(lost) {
					return
				}
				p, err := Parse(words(now))
				if err != nil {
					t.Fatal(err)
				}
				pasted := now
				for fix := range strings.Lines(p.fix(lost, func(string) string { return "" })) {
					if command, ok := strings.CutPrefix(strings.TrimRight(fix, "\n"), "  "); ok {
						pasted = paste(t, pasted, strings.TrimSuffix(command, " ..."))
					}
				}
				if pasted == now {
					if by == "" {
						t.Fatalf("nothing to paste for %s: %q", now, p.fix(lost, func(string) string { return "" }))
					}
					pasted = by
				}
				now = pasted
			}
			t.Errorf("it ends as %s, and something is lost still", now)
		})
	}
}

// paste puts the options of a fix behind the wrapper's name.
func paste(t *testing.T, line, fix string) string {
	t.Helper()
	fix = strings.ReplaceAll(fix, "'", "")
	name, options, _ := strings.Cut(fix, " -")
	before, after, ok := strings.Cut(line+" ", name+" ")
	if !ok {
		t.Fatalf("%q has no %s", line, name)
	}
	options = "-" + options
	if key, value, ok := strings.Cut(options, "SendEnv="); ok { // one word with blanks in it, in place of several words
		options = key + "SendEnv=" + strings.ReplaceAll(value, " ", "~")
	}
	var rest []string
	for _, w := range strings.Fields(after) {
		if key, _, ok := strings.Cut(w, "="); ok && strings.HasPrefix(options, key+"=") {
			continue
		}
		rest = append(rest, w)
	}
	return before + name + " " + options + " " + strings.Join(rest, " ")
}

// TestUnknownNameShowsClosedWrapper checks that a name that no wrapper knows shows
// whether names that were not sent would arrive.
func TestUnknownNameShowsClosedWrapper(t *testing.T) {
	for line, closed := range map[string]bool{
		"docker run -e RANK -e MINE image program": true, "bash -lc program": false, "sudo -E program": false, "env -i RANK=8 program": true,
	} {
		t.Run(line, func(t *testing.T) {
			got, err := newTestNode(t, fakes()).probe(t.Context(), line)
			if err != nil {
				t.Fatal(err)
			}
			if passed := slices.Contains(got.Arrived, "RANK") && slices.Contains(got.Arrived, "MINE"); got.BlocksUnknown != closed || passed != strings.Contains(line, "docker") {
				t.Errorf("closed %v, passed %q", got.BlocksUnknown, got.Arrived)
			}
		})
	}
}

func (b *testNode) write(name, text string) {
	b.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o700); err != nil {
		b.Fatal(err)
	}
}

// helper runs a program through the table, which waits for all children.
func (b *testNode) helper(argv ...string) ([]byte, error) {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return nil, err
	}
	o := Options{Path: path, Dir: "/", Table: b.table, Sent: Sent{Env: os.Environ()}}
	return o.run(context.Background(), argv)
}

// TestHangingProbeIsEnded checks that a container that hangs is given up, with
// everything that was started, and removed by its name.
func TestHangingProbeIsEnded(t *testing.T) {
	b := newTestNode(t, fakes())
	b.write("sudo", "#!/bin/bash\nshift\necho $$ >> $DIR/pids\nsetsid -w \"$@\" &\necho $! >> $DIR/pids\nwait\n")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for b.file("docker.log") == "" && ctx.Err() == nil {
			<-time.After(time.Millisecond)
		}
		cancel()
	}()
	if _, err := b.probe(ctx, "sudo docker run hanging program"); err == nil || !strings.Contains(err.Error(), "nothing came from behind sudo docker run") {
		t.Error(err)
	}
	for pid := range strings.FieldsSeq(b.file("pids")) {
		if n, _ := strconv.Atoi(pid); !errors.Is(syscall.Kill(n, 0), syscall.ESRCH) {
			t.Errorf("process %d lives", n)
		}
	}
	if want := fmt.Sprintf("rm -f gorun-probe-%d\n", os.Getpid()); !strings.HasSuffix(b.file("docker.log"), want) {
		t.Errorf("the calls of docker:\n%swant at last %s", b.file("docker.log"), want)
	}
}

// TestEndlessOutput checks that endless output is not kept, and not taken for an
// environment.
func TestEndlessOutput(t *testing.T) {
	b := newTestNode(t, map[string]string{"ssh": "head -c 3000000 /dev/zero; yes a=b | head -c 3000000; printf '\\0GORUN_PROBE=seen\\0'; seq 100000 >&2; echo last >&2; exit ${CODE:-0}"})
	if _, err := b.probe(t.Context(), "ssh host program"); err == nil || !strings.Contains(err.Error(), "nothing was printed") {
		t.Error(err)
	}
	b.env = append(b.env, "CODE=3")
	if _, err := b.probe(t.Context(), "ssh host program"); err == nil || !strings.Contains(err.Error(), "code 3") {
		t.Error(err)
	}
}
