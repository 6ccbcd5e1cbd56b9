package tcpstore

// run reads a command's fields, runs the command and queues its reply.
func (c *conn) run(cmd command) error {
	switch cmd {
	case cmdPing:
		nonce, err := c.in.uint32()
		if err != nil {
			return err
		}
		// The client's nonce is its process id.
		err = c.apply(func() error { c.pid = int(nonce); return nil })
		c.out.uint32(nonce)
		return err
	case cmdGetNumKeys:
		var n int
		err := c.apply(func() error { n = len(c.store.values); return nil })
		c.out.int64(int64(n))
		return err
	case cmdCancelWait:
		// If the wait has just ended, its answer goes out first. The client
		// reads both.
		err := c.apply(func() error { c.store.cancel(&c.session); return nil })
		c.out.byte(waitCanceled)
		return err
	case cmdCheck, cmdWait, cmdMultiGet:
		keys, err := c.in.keys()
		if err != nil {
			return err
		}
		return c.runKeysCommand(cmd, keys)
	case cmdMultiSet:
		return c.multiSet()
	}
	key, err := c.in.key()
	if err != nil {
		return err
	}
	switch cmd {
	case cmdSet, cmdAppend, cmdQueuePush:
		return c.storeValue(cmd, key)
	case cmdCompareSet:
		return c.compareSet(key)
	case cmdAdd:
		return c.add(key)
	}
	return c.runKeyCommand(cmd, key)
}

// runKeysCommand runs a command that has only a list of keys.
func (c *conn) runKeysCommand(cmd command, keys []string) error {
	s := c.store
	switch cmd {
	case cmdCheck:
		reply := byte(checkNotReady)
		if len(keys) == 1 && keys[0] == settledKey { // no worker sends this
			s.mu.Lock()
			if s.settled() {
				reply = checkReady
			}
			s.mu.Unlock()
			c.out.byte(reply)
			return nil
		}
		err := c.apply(func() error {
			if s.check(keys) {
				reply = checkReady
			}
			return nil
		})
		c.out.byte(reply)
		return err
	case cmdWait:
		var ready bool
		err := c.apply(func() (err error) {
			ready, err = s.wait(&c.session, keys)
			return err
		})
		if ready {
			c.out.byte(waitStop)
		}
		return err
	default: // cmdMultiGet
		values := make([][]byte, len(keys))
		err := c.apply(func() error {
			for i, key := range keys {
				values[i] = s.values[key]
			}
			return nil
		})
		for _, v := range values {
			c.out.bytes(v)
		}
		return err
	}
}

// runKeyCommand runs a command that has only a key.
func (c *conn) runKeyCommand(cmd command, key string) error {
	s := c.store
	switch cmd {
	case cmdGet:
		var value []byte
		err := c.apply(func() error { value = s.values[key]; return nil })
		c.out.bytes(value)
		return err
	case cmdDeleteKey:
		var n int64
		err := c.apply(func() error { n = s.delete(key); return nil })
		c.out.int64(n)
		return err
	case cmdQueuePop:
		var value []byte
		var n int64
		err := c.apply(func() error { value, n = s.pop(key); return nil })
		c.out.int64(n)
		if n > 0 {
			c.out.bytes(value)
		}
		return err
	case cmdQueueLen:
		var n int
		err := c.apply(func() error { n = len(s.queues[key]); return nil })
		c.out.int64(int64(n))
		return err
	default: // cmdWatchKey
		err := c.apply(func() error { return s.watch(&c.session, key) })
		c.out.byte(watchRegistered)
		return err
	}
}

// storeValue runs a command that stores one value and has no reply.
func (c *conn) storeValue(cmd command, key string) error {
	value, err := c.in.value()
	if err != nil {
		return err
	}
	return c.apply(func() error {
		switch cmd {
		case cmdAppend:
			return c.store.append(key, value)
		case cmdQueuePush:
			return c.store.push(key, value)
		}
		return c.store.set(key, value)
	})
}

func (c *conn) compareSet(key string) error {
	expected, err := c.in.value()
	if err != nil {
		return err
	}
	value, err := c.in.value()
	if err != nil {
		return err
	}
	err = c.apply(func() (err error) {
		value, err = c.store.compareSet(key, expected, value)
		return err
	})
	c.out.bytes(value)
	return err
}

func (c *conn) add(key string) error {
	delta, err := c.in.uint64()
	if err != nil {
		return err
	}
	var sum int64
	err = c.apply(func() (err error) {
		sum, err = c.store.add(key, int64(delta))
		return err
	})
	c.out.int64(sum)
	return err
}

// multiSet stores nothing until all pairs have arrived, so a client that ends
// half way changes nothing.
func (c *conn) multiSet() error {
	n, err := c.in.length(MaxKeys, "keys")
	if err != nil {
		return err
	}
	type pair struct {
		key   string
		value []byte
	}
	var pairs []pair
	for range n {
		key, err := c.in.key()
		if err != nil {
			return err
		}
		value, err := c.in.value()
		if err != nil {
			return err
		}
		pairs = append(pairs, pair{key, value})
	}
	return c.apply(func() error {
		for _, p := range pairs {
			if err := c.store.set(p.key, p.value); err != nil {
				return err
			}
		}
		return nil
	})
}
