// Package probe finds out by TCP whether nodes reach each other at the
// addresses that their workers would use.
//
// Every agent listens on the addresses that it published as facts (Listen,
// Server.Serve), before the rules are applied to the compared facts. The
// coordinator computes from all facts which nodes each node connects to
// (Plans). Each node runs its own plan (Run), and package reach
// checks the results. A probe connects from one chosen address to one chosen
// address. It proves that it belongs to the job, learns which node answered and
// which source address that node saw, and sends 64 KiB each way where the plan
// says so, since a path with too small an MTU passes small packets only. Each
// address listens on several ports, spread over the range that programs get
// ports from, since a firewall may let through a part of it.
//
// A probe without an answer is repeated a few times while the first try still
// waits, because one lost packet does not mean a closed port. The kernel's
// counters of the connections (TCP_INFO) show whether packets get lost, the
// path is slow, or large packets do not pass.
//
// One exchange, integers in big endian:
//
//	hello    magic[8] nonce[16] length(2) id size(4) mac[32]
//	reply    magic[8] length(2) id length(1) seen clock(8) mac[32]
//	payload  size bytes from the client, 1 byte back, size bytes back
//
// Each mac is an HMAC-SHA256 under the job's key over the bytes before it and,
// in the reply, over the hello's nonce. A program that does not know the key
// gets no answer and cannot pose as a node.
//
// Invariants:
//
//   - nothing is allocated for what a peer announces; every length has a bound,
//     every connection a deadline and the number of connections a limit;
//   - bad input ends the connection that sent it and changes nothing else;
//   - Listen and Plans start nothing; Serve and Run return when all that they
//     started has ended;
//   - a plan names at most MaxPeers nodes and MaxTargets addresses and is
//     validated before a node runs it, so that no plan can make a node scan a
//     network.
package probe
