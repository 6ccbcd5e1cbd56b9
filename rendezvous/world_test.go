package rendezvous

import (
	"maps"
	"reflect"
	"slices"
	"testing"
)

// TestDigest checks that each field of a world is part of its digest, and no two
// neighbours mix.
func TestDigest(t *testing.T) {
	fresh := func() *World {
		return &World{RunID: "r", Job: "j", Roles: map[string]int{"a": 1}, Members: []Member{{ID: "x"}, {ID: "y"}}}
	}
	want := fresh().Digest()
	differs := func(what string, w *World) {
		t.Helper()
		if w.Digest() == want {
			t.Errorf("a world with another %s has the same digest", what)
		}
	}
	set := func(v reflect.Value) {
		switch v.Kind() {
		case reflect.String:
			v.SetString(v.String() + "+")
		case reflect.Int:
			v.SetInt(v.Int() - 1)
		case reflect.Map:
			v.SetMapIndex(reflect.ValueOf("b"), reflect.ValueOf(0))
		case reflect.Slice:
			v.Set(v.Slice(0, 1))
		default:
			t.Fatalf("a field of kind %s", v.Kind())
		}
	}
	for i := range reflect.TypeFor[World]().NumField() {
		w := fresh()
		set(reflect.ValueOf(w).Elem().Field(i))
		differs(reflect.TypeFor[World]().Field(i).Name, w)
	}
	for i := range reflect.TypeFor[Member]().NumField() {
		w := fresh()
		set(reflect.ValueOf(&w.Members[1]).Elem().Field(i))
		differs("member's "+reflect.TypeFor[Member]().Field(i).Name, w)
	}
	shifted := fresh()
	shifted.Job, shifted.Token = "", "j"
	differs("place of a text", shifted)
	same := fresh()
	same.Roles, same.Members = maps.Clone(same.Roles), slices.Clone(same.Members)
	if same.Digest() != want {
		t.Error("a copy has another digest")
	}
}
