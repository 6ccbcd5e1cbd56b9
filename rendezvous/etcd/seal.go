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
	s.free = map[rendezvous.NodeID]bool{e.cfg.ID: true}
	for _, m := range w.Members {
		s.record.Members = append(s.record.Members, member{m.ID, m.Control})
		s.free[m.ID] = true
	}
	for _, id := range slices.Concat(c.Here, c.Lost) {
		s.free[id] = true
	}
	return s.run(ctx)
}

// seal is one call of Seal on its way.
type seal struct {
	*Etcd
	rendezvous.Seal
	record round
	free   map[rendezvous.NodeID]bool // nodes where no worker of an earlier world lives
	began  time.Time
	said   string
	base   int64 // the round key's revision when this began, -1: not read yet
	tries  int
}

// errBusy says that the seal must wait for something. Its text says for what.
type errBusy struct{ text string }

func (b errBusy) Error() string { return b.text }

// errRefused says that another agent has sealed a world.
type errRefused struct {
	text  string
	ended bool // as the job is over
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
		out.Text = "an earlier seal is on its way"
		return out
	case <-s.gates.sealing:
	}
	defer func() { s.gates.sealing <- struct{}{} }()
	if t := s.fits(); t != nil {
		s.doom(t)
		out.Text = t.text
		return out
	}
	for wait := 10 * time.Millisecond; ; wait = min(wait*3/2, 250*time.Millisecond) {
		err := s.try(ctx)
		if errors.Is(rpctypes.Error(err), rpctypes.ErrRequestTooLarge) {
			s.doom(s.explain(err))
		}
		if refused, ok := errors.AsType[errRefused](err); ok {
			out.Refused, out.Ended, out.Text = true, refused.ended, refused.text
			return out
		}
		if err == nil {
			out.OK = true
			return out
		}
		s.tell(err)
		if !pause(ctx, wait) {
			out.Text = s.words(err)
			return out
		}
	}
}

// fits says why no agent could read the record. A forged round of this job may be so
// late that none can follow it.
func (s *seal) fits() *trouble {
	text := s.record.encode()
	_, unread := decodeRound([]byte(text))
	switch {
	case len(text) > maxRound:
		return final("the record of %d nodes has %d bytes, etcd takes %d: use fewer nodes, or --rdzv-backend gossip", len(s.record.Members), len(text), maxRound)
	case s.record.Term > maxCount || s.record.Round > maxCount:
		return final("the key %s in etcd at %s led to term %d and round %d, which no job reaches: delete it, or give another --rdzv-id", s.keys.round, s.at(), s.record.Term, s.record.Round)
	case unread != nil:
		return final("the record of this world could not be read again: %v", unread)
	}
	return nil
}

// doom ends Run because waiting does not help.
func (e *Etcd) doom(t *trouble) {
	select {
	case e.gates.doomed <- t:
	default:
	}
}

func (s *seal) words(err error) string {
	if busy, ok := errors.AsType[errBusy](err); ok {
		return busy.text
	}
	return s.explain(err).text
}

// tell posts what this seal waits for, once it has waited for a second.
func (s *seal) tell(err error) {
	if text := s.words(err); text != s.said && time.Since(s.began) > time.Second {
		s.said = text
		s.emit(rendezvous.Waiting{Serial: s.Serial, Text: text})
	}
}

// try does all steps of a seal once. It must come to the same end if an earlier try's
// write was done without an answer.
func (s *seal) try(ctx context.Context) error {
	own := s.certain()
	if own == 0 {
		return errBusy{"etcd at " + s.at() + " does not confirm this node's membership"}
	}
	if err := s.removeDead(ctx, own); err != nil {
		return err
	}
	r, holder, first := s.first()
	if !first {
		var err error
		if r, holder, err = s.read(ctx); err != nil {
			return err
		}
		done, err := s.check(ctx, r)
		if done || err != nil {
			return err
		}
		if err := s.claimable(ctx, r, holder); err != nil {
			return err
		}
	}
	job, err := s.jobFor(ctx, s.record.Job)
	if err != nil {
		return err
	}
	got, err := s.txn(ctx, []clientv3.Cmp{
		clientv3.Compare(clientv3.ModRevision(s.keys.round), "=", r.rev),
		clientv3.Compare(clientv3.ModRevision(s.keys.coordinator), "=", holder.rev),
		clientv3.Compare(clientv3.LeaseValue(s.keys.self), "=", own),
	}, []clientv3.Op{
		clientv3.OpPut(s.keys.round, s.record.encode(), clientv3.WithLease(job)),
		clientv3.OpPut(s.keys.coordinator, encode(s.self(-1)), clientv3.WithLease(own)),
	}, nil)
	switch {
	case gone(err):
		s.forgetJob(job) // or this node's lease, which is found out elsewhere
		return errBusy{"etcd at " + s.at() + " has ended a lease"}
	case err != nil:
		return err
	case !got.Succeeded:
		return errBusy{"somebody writes to etcd at the same time"}
	}
	return s.settled(job, got.Header.Revision, r)
}

// settled notes that the record is in etcd.
func (s *seal) settled(job leaseID, rev int64, before entry[round]) error {
	s.mu.Lock()
	if j := s.job; j != nil && j.id == job {
		j.rev = max(j.rev, rev)
	}
	if rev > s.sealed.rev {
		s.sealed = sealed{rev, s.record.ids()}
	}
	s.mu.Unlock()
	s.wakes.hold.wake()
	s.wakes.changed.wake()
	if before.lease != 0 && before.lease != job { // nothing is under it any more
		ctx, cancel := context.WithTimeout(s.session.running, callLimit)
		defer cancel()
		_ = s.revoke(ctx, before.lease)
	}
	if s.certain() == 0 { // it was written, but perhaps long ago
		return errBusy{"etcd at " + s.at() + " does not confirm this node's membership"}
	}
	return nil
}

// first returns what a first world is compared with, by what was seen: nothing is
// sealed, not even by this agent, which has the coordinator's key. If that is out of
// date the seal fails, and is tried again by what is read then.
func (s *seal) first() (r entry[round], holder entry[agent], ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	holder = s.seen.coordinator
	ok = s.tries == 0 && !s.Later && (s.job == nil || s.job.rev == 0) && s.seen.jobs && s.seen.round.rev == 0 &&
		holder.value != nil && holder.value.ID == s.cfg.ID
	s.tries++
	if ok {
		s.base = 0
	}
	return r, holder, ok
}

// read reads what the seal is compared with.
func (s *seal) read(ctx context.Context) (r entry[round], holder entry[agent], err error) {
	got, err := s.txn(ctx, nil, []clientv3.Op{clientv3.OpGet(s.keys.round), clientv3.OpGet(s.keys.coordinator)}, nil)
	if err != nil {
		return r, holder, err
	}
	for _, kv := range got.Responses[0].GetResponseRange().Kvs {
		r = entryOf(kv, decodeRound)
	}
	for _, kv := range got.Responses[1].GetResponseRange().Kvs {
		holder = entryOf(kv, decodeAgent)
	}
	return r, holder, nil
}

// check compares the seal with the round that is sealed. done means that this very
// call has sealed it.
func (s *seal) check(ctx context.Context, r entry[round]) (done bool, err error) {
	if v := r.value; v != nil && v.Sealer == s.cfg.ID && v.Job == s.record.Job && v.Digest == s.record.Digest {
		s.mu.Lock()
		j := s.job
		kept := j != nil && j.id == r.lease && !j.ended
		s.mu.Unlock()
		if kept {
			return true, s.settled(r.lease, r.rev, entry[round]{})
		}
	}
	mine := r.value != nil && r.value.Sealer == s.cfg.ID
	if s.base < 0 {
		s.base = r.rev
	}
	switch v := r.value; {
	case s.Later && (r.rev == 0 || v != nil && v.Job != s.record.Job):
		return false, errRefused{text: "etcd at " + s.at() + " has no world of this job any more", ended: true}
	case r.rev == 0:
		return false, nil
	case v == nil || v.Job != s.record.Job && !mine:
		if s.base != r.rev {
			return false, errRefused{text: "a world of another job was sealed under this run id"}
		}
		why, err := s.mayLive(ctx, r)
		if err != nil {
			return false, err
		}
		if why != "" {
			return false, errBusy{why}
		}
		return false, nil
	case !mine && (r.rev != s.base || v.Term > s.record.Term || v.Round >= s.record.Round):
		return false, errRefused{text: fmt.Sprintf("%s has sealed a world (round %d)", v.Control, v.Round)}
	}
	return false, s.idle(ctx, r.value)
}

// idle returns errBusy with the nodes on which a worker of the sealed world may live.
func (s *seal) idle(ctx context.Context, v *round) error {
	var ask []rendezvous.NodeID
	for _, m := range v.Members {
		if !s.free[m.ID] {
			ask = append(ask, m.ID)
		}
	}
	marks, err := s.marks(ctx, ask)
	if err != nil {
		return err
	}
	var busy []string
	for _, id := range ask {
		if m, there := marks[id]; there && m.vacated < v.Round {
			busy = append(busy, m.name)
		}
	}
	if n := len(busy); n > 0 {
		more := ""
		if n > 3 {
			busy, more = busy[:3], fmt.Sprintf(" and %d more", n-3)
		}
		return errBusy{fmt.Sprintf("%s%s must stop the workers of round %d, or be gone from etcd (at most %v after the last sign of life)", strings.Join(busy, ", "), more, v.Round, s.cfg.TTL)}
	}
	return nil
}

// claimable refuses to take the coordinator's key from an agent that is a member,
// does not answer this one and has not stopped its workers.
func (s *seal) claimable(ctx context.Context, r entry[round], holder entry[agent]) error {
	if holder.rev == 0 || holder.value != nil && s.free[holder.value.ID] {
		return nil
	}
	if holder.value == nil {
		return errBusy{s.foreign(s.keys.coordinator)}
	}
	marks, err := s.marks(ctx, []rendezvous.NodeID{holder.value.ID})
	if err != nil {
		return err
	}
	m, there := marks[holder.value.ID]
	if there && (r.value == nil || m.vacated < r.value.Round) {
		return errRefused{text: fmt.Sprintf("%s coordinates this run", holder.value.Control)}
	}
	return nil
}

// removeDead ends the memberships of the nodes that are known to be lost.
func (s *seal) removeDead(ctx context.Context, own leaseID) error {
	if len(s.Lost) == 0 {
		return nil
	}
	marks, err := s.marks(ctx, s.Lost)
	if err != nil {
		return err
	}
	for id, m := range marks {
		if id == s.cfg.ID {
			continue
		}
		if m.lease != 0 && m.lease != own {
			if err := s.revoke(ctx, m.lease); err != nil {
				return err
			}
		}
		if _, err := s.txn(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.LeaseValue(s.keys.node(id)), "=", m.lease)}, []clientv3.Op{clientv3.OpDelete(s.keys.node(id))}, nil); err != nil {
			return err
		}
	}
	return nil
}
