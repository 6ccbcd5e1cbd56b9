package wrap

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// printer is a program that prints its environment, whatever it is called as.
const printer = `#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
extern char **environ;
int main(int n, char **v) {
	const char *name = strrchr(v[0], '/') ? strrchr(v[0], '/') + 1 : v[0];
	if (strcmp(name, "env")) { fprintf(stderr, "%s was run\n", name); sleep(1000); }
	for (int i = 1; i < n; i++) if (strchr(v[i], '=')) putenv(v[i]);
	for (char **e = environ; *e; e++) fwrite(*e, 1, strlen(*e) + 1, stdout);
	return 0;
}
`

// TestDocker checks the real Docker, with an image that has an entry point, a
// variable of its own and only one static program.
func TestDocker(t *testing.T) {
	b := newTestNode(t, nil)
	if out, err := b.helper("docker", "version", "--format", "{{.Server.Version}}"); err != nil {
		t.Skipf("missing: Docker (%v %s)", err, out)
	}
	b.write("printer.c", printer)
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("missing: gcc")
	}
	if out, err := b.helper("gcc", "-static", "-O1", "-o", filepath.Join(b.dir, "env"), filepath.Join(b.dir, "printer.c")); err != nil {
		t.Skipf("missing: a static C library (%v %s)", err, out)
	}
	image := fmt.Sprintf("gorun-deliver-%d-%d", os.Getpid(), time.Now().UnixNano())
	b.write("Dockerfile", "FROM scratch\nCOPY env /bin/env\nCOPY env /bin/entry\nENV PATH=/bin NCCL_ALGO=Tree\nENTRYPOINT [\"/bin/entry\"]\n")
	build, _ := b.helper("docker", "build", "--network=none", "-t", image, b.dir)
	if _, err := b.helper("docker", "image", "inspect", image); err != nil {
		t.Skipf("no image could be built: %v %.500s", err, build)
	}
	t.Cleanup(func() { _, _ = b.helper("docker", "rmi", "-f", image) })

	for _, c := range []struct {
		options, missing, changed string
	}{
		{"-it --name gorun-job", "RANK WORLD_SIZE MINE", "NCCL_ALGO"},
		{"-e RANK -e WORLD_SIZE --env MINE -e NCCL_ALGO -p 1:1 -d --restart=always", "", ""},
		{"-e RANK -e NCCL_ALGO=LL", "WORLD_SIZE MINE", ""},
	} {
		lost, err := b.probe(t.Context(), "docker run "+c.options+" "+image+" python train.py")
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(lost.Missing, " "); got != c.missing {
			t.Errorf("%s: missing %q, want %q", c.options, got, c.missing)
		}
		if got := strings.Join(lost.Changed, " "); got != c.changed {
			t.Errorf("%s: changed %q, want %q", c.options, got, c.changed)
		}
	}
	if _, err := b.probe(t.Context(), "docker run gorun-no-such-image:none python"); err == nil {
		t.Error("an image that is not here was probed")
	}
	out, err := b.helper("docker", "ps", "-aq", "--filter", "ancestor="+image)
	if err != nil || strings.TrimSpace(string(out)) != "" {
		t.Errorf("containers are left: %s %v", out, err)
	}
}
