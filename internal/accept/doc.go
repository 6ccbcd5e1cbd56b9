// Package accept takes connections without letting strangers use up the
// process's descriptors.
//
// A Pool counts the connections of all listeners of a process, each once. A connection is
// unproven until the code that serves it calls Prove: it has shown the job's
// secret, or whatever else makes it a client. Unproven connections are few, for
// each source address and in all, and have a deadline. Connections of either kind
// leave descriptors for what the process opens itself, such as the pipes of its
// workers.
//
// Where there is no room, an unproven connection is closed: of the address that
// has most of them the oldest, if it had the time to prove itself, else the
// newcomer. So a burst of honest clients is served in the order in which they
// came, idle connections make room, and one address never keeps another one out.
package accept
