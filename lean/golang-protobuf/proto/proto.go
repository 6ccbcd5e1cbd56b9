// Package proto is what etcd's client calls of the package of this name, by means
// of its successor google.golang.org/protobuf.
package proto

import (
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
)

// Message is a message of the old API.
type Message = protoadapt.MessageV1

// CompactTextString is m in one line, for a log.
func CompactTextString(m Message) string {
	return prototext.MarshalOptions{AllowPartial: true}.Format(protoadapt.MessageV2Of(m))
}

// Merge adds src to dst, which is of the same type.
func Merge(dst, src Message) {
	proto.Merge(protoadapt.MessageV2Of(dst), protoadapt.MessageV2Of(src))
}
