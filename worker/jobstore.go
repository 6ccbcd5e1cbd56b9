package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/gorun/gorun/worker/store"
)

// Store is the job's key-value store. All ranks of a round see the same keys; those of an
// earlier round are out of sight. Its methods may be called from several goroutines.
type Store struct {
	w      *World
	c      *store.Client
	prefix string
}

// Store connects to the job's store. The connection lasts until World.Close.
func (w *World) Store(ctx context.Context) (*Store, error) {
	ctx, leave, err := w.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	if s := w.jobStore().store; s != nil {
		return s, nil
	}
	c, err := w.dialStore(ctx)
	if err != nil {
		if why := w.gate.Err(); why != nil {
			return nil, why
		}
		return nil, voiced(err)
	}
	s := &Store{w: w, c: c, prefix: w.prefix() + "job/"}
	w.mu.Lock()
	w.kv.store = s
	w.mu.Unlock()
	return s, nil
}

// kv is a world's part of the job's store.
type kv struct {
	store  *Store        // the connection; nil: there is none
	server *store.Server // the store itself, if this process serves it
}

func (w *World) jobStore() kv {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.kv
}

// prefix begins the store's keys of this round. A store may outlive a round, so keys of
// an earlier one need another name.
func (w *World) prefix() string {
	return fmt.Sprintf("gorun/worker/%d.%d/", w.set.Round, w.set.RestartCount)
}

// close closes the connection of s, which may be nil.
func (s *Store) close() {
	if s != nil {
		s.c.Close()
	}
}

// Set stores value under key.
func (s *Store) Set(ctx context.Context, key string, value []byte) error {
	return s.outcome(s.c.Set(ctx, s.prefix+key, value))
}

// Add adds n to the number under key, 0 if there is none, and returns the sum.
func (s *Store) Add(ctx context.Context, key string, n int64) (int64, error) {
	sum, err := s.c.Add(ctx, s.prefix+key, n)
	return sum, s.outcome(err)
}

// Get waits until key exists and returns its value.
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	if err := s.Wait(ctx, key); err != nil {
		return nil, err
	}
	value, err := s.c.Get(ctx, s.prefix+key)
	return value, s.outcome(err)
}

// Delete removes key and reports whether it existed.
func (s *Store) Delete(ctx context.Context, key string) (bool, error) {
	existed, err := s.c.Delete(ctx, s.prefix+key)
	return existed, s.outcome(err)
}

// Wait returns when all keys exist.
func (s *Store) Wait(ctx context.Context, keys ...string) error {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = s.prefix + k
	}
	if there, err := s.c.Check(ctx, names...); there || err != nil {
		return s.outcome(err)
	}
	// The wait has a connection of its own, because another goroutine of this process may
	// set the key meanwhile.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.w.ctx, func() { cancel(context.Cause(s.w.ctx)) })()
	c, err := store.Dial(ctx, s.w.set.Store)
	if err != nil {
		return s.outcome(err)
	}
	defer c.Close()
	return s.outcome(c.Wait(ctx, names...))
}

// outcome returns the error of a call. If there is an abort, that is the error.
func (s *Store) outcome(err error) error {
	if err == nil {
		return nil
	}
	if abort, ok := errors.AsType[*AbortError](context.Cause(s.w.ctx)); ok {
		return abort
	}
	return voiced(err)
}
