package store

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
)

// Set stores value under key.
func (c *Client) Set(ctx context.Context, key string, value []byte) error {
	if err := c.check(key, value); err != nil {
		return err
	}
	return c.do(ctx, "set", key, newRequest(cmdSet).key(key).bytes(value), nil)
}

// Get waits until key exists and returns its value.
func (c *Client) Get(ctx context.Context, key string) ([]byte, error) {
	if err := c.Wait(ctx, key); err != nil {
		return nil, err
	}
	var v []byte
	err := c.do(ctx, "get", key, newRequest(cmdGet).key(key), func(r *bufio.Reader) (err error) {
		v, err = readBytes(r, nil)
		return err
	})
	return v, err
}

// Add adds n to the number under key (0 if there is none) and returns the sum.
func (c *Client) Add(ctx context.Context, key string, n int64) (int64, error) {
	return c.number(ctx, "add to", key, newRequest(cmdAdd).key(key).u64(uint64(n)))
}

// Wait returns when all keys exist.
func (c *Client) Wait(ctx context.Context, keys ...string) error {
	if len(keys) == 0 {
		return nil
	}
	if err := c.checkKeys(keys); err != nil {
		return err
	}
	return c.do(ctx, "wait for", keys[0], newRequest(cmdWait).keys(keys), func(r *bufio.Reader) error {
		b, err := readByte(r)
		if err == nil && b != 0 {
			err = fmt.Errorf("the store answered %d to a wait", b)
		}
		return err
	})
}

// Check reports whether all keys exist now.
func (c *Client) Check(ctx context.Context, keys ...string) (bool, error) {
	if len(keys) == 0 {
		return true, nil
	}
	if err := c.checkKeys(keys); err != nil {
		return false, err
	}
	var ready bool
	err := c.do(ctx, "check", keys[0], newRequest(cmdCheck).keys(keys), func(r *bufio.Reader) error {
		b, err := readByte(r)
		if err == nil && b > 1 {
			err = fmt.Errorf("the store answered %d to a check", b)
		}
		ready = b == 0
		return err
	})
	return ready && err == nil, err
}

// Delete removes key and reports whether it existed.
func (c *Client) Delete(ctx context.Context, key string) (bool, error) {
	n, err := c.number(ctx, "delete", key, newRequest(cmdDelete).key(key))
	return n > 0, err
}

// CompareSet sets key to desired if its value is expected, or if it does not exist and
// expected is empty. It returns the value afterwards. If the key does not exist and
// expected is not empty, it returns expected, as torch does.
func (c *Client) CompareSet(ctx context.Context, key string, expected, desired []byte) ([]byte, error) {
	if err := c.check(key, expected); err != nil {
		return nil, err
	}
	if err := c.check(key, desired); err != nil {
		return nil, err
	}
	var v []byte
	req := newRequest(cmdCompareSet).key(key).bytes(expected).bytes(desired)
	err := c.do(ctx, "compare and set", key, req, func(r *bufio.Reader) (err error) {
		v, err = readBytes(r, nil)
		return err
	})
	if err == nil && c.legacy && bytes.Equal(v, desired) {
		// An old store does not wake those who wait for the key; a set does.
		err = c.Set(ctx, key, desired)
	}
	return v, err
}

// Append adds value to the end of what key holds.
func (c *Client) Append(ctx context.Context, key string, value []byte) error {
	if err := c.check(key, value); err != nil {
		return err
	}
	return c.do(ctx, "append to", key, newRequest(cmdAppend).key(key).bytes(value), nil)
}

// NumKeys returns how many keys the store holds. Torch's stores also count their own
// bookkeeping keys.
func (c *Client) NumKeys(ctx context.Context) (int64, error) {
	return c.number(ctx, "count the keys of", "", newRequest(cmdNumKeys))
}

func (c *Client) number(ctx context.Context, what, key string, req *request) (int64, error) {
	if err := c.check(key, nil); err != nil {
		return 0, err
	}
	var n int64
	err := c.do(ctx, what, key, req, func(r *bufio.Reader) (err error) {
		n, err = readI64(r)
		return err
	})
	return n, err
}

func (c *Client) check(key string, value []byte) error {
	if len(key) > MaxKey {
		return fmt.Errorf("a store key of %d bytes is too long: the limit is %d", len(key), MaxKey)
	}
	if len(value) > MaxValue {
		return fmt.Errorf("a store value of %d bytes is too long: the limit is %d", len(value), MaxValue)
	}
	return nil
}

func (c *Client) checkKeys(keys []string) error {
	if len(keys) > MaxKeys {
		return fmt.Errorf("%d store keys in one request are too many: the limit is %d", len(keys), MaxKeys)
	}
	for _, k := range keys {
		if err := c.check(k, nil); err != nil {
			return err
		}
	}
	return nil
}
