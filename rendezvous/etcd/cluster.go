package etcd

import (
	"context"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// belongs refuses an answer of another cluster than the first one, because it is
// about other keys.
func (e *Etcd) belongs(reply any) error {
	r, ok := reply.(interface {
		GetHeader() *etcdserverpb.ResponseHeader
	})
	if !ok {
		return nil
	}
	id, met := r.GetHeader().GetClusterId(), e.session.cluster.Load()
	if id == 0 || met == 0 || id == met {
		return nil
	}
	return passing("another etcd cluster (%x) than before (%x) answers at %s: was it replaced, or does an address lead to two?", id, met, e.at())
}

// dialOptions makes every answer pass belongs.
func (e *Etcd) dialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if err := invoke(ctx, method, req, reply, cc, opts...); err != nil {
				return err
			}
			return e.belongs(reply)
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			s, err := open(ctx, desc, cc, method, opts...)
			if err != nil {
				return nil, err
			}
			return &checked{s, e}, nil
		}),
	}
}

// checked is a stream whose answers all come from one cluster.
type checked struct {
	grpc.ClientStream
	e *Etcd
}

func (c *checked) RecvMsg(m any) error {
	if err := c.ClientStream.RecvMsg(m); err != nil {
		return err
	}
	return c.e.belongs(m)
}
