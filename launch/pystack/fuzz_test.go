package pystack

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"
)

// image is the memory of a hostile process: its bytes repeat for ever.
type image []byte

func (m image) read(at uint64, b []byte) error {
	for i := range b {
		b[i] = m[(at+uint64(i))%uint64(len(m))]
	}
	return nil
}

// FuzzThreads checks that no memory breaks the reader or gets past its bounds, with the
// layout of every version.
func FuzzThreads(f *testing.F) {
	f.Add(make([]byte, 64), uint8(7))
	cyclic := make([]byte, 4096) // every pointer leads back to its beginning
	for i := 0; i < len(cyclic); i += 8 {
		binary.LittleEndian.PutUint64(cyclic[i:], 8)
	}
	for minor := range uint8(20) {
		f.Add(cyclic, minor)
	}
	described := slices.Clone(cyclic)
	copy(described, cookie)
	f.Add(described, uint8(13))
	f.Fuzz(func(t *testing.T, memory []byte, minor uint8) {
		if len(memory) == 0 {
			return
		}
		version := binary.LittleEndian.AppendUint64(nil, 3<<24|uint64(minor)<<16)
		p, err := newInterpreter(image(append(version, memory...)), symbols{runtime: 8, codeType: 8, version: 0}, []mapping{{path: "/usr/lib/python3." + string(rune('0'+minor%10)) + "/x.so"}})
		if err != nil {
			return
		}
		threads, err := p.threads()
		if err != nil {
			return
		}
		for _, thread := range threads {
			for _, frame := range thread {
				if len(thread) > maxFrames || len(frame.File) > 4*maxText || len(frame.Func) > 4*maxText || frame.Line < 0 {
					t.Fatalf("%d frames, %+v", len(thread), frame)
				}
			}
		}
	})
}

func FuzzMaps(f *testing.F) {
	f.Add("7f00-7f10 r--p 00001000 fe:01 77   /usr/lib/libpython3.11.so.1.0 (deleted)\nvsyscall\n")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := parseMaps(strings.NewReader(text))
		if err != nil {
			return
		}
		candidates(0, all)
		minorVersion(all)
	})
}

func FuzzLines(f *testing.F) {
	f.Add([]byte{0x80, 0x01, 0xf7, 0x05, 0x40}, 3, 7)
	f.Fuzz(func(t *testing.T, table []byte, first, at int) {
		for _, format := range []lineFormat{lnotab, linetable, locations} {
			format.lineOf(table, first, at)
		}
	})
}

// TestDescribedLayouts checks the places that parseDescribed reads, by numbers that say
// where they stand: in 3.13 and 3.14 the fields before each one are counted by hand.
func TestDescribedLayouts(t *testing.T) {
	b := make([]byte, describedSize)
	copy(b, cookie)
	for i := 2; i < len(b)/8; i++ { // the third says that it is free-threaded
		binary.LittleEndian.PutUint64(b[8*i:], uint64(i))
	}
	for minor, want := range map[int]layout{
		13: {
			interpreters: 5, interpreter: interpreterLayout{next: 8, threads: 9}, thread: threadLayout{next: 21, frame: 23},
			frame: frameLayout{previous: 29, code: 30, instruction: 31, owner: 33},
			code:  codeLayout{file: 35, name: 36, lines: 38, firstLine: 39, bytecode: 43, format: locations},
			text:  textLayout{state: 68, length: 69, kindBit: 2, ascii: 70, compact: 70 + 16}, object: 45, bytesSize: 65, bytesData: 66,
		},
		14: {
			interpreters: 5, interpreter: interpreterLayout{next: 8, threads: 9}, thread: threadLayout{next: 24, frame: 26},
			frame: frameLayout{previous: 32, code: 33, instruction: 34, owner: 36, tagged: true},
			code:  codeLayout{file: 40, name: 41, lines: 43, firstLine: 44, bytecode: 48, format: locations},
			text:  textLayout{state: 78, length: 79, kindBit: 8, ascii: 80, compact: 80 + 16}, object: 51, bytesSize: 75, bytesData: 76,
		},
	} {
		got, err := parseDescribed(b, minor)
		if err != nil || got != want {
			t.Errorf("3.%d: %v\n got %+v\nwant %+v", minor, err, got, want)
		}
	}
	if _, err := parseDescribed(make([]byte, describedSize), 13); err == nil {
		t.Error("no error for memory that is not Python's")
	}
}
