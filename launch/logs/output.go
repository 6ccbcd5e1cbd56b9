package logs

import (
	"fmt"
	"math"

	"github.com/gorun/gorun/launch/scratch"
)

// Output says where the output of a node's workers goes.
type Output struct {
	Folders       *Folders
	Redirect, Tee StdSpec
	Filter        Filter
	NoFiles       bool // there is no place for files, and the user wants none
}

// OutputOptions holds what the user asked for.
type OutputOptions struct {
	LogDir         string // --log-dir; "": a temporary folder
	Redirects, Tee string // texts of --redirects and --tee
	Filter         Filter // of --duplicate-stdout-filters and --duplicate-stderr-filters
	Dry            bool   // no worker is started that could write
	Temp           string // the folder if LogDir is empty
	RunID          string
	Workers        int // of this node
}

// NewOutput makes the folders. Its errors are errors of the command line; its notes
// are lines for the user.
func NewOutput(o OutputOptions) (out Output, notes []string, err error) {
	if out.Redirect, err = ParseStd(o.Redirects); err != nil {
		return Output{}, nil, fmt.Errorf("--redirects: %w", err)
	}
	if out.Tee, err = ParseStd(o.Tee); err != nil {
		return Output{}, nil, fmt.Errorf("--tee: %w", err)
	}
	dir := o.LogDir
	if out.Filter = o.Filter; o.Dry {
		out.Redirect, out.Tee, out.Filter, dir = StdSpec{}, StdSpec{}, Filter{}, ""
	}
	// torchrun accepts silently what concerns no worker of this node, because nodes
	// may have different numbers of workers.
	note := func(flag string, std StdSpec) {
		if std.Any(math.MaxInt) && !std.Any(o.Workers) {
			notes = append(notes, fmt.Sprintf("%s %s has no effect on this node: its local ranks are below %d", flag, std, o.Workers))
		}
	}
	note("--redirects", out.Redirect)
	note("--tee", out.Tee)
	written := out.Redirect.Any(o.Workers) || out.Tee.Any(o.Workers) || len(out.Filter.Stdout)+len(out.Filter.Stderr) > 0
	out.Folders, err = NewFolders(FolderOptions{Base: dir, Temp: o.Temp, RunID: o.RunID, Workers: o.Workers})
	if o.LogDir == "" && !written && scratch.IsUnwritable(err) { // otherwise the user wants files
		out.Folders, out.NoFiles, err = &Folders{}, true, nil
	}
	if err == nil && dir == "" && written {
		notes = append(notes, "the workers' output is in "+out.Folders.Path)
	}
	return out, notes, err
}
