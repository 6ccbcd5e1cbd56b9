package tcpstore

// These limit a single request. They are the limits of torch's own libuv server
// (TCPStoreLibUvBackend.cpp: MAX_KEY_COUNT, MAX_STRING_LEN, MAX_PAYLOAD_LEN).
const (
	MaxKeys  = 128 << 10 // keys in one CHECK, WAIT, MULTI_GET or MULTI_SET
	MaxKey   = 8 << 10   // bytes in a key
	MaxValue = 8 << 20   // bytes in a value of one request
)

// validateMagic follows the first byte of a modern connection (little-endian).
const validateMagic = 0x3C85F7CE

// command is a request's meaning. Up to cmdQueueLen the values are the codes of
// the modern dialect.
type command byte

const (
	cmdValidate command = iota
	cmdSet
	cmdCompareSet
	cmdGet
	cmdAdd
	cmdCheck
	cmdWait
	cmdGetNumKeys
	cmdDeleteKey
	cmdAppend
	cmdMultiGet
	cmdMultiSet
	cmdCancelWait
	cmdPing
	cmdQueuePush
	cmdQueuePop
	cmdQueueLen
	cmdWatchKey // legacy only
)

// These are the bytes of replies.
const (
	checkReady    = 0
	checkNotReady = 1

	waitStop     = 0 // all keys are there
	waitCanceled = 1

	watchUpdated    = 0
	watchCreated    = 1
	watchDeleted    = 2
	watchRegistered = 3
	watchAppended   = 4
)

// dialect numbers the commands.
type dialect byte

const (
	dialectUnknown dialect = iota
	dialectModern
	dialectLegacy
)

// command returns the meaning of a code. ok is false if the dialect has no such
// code. VALIDATE is only valid as the first frame and therefore not here.
func (d dialect) command(code byte) (cmd command, ok bool) {
	cmd = command(code)
	switch d {
	case dialectModern:
		return cmd, cmd > cmdValidate && cmd <= cmdQueueLen
	case dialectLegacy:
		// torch 1.13 ends with DELETE_KEY (8). torch 2.0 added APPEND to
		// CANCEL_WAIT with the numbers that they still have.
		switch {
		case code < 7:
			return cmd + 1, true
		case code == 7:
			return cmdWatchKey, true
		}
		return cmd, cmd <= cmdCancelWait
	}
	return cmd, false
}
