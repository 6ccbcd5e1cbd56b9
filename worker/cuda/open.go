package cuda

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"strings"
	"time"

	"github.com/gorun/gorun/worker"
	"github.com/gorun/gorun/worker/collective"
	"github.com/gorun/gorun/worker/cuda/internal/nccl"
)

// Open makes a communicator of the GPUs of comm's ranks, all of which must call it. It is
// Start with FromEnv, and Device.Open.
func Open(ctx context.Context, comm *worker.Comm) (*Comm, error) {
	return Start(FromEnv(os.LookupEnv)).Open(ctx, comm)
}

// Open makes a communicator of the GPUs of comm's ranks, all of which must call it. If a
// rank cannot, all return the reason, an *Error, a *LibraryError or a *SharedDeviceError,
// and may go on with comm on CPUs.
func (d *Device) Open(ctx context.Context, comm *worker.Comm) (*Comm, error) {
	if comm == nil {
		return nil, errors.New("gorun: the communicator is nil: this rank is not a member, or World.Comm or Split failed")
	}
	at, err := comm.Attach(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := at.Deadline(ctx)
	defer cancel()
	c := &core{at: at, dev: d, mu: make(turn, 1), start: start{warm: make(chan struct{})}, aborted: make(chan struct{})}
	c.held.init(c)
	if err := c.open(ctx); err != nil {
		if agreed(err) {
			return nil, err
		}
		return nil, c.fail(err)
	}
	s, err := d.newStream(c)
	if err != nil {
		return nil, c.fail(err)
	}
	at.Answer(c.lastMessage)
	context.AfterFunc(at.Context(), func() {
		if why := at.Ended(); why != nil {
			_ = c.fail(why) // ends the GPU's part, whether or not the program calls
		}
	})
	return &Comm{c, s}, nil
}

// agreed reports whether all ranks return err, each by itself. Then no rank waits for
// another, and the world can go on without GPUs.
func agreed(err error) bool {
	_, unable := errors.AsType[*Error](err)
	_, releases := errors.AsType[*LibraryError](err)
	_, shared := errors.AsType[*SharedDeviceError](err)
	return unable || releases || shared
}

// open goes from two unknown ranks to a communicator.
func (c *core) open(ctx context.Context) error {
	id, err := c.exchangeLibraries(ctx)
	if err != nil {
		return err
	}
	if err := c.exchangeDevices(ctx); err != nil {
		return err
	}
	c.start.times = c.dev.times
	c.start.times.Exchange = time.Since(c.dev.begin)
	if err := c.init(ctx, id); err != nil {
		return err
	}
	c.start.times.Comm = time.Since(c.dev.begin)
	go c.warmUp()
	return nil
}

// libraryFacts is what a rank tells the others of itself and its libnccl.
type libraryFacts struct {
	World   int    `json:"w,omitempty"` // the rank in the world
	Version int    `json:"v,omitempty"`
	Path    string `json:"p,omitempty"`
	Err     string `json:"e,omitempty"`
}

// deviceFacts is what a rank tells the others of its GPU.
type deviceFacts struct {
	Host  uint64 `json:"h"`
	UUID  string `json:"u,omitempty"`
	Board uint64 `json:"b,omitempty"`
	Local int    `json:"l,omitempty"`
	Place uint64 `json:"p,omitempty"`
	Err   string `json:"e,omitempty"`
}

func (f libraryFacts) cut(n int) libraryFacts {
	f.Path, f.Err = lastBytes(f.Path, n), firstBytes(f.Err, n)
	return f
}

func (f deviceFacts) cut(n int) deviceFacts {
	f.Err = firstBytes(f.Err, n)
	return f
}

// firstBytes returns at most n bytes of a text and says that it is cut.
func firstBytes(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}

// lastBytes is firstBytes for the end of a text.
func lastBytes(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return "…" + strings.ToValidUTF8(text[len(text)-n:], "")
}

// exchangeLibraries compares the releases of NCCL and gives all ranks the ID that rank 0
// makes. It runs while the GPU gets its context.
func (c *core) exchangeLibraries(ctx context.Context) (id nccl.ID, err error) {
	if err := c.wait(ctx, c.dev.libReady, "opening libnccl"); err != nil {
		return id, err
	}
	mine := libraryFacts{World: c.at.WorldRank}
	if err := c.dev.libErr; err != nil {
		mine.Err = err.Error()
	} else {
		mine.Version, mine.Path = c.dev.nccl.Version, c.dev.nccl.Path
		if c.at.Rank == 0 {
			if id, err = c.dev.nccl.NewID(); err != nil {
				mine.Err = err.Error()
			}
		}
	}
	all, err := exchange(ctx, c.at.Host, mine)
	if err != nil {
		return id, err
	}
	for _, f := range all {
		c.world = append(c.world, f.World)
	}
	for _, f := range all {
		if f.Err != "" {
			return id, &Error{Rank: f.World, Err: errors.New(f.Err)}
		}
		if f.Version != all[0].Version {
			return id, &LibraryError{
				Ranks:    [2]int{all[0].World, f.World},
				Versions: [2]string{nccl.Text(all[0].Version), nccl.Text(f.Version)},
				Paths:    [2]string{all[0].Path, f.Path},
			}
		}
	}
	err = c.at.Host.Do(ctx, collective.Broadcast(collective.Of(id.Bytes[:]), 0))
	h := fnv.New64a()
	h.Write(id.Bytes[:])
	c.key = h.Sum64()
	return id, err
}

// exchangeDevices finds ranks without a GPU and ranks with the same one, and where the
// ranks of this node write their calls.
func (c *core) exchangeDevices(ctx context.Context) error {
	if err := c.wait(ctx, c.dev.gpuReady, "preparing the GPU"); err != nil {
		return err
	}
	mine := deviceFacts{Host: hostOf(os.LookupEnv), UUID: c.dev.gpu.UUID, Board: c.at.BoardID, Local: c.at.LocalRank, Place: c.at.Line.Place()}
	if err := c.dev.gpuErr; err != nil {
		mine = deviceFacts{Err: err.Error()}
	}
	all, err := exchange(ctx, c.at.Host, mine)
	if err != nil {
		return err
	}
	type place struct {
		host uint64
		uuid string
	}
	owners := map[place]int{}
	c.pairs = make([]pair, len(all))
	if c.at.Board != nil {
		c.self = peer{rank: c.at.Rank, local: c.at.LocalRank, calls: c.at.Board.Peer(c.at.LocalRank, mine.Place)}
	}
	for r, f := range all {
		if f.Err != "" {
			return &Error{Rank: c.world[r], Err: errors.New(f.Err)}
		}
		if owner, taken := owners[place{f.Host, f.UUID}]; taken && f.UUID != "" && os.Getenv("NCCL_MULTI_RANK_GPU_ENABLE") != "1" {
			return &SharedDeviceError{Ranks: [2]int{c.world[owner], c.world[r]}, UUID: f.UUID}
		}
		owners[place{f.Host, f.UUID}] = r
		c.pairs[r].local = elsewhere
		if r != c.at.Rank && f.Board == c.at.BoardID && c.at.Board != nil {
			c.pairs[r].local = f.Local
			if p := c.at.Board.Peer(f.Local, f.Place); p != nil {
				c.peers = append(c.peers, peer{rank: r, local: f.Local, calls: p})
			}
		}
	}
	return nil
}

// hostOf tells machines apart as NCCL does.
func hostOf(lookup func(string) (string, bool)) uint64 {
	h := fnv.New64a()
	if id, _ := lookup("NCCL_HOSTID"); id != "" {
		h.Write([]byte(id))
		return h.Sum64()
	}
	name, _ := os.Hostname()
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	h.Write([]byte(name))
	h.Write(boot)
	return h.Sum64()
}

// recordSize is the room that a rank has for its facts, in bytes.
const recordSize = 1024

// facts is what ranks tell each other: cut returns them with texts of about n bytes at most.
type facts[F any] interface{ cut(n int) F }

// exchange returns the facts of all ranks. Their long texts are cut.
func exchange[F facts[F]](ctx context.Context, host *collective.Group, mine F) ([]F, error) {
	out := make([]byte, recordSize)
	text, err := json.Marshal(mine)
	for n := recordSize / 2; err == nil && len(text) > recordSize && n > 0; n /= 2 {
		text, err = json.Marshal(mine.cut(n))
	}
	if err != nil {
		return nil, err
	}
	copy(out, text)
	in := make([]byte, recordSize*host.Size())
	if err := host.Do(ctx, collective.AllGather(collective.Of(in), collective.Of(out))); err != nil {
		return nil, err
	}
	all := make([]F, host.Size())
	for r := range all {
		record := in[r*recordSize : (r+1)*recordSize]
		for len(record) > 0 && record[len(record)-1] == 0 {
			record = record[:len(record)-1]
		}
		if err := json.Unmarshal(record, &all[r]); err != nil {
			return nil, fmt.Errorf("rank %d of the communicator says nothing that this program understands: are all programs built with the same gorun? (%w)", r, err)
		}
	}
	return all, nil
}

// wait waits for a part of the start.
func (c *core) wait(ctx context.Context, done <-chan struct{}, what string) error {
	tick := time.NewTicker(lookPause)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, context.Cause(ctx))
		case <-tick.C:
			if why := c.at.Ended(); why != nil {
				return why
			}
		}
	}
}

// lookPause is the time between two looks at the world while a call of NCCL blocks.
const lookPause = 5 * time.Millisecond

// init makes the communicator. NCCL cannot stop to, so it does on a thread that is left
// behind if the world ends before.
func (c *core) init(ctx context.Context, id nccl.ID) error {
	type result struct {
		comm nccl.Comm
		err  error
	}
	done, left := make(chan result), make(chan struct{})
	go func() {
		var r result
		if r.err = c.dev.enter(); r.err == nil {
			r.comm, r.err = c.dev.nccl.Init(id, c.at.Rank, c.at.Size)
			c.dev.leave()
		}
		select {
		case done <- r:
		case <-left:
			if r.err == nil {
				_ = c.dev.abort(r.comm)
			}
		}
	}()
	tick := time.NewTicker(lookPause)
	defer tick.Stop()
	for {
		select {
		case r := <-done:
			if r.err == nil {
				c.comm = r.comm
			}
			return r.err
		case <-ctx.Done():
			close(left)
			return fmt.Errorf("making the communicator of %d GPUs: %w", c.at.Size, context.Cause(ctx))
		case <-tick.C:
			if why := c.at.Ended(); why != nil {
				close(left)
				return why
			}
		}
	}
}

// abort ends a communicator from any goroutine.
func (d *Device) abort(comm nccl.Comm) error {
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave()
	return d.nccl.Abort(comm)
}

// warmUp makes the first all-reduce, which connects the GPUs, on a stream of its own. The
// first call of the program waits for it.
func (c *core) warmUp() {
	err := func() (err error) {
		if err := c.dev.enter(); err != nil {
			return err
		}
		defer c.dev.leave()
		s := &Stream{c: c}
		if s.handle, err = c.dev.driver.NewStream(); err != nil {
			return err
		}
		if c.word, err = c.allocWord(); err != nil {
			return err
		}
		if err := c.mu.enter(context.Background()); err != nil {
			return err
		}
		c.held.enter(context.Background())
		to := nccl.To{Comm: c.comm, Stream: uintptr(s.handle)}
		code := c.dev.nccl.AllReduce(uintptr(c.word), uintptr(c.word), 1, nccl.Int32, nccl.Max, to)
		err = c.dev.nccl.Failure("the first all-reduce", code, c.comm)
		c.held.leave()
		c.mu.leave()
		if err == nil {
			err = c.await(context.Background(), s, 0)
		}
		if err == nil {
			err = c.dev.driver.DestroyStream(s.handle)
		}
		return err
	}()
	c.start.times.WarmUp = time.Since(c.dev.begin)
	if err != nil {
		_ = c.fail(err)
		return
	}
	close(c.start.warm)
}

// allocWord returns four bytes of device memory, for calls without data.
func (c *core) allocWord() (p ptr, err error) {
	if p, err = c.dev.driver.Alloc(wordSize); err != nil {
		return 0, fmt.Errorf("%d bytes for calls without data: %w", wordSize, err)
	}
	return p, nil
}

const wordSize = 4
