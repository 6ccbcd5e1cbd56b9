package flight

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Where returns the line of the program that made a call: the innermost frame that is
// neither torch's nor Python's own. It is "" if the recorder kept none.
func (c Call) Where() string {
	if f := c.programFrame(); f != nil {
		return f.String()
	}
	return ""
}

// programFrame returns the innermost frame of the program; nil: there is none.
func (c Call) programFrame() *Frame {
	i := slices.IndexFunc(c.Frames, func(f Frame) bool { return !f.isLibrary() })
	if i < 0 {
		return nil
	}
	return &c.Frames[i]
}

// String returns "step (train.py:12)".
func (f Frame) String() string {
	where := fmt.Sprintf("%s:%d", path.Base(f.File), f.Line)
	if f.Func != "" {
		where = fmt.Sprintf("%s (%s)", f.Func, where)
	}
	return where
}

// torchFolders are the packages of torch from which a program's call reaches a
// collective. A program may have a folder named torch of its own.
var torchFolders = []string{
	"_dynamo", "_functorch", "_inductor", "_ops.py", "_tensor.py", "_compile.py", "autograd", "cuda", "distributed", "fx", "nn", "optim", "utils",
}

// isLibrary reports whether a frame is torch's own, Python's own, or no Python at all.
func (f Frame) isLibrary() bool {
	if f.File == "" || strings.HasPrefix(f.File, "<") || strings.HasSuffix(f.File, ".cpp") || strings.HasSuffix(f.File, ".so") {
		return true
	}
	if i := strings.LastIndex(f.File, "/torch/"); i >= 0 {
		first, _, _ := strings.Cut(f.File[i+len("/torch/"):], "/")
		return strings.HasSuffix(f.File[:i], "-packages") || slices.Contains(torchFolders, first)
	}
	_, standard, found := strings.Cut(f.File, "/lib/python3")
	return found && !strings.Contains(standard, "-packages/")
}
