package etcd

import (
	"context"
	"fmt"
	"strings"

	"github.com/gorun/gorun/rendezvous"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// first says what a first world is compared with, by what was seen: nothing is
// sealed, not even by this agent, which has the coordinator's key. If that is
// out of date the seal fails, and is tried again by what is read then.
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

// before judges the round that is sealed: done means by this very call.
func (s *seal) before(ctx context.Context, r entry[round]) (done bool, err error) {
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
		why, err := s.corpse(ctx, r)
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

// idle says of whom it is not certain yet that no worker of the sealed world
// lives there.
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

// claimable refuses to take the coordinator's key from one who is there and
// neither answers this agent nor has stopped.
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

// bury ends the memberships of those who are known to be dead.
func (s *seal) bury(ctx context.Context, own leaseID) error {
	if len(s.Dead) == 0 {
		return nil
	}
	marks, err := s.marks(ctx, s.Dead)
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
