package etcd

import (
	"context"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// checkCluster refuses the answer of a cluster other than the first one.
func (e *Etcd) checkCluster(reply any) error {
	r, ok := reply.(interface {
		GetHeader() *etcdserverpb.ResponseHeader
	})
	if !ok {
		return nil
	}
	id, first := r.GetHeader().GetClusterId(), e.session.cluster.Load()
	if id == 0 || first == 0 || id == first {
		return nil
	}
	return passing("another etcd cluster (%x) than before (%x) answers at %s: was it replaced, or does an address lead to two?", id, first, e.at())
}

// dialOptions makes every answer pass checkCluster.
func (e *Etcd) dialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if err := invoke(ctx, method, req, reply, cc, opts...); err != nil {
				return err
			}
			return e.checkCluster(reply)
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			s, err := open(ctx, desc, cc, method, opts...)
			if err != nil {
				return nil, err
			}
			return &checkedStream{s, e}, nil
		}),
	}
}

// checkedStream is a stream whose answers all pass checkCluster.
type checkedStream struct {
	grpc.ClientStream
	e *Etcd
}

func (c *checkedStream) RecvMsg(m any) error {
	if err := c.ClientStream.RecvMsg(m); err != nil {
		return err
	}
	return c.e.checkCluster(m)
}
