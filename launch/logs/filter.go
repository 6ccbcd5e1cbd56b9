package logs

import "os"

// Filter lists texts by stream. A line that contains one of them is also written to
// filtered_stdout.log or filtered_stderr.log in the round's folder, after the worker's
// prefix (torchrun's --duplicate-stdout-filters).
type Filter struct{ Stdout, Stderr []string }

// of returns the texts of a stream.
func (f Filter) of(std Std) []string {
	if std == Stdout {
		return f.Stdout
	}
	return f.Stderr
}

// filterFile writes the lines of one worker that a filter keeps. Each write appends whole
// lines, because all workers of the node write to one file.
type filterFile struct {
	file  *os.File
	lines *lineDisplay
	err   error // the first error of a write
}

func openFilter(path, prefix string, texts []string) (*filterFile, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return nil, err
	}
	f := &filterFile{file: file}
	f.lines = &lineDisplay{prefix: prefix, texts: texts, write: func(p []byte) {
		if _, err := file.Write(p); f.err == nil {
			f.err = err
		}
	}}
	return f, nil
}

// close writes the last line and closes the file. It returns the first error.
func (f *filterFile) close() error {
	f.lines.finish()
	if err := f.file.Close(); f.err == nil {
		f.err = err
	}
	return f.err
}
