package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Seal implements rendezvous.Fence.
func (e *Etcd) Seal(ctx context.Context, c rendezvous.Seal) rendezvous.Sealed {
	s := &seal{Etcd: e, Seal: c, began: time.Now(), base: -1}
	w := c.World
	s.record = round{Job: w.Job, Term: w.Term, Round: w.Round, Digest: w.Digest(), Sealer: e.cfg.ID, Control: e.cfg.Control}
	s.idle = map[rendezvous.NodeID]bool{e.cfg.ID: true}
	for _, m := range w.Members {
		s.record.Members = append(s.record.Members, member{m.ID, m.Control})
		s.idle[m.ID] = true
	}
	for _, id := range slices.Concat(c.Here, c.Lost) {
		s.idle[id] = true
	}
	return s.run(ctx)
}

// seal is one call of Seal.
type seal struct {
	*Etcd
	rendezvous.Seal
	record round
	idle   map[rendezvous.NodeID]bool // nodes where no worker of an earlier world lives
	began  time.Time
	posted string // text of the last Waiting
	base   int64  // revision of the round's key when this seal first read it; -1: not read yet
}

// errBusy says why the seal must wait.
type errBusy struct{ text string }

func (b errBusy) Error() string { return b.text }

// errRefused says that another agent has sealed a world.
type errRefused struct {
	text  string
	ended bool // the job is over
}

func (r errRefused) Error() string { return r.text }

func (s *seal) run(ctx context.Context) rendezvous.Sealed {
	out := rendezvous.Sealed{Serial: s.Serial}
	select {
	case <-ctx.Done():
		out.Text = "etcd at " + s.at() + " has not answered yet"
		return out
	case <-s.gates.started:
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.session.running, cancel)()
	select {
	case <-ctx.Done():
		out.Text = "an earlier seal has not ended yet"
		return out
	case <-s.gates.sealing:
	}
	defer func() { s.gates.sealing <- struct{}{} }()
	if t := s.checkRecord(); t != nil {
		s.endRun(t)
		out.Text = t.text
		return out
	}
	for wait := 10 * time.Millisecond; ; wait = min(wait*3/2, 250*time.Millisecond) {
		err := s.try(ctx)
		if errors.Is(rpctypes.Error(err), rpctypes.ErrRequestTooLarge) {
			s.endRun(s.explain(err))
		}
		if refused, ok := errors.AsType[errRefused](err); ok {
			out.Refused, out.Ended, out.Text = true, refused.ended, refused.text
			return out
		}
		if err == nil {
			out.OK = true
			return out
		}
		s.postWaiting(err)
		if !pause(ctx, wait) {
			out.Text = s.waitingText(err)
			return out
		}
	}
}

// checkRecord says why agents could not read the record. The key of a forged round may
// lead a job to numbers that are too large.
func (s *seal) checkRecord() *trouble {
	text := s.record.encode()
	_, err := decodeRound([]byte(text))
	switch {
	case len(text) > maxRound:
		return final("the record of %d nodes has %d bytes, etcd takes %d: use fewer nodes, or --rdzv-backend gossip", len(s.record.Members), len(text), maxRound)
	case s.record.Term > maxCount || s.record.Round > maxCount:
		return final("the key %s in etcd at %s led to term %d and round %d, which no job reaches: delete it, or give another --rdzv-id", s.keys.round, s.at(), s.record.Term, s.record.Round)
	case err != nil:
		return final("agents could not read the record of this world: %v", err)
	}
	return nil
}

// endRun makes Run return an error that waiting does not solve.
func (e *Etcd) endRun(t *trouble) {
	select {
	case e.gates.fatal <- t:
	default:
	}
}

func (s *seal) waitingText(err error) string {
	if busy, ok := errors.AsType[errBusy](err); ok {
		return busy.text
	}
	return s.explain(err).text
}

// postWaiting posts what this seal waits for, once it has waited for a second.
func (s *seal) postWaiting(err error) {
	if text := s.waitingText(err); text != s.posted && time.Since(s.began) > time.Second {
		s.posted = text
		s.emit(rendezvous.Waiting{Serial: s.Serial, Text: text})
	}
}

// try does all steps of a seal once. If an earlier try wrote the record and got no
// answer, try succeeds, too.
func (s *seal) try(ctx context.Context) error {
	lease := s.confirmedLease()
	if lease == 0 {
		return s.unconfirmedError()
	}
	if err := s.endLostMemberships(ctx, lease); err != nil {
		return err
	}
	r, coordinator, err := s.readJob(ctx)
	if err != nil {
		return err
	}
	done, err := s.checkRound(ctx, r)
	if done || err != nil {
		return err
	}
	if err := s.checkCoordinator(ctx, r, coordinator); err != nil {
		return err
	}
	job, err := s.leaseFor(ctx, s.record.Job)
	if err != nil {
		return err
	}
	got, err := s.txn(ctx, []clientv3.Cmp{
		clientv3.Compare(clientv3.ModRevision(s.keys.round), "=", r.rev),
		clientv3.Compare(clientv3.ModRevision(s.keys.coordinator), "=", coordinator.rev),
		clientv3.Compare(clientv3.LeaseValue(s.keys.self), "=", lease),
	}, []clientv3.Op{
		clientv3.OpPut(s.keys.round, s.record.encode(), clientv3.WithLease(job)),
		clientv3.OpPut(s.keys.coordinator, encode(s.self(-1)), clientv3.WithLease(lease)),
	}, nil)
	switch {
	case isLeaseNotFound(err):
		s.setJob(nil) // the node's lease may have ended instead, which keepRegistered finds
		return errBusy{"etcd at " + s.at() + " has ended the lease of this node or of the job"}
	case err != nil:
		return err
	case !got.Succeeded:
		return errBusy{"another agent writes to etcd at " + s.at() + " at the same time"}
	}
	return s.finish(job, got.Header.Revision, r)
}

func (s *seal) unconfirmedError() error {
	return errBusy{"etcd at " + s.at() + " does not confirm this node's membership"}
}

// finish notes that the record is in etcd.
func (s *seal) finish(job leaseID, rev int64, before entry[round]) error {
	s.mu.Lock()
	if j := s.job; j != nil && j.id == job {
		j.rev = max(j.rev, rev)
	}
	if rev > s.sealed.rev {
		s.sealed = sealed{rev, s.record.ids()}
	}
	s.mu.Unlock()
	s.wakes.changed.wake()
	if before.lease != 0 && before.lease != job { // no key is under it any more
		ctx, cancel := context.WithTimeout(s.session.running, callLimit)
		defer cancel()
		_ = s.revoke(ctx, before.lease)
	}
	if s.confirmedLease() == 0 { // the record was written, but perhaps long ago
		return s.unconfirmedError()
	}
	return nil
}

// readJob reads the round's and the coordinator's key.
func (e *Etcd) readJob(ctx context.Context) (r entry[round], coordinator entry[agent], err error) {
	got, err := e.txn(ctx, nil, []clientv3.Op{clientv3.OpGet(e.keys.round), clientv3.OpGet(e.keys.coordinator)}, nil)
	if err != nil {
		return r, coordinator, err
	}
	for _, kv := range got.Responses[0].GetResponseRange().Kvs {
		r = entryOf(kv, decodeRound)
	}
	for _, kv := range got.Responses[1].GetResponseRange().Kvs {
		coordinator = entryOf(kv, decodeAgent)
	}
	return r, coordinator, nil
}

// checkRound compares the seal with the round that is sealed. done means that this very
// seal has sealed it.
func (s *seal) checkRound(ctx context.Context, r entry[round]) (done bool, err error) {
	v := r.value
	sealedHere := v != nil && v.Sealer == s.cfg.ID
	if sealedHere && v.Job == s.record.Job && v.Digest == s.record.Digest {
		s.mu.Lock()
		j := s.job
		kept := j != nil && j.id == r.lease && !j.ended
		s.mu.Unlock()
		if kept {
			return true, s.finish(r.lease, r.rev, entry[round]{})
		}
	}
	if s.base < 0 {
		s.base = r.rev
	}
	switch {
	case s.Later && (r.rev == 0 || v != nil && v.Job != s.record.Job):
		return false, errRefused{text: "etcd at " + s.at() + " has no world of this job any more", ended: true}
	case r.rev == 0:
		return false, nil
	case v == nil || v.Job != s.record.Job && !sealedHere:
		if s.base != r.rev {
			return false, errRefused{text: "a world of another job was sealed under this run id"}
		}
		why, err := s.stillRunning(ctx, r)
		if err == nil && why != "" {
			err = errBusy{why}
		}
		return false, err
	case !sealedHere && (r.rev != s.base || v.Term > s.record.Term || v.Round >= s.record.Round):
		return false, errRefused{text: fmt.Sprintf("%s has sealed a world (round %d)", v.Control, v.Round)}
	}
	return false, s.checkIdle(ctx, v)
}

// checkIdle returns errBusy with the nodes on which a worker of the sealed world may
// run.
func (s *seal) checkIdle(ctx context.Context, v *round) error {
	var ids []rendezvous.NodeID
	for _, m := range v.Members {
		if !s.idle[m.ID] {
			ids = append(ids, m.ID)
		}
	}
	nodes, err := s.readNodes(ctx, ids)
	if err != nil {
		return err
	}
	var busy []string
	for _, id := range ids {
		if n, found := nodes[id]; found && n.vacated < v.Round {
			busy = append(busy, n.name)
		}
	}
	if n := len(busy); n > 0 {
		more := ""
		if n > 3 {
			busy, more = busy[:3], fmt.Sprintf(" and %d more", n-3)
		}
		return errBusy{fmt.Sprintf("%s%s must first stop the workers of round %d, or lose the lease in etcd (at most %v after its last renewal)", strings.Join(busy, ", "), more, v.Round, s.cfg.TTL)}
	}
	return nil
}

// checkCoordinator refuses to replace a coordinator that is a member and may still run
// workers.
func (s *seal) checkCoordinator(ctx context.Context, r entry[round], coordinator entry[agent]) error {
	c := coordinator.value
	switch {
	case coordinator.rev == 0 || c != nil && s.idle[c.ID]:
		return nil
	case c == nil:
		return errBusy{s.foreignKey(s.keys.coordinator)}
	}
	nodes, err := s.readNodes(ctx, []rendezvous.NodeID{c.ID})
	if err != nil {
		return err
	}
	if n, found := nodes[c.ID]; found && (r.value == nil || n.vacated < r.value.Round) {
		return errRefused{text: c.Control + " coordinates this run"}
	}
	return nil
}

// endLostMemberships removes the nodes that are known to be lost from etcd.
func (s *seal) endLostMemberships(ctx context.Context, lease leaseID) error {
	nodes, err := s.readNodes(ctx, s.Lost)
	if err != nil {
		return err
	}
	for id, n := range nodes {
		if id == s.cfg.ID {
			continue
		}
		if n.lease != 0 && n.lease != lease {
			if err := s.revoke(ctx, n.lease); err != nil {
				return err
			}
		}
		if _, err := s.txn(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.LeaseValue(s.keys.node(id)), "=", n.lease)}, []clientv3.Op{clientv3.OpDelete(s.keys.node(id))}, nil); err != nil {
			return err
		}
	}
	return nil
}
