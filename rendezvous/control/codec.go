package control

import (
	"encoding/json"

	"github.com/gorun/gorun/rendezvous"
	"google.golang.org/grpc"
)

// Limits of what an agent accepts from the network.
const (
	maxMessage = 32 << 20 // bytes: a world of 100,000 nodes
	maxStreams = 1 << 16
	maxQueued  = 4096 // messages that wait for a slow peer

	// maxWaiting and maxWaitingBytes bound the messages of one stream that wait for this
	// agent. Agents have few on the way at any time. More is a flood.
	maxWaiting      = 64
	maxWaitingBytes = 1 << 20 // the last one may exceed it
)

// jsonCodec writes messages as JSON. JSON is readable in a packet capture and needs
// one struct on both sides instead of a generated mirror of it. Behind the JSON of a
// message with a world comes, on lines of its own, the world's roster.
type jsonCodec struct{}

func (jsonCodec) Marshal(v any) ([]byte, error) {
	if l, ok := v.(*outgoing); ok {
		return l.data()
	}
	return json.Marshal(v)
}

func (jsonCodec) Unmarshal(data []byte, v any) error {
	if a, ok := v.(*incoming); ok {
		a.size = len(data)
		return unmarshal(data, &a.msg)
	}
	return json.Unmarshal(data, v)
}

func (jsonCodec) Name() string { return "json" }

// incoming is a message that came in.
type incoming struct {
	msg  rendezvous.Message
	size int // bytes
}

// msgPing keeps a stream alive. It never reaches the state machine.
const msgPing rendezvous.Type = "ping"

// stream is what client and server streams have in common.
type stream interface {
	SendMsg(any) error
	RecvMsg(any) error
}

// joiner is the service's server side.
type joiner interface{ join(grpc.ServerStream) error }

const (
	serviceName = "gorun.Control"
	joinMethod  = "/" + serviceName + "/Join"
)

// serviceDesc is what protoc would generate for one method with a stream of
// messages in both directions.
func serviceDesc() *grpc.ServiceDesc {
	return &grpc.ServiceDesc{
		ServiceName: serviceName,
		HandlerType: (*joiner)(nil),
		Streams: []grpc.StreamDesc{{
			StreamName:    "Join",
			ServerStreams: true,
			ClientStreams: true,
			Handler:       func(srv any, s grpc.ServerStream) error { return srv.(joiner).join(s) },
		}},
	}
}
