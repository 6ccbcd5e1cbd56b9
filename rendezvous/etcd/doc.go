// Package etcd finds the agents of a run in etcd v3 and lets one world through
// at a time: it is a rendezvous.Fence.
//
// Below <prefix>/<run id>/ there are
//
//	job/coordinator  who may form the first world, later who sealed last; under that agent's lease
//	job/round        the world that was sealed last; under a lease of its own, which its sealer keeps
//	node/<id>        an agent, and the last round that left no worker there; under the agent's lease
//
// What always holds, as far as etcd itself keeps a lease for its whole time:
// a world is sealed only when each node of the one sealed before, whoever did
// it, is in it too, or has left, expired, vacated that one's round or is known
// to be dead, and nobody has sealed another meanwhile. An agent posts Lapsed
// before its node key can expire: it counts from the moment when the last
// request that etcd granted was sent, by a clock that goes on while its process
// is stopped or its machine sleeps, and it looks at that clock before every
// other event that it posts. The run id is nobody else's while job/round is
// there; who cannot keep it any longer is told so (Config.Lost) before it ends.
//
// All answers are those of the cluster that answered first: who is led to
// another one is in trouble, and believes nothing of what it says.
//
// Watches only make it fast: what they may have missed is read again.
package etcd
