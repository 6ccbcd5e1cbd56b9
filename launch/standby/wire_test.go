package standby

import (
	"encoding/json"
	"reflect"
	"syscall"
	"testing"
	"time"
)

func TestMessageKeepsEveryByte(t *testing.T) {
	m := message{
		Kind: kindStart, Serial: 3, Path: "/bin/sh", Args: texts{"", "a b", "\xff\xfe"}, Env: texts{"A=1\n2"},
		Signal: syscall.SIGTERM, Grace: time.Second, Error: fault{"no", syscall.ENOENT}, At: time.Unix(1, 5).UTC(),
	}
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	got, err := decode(text)
	if err != nil || !reflect.DeepEqual(got, m) {
		t.Errorf("%+v, %v\nwant %+v", got, err, m)
	}
	if _, err := json.Marshal(message{Args: texts{"a\x00b"}}); err == nil {
		t.Error("a text with a zero byte passes")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"kind":"start","serial":1,"args":"YQA="}`))
	f.Add([]byte(`{"kind":"hello","local":-1}`))
	f.Add([]byte(`{"args":"YQ=="}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := decode(text)
		if err != nil {
			return
		}
		again, err := json.Marshal(m)
		if err != nil {
			t.Skip(err) // a time that JSON has no form for, or an empty list of texts
		}
		if _, err := decode(again); err != nil {
			t.Errorf("%s: %v", again, err)
		}
	})
}
