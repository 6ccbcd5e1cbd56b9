// Package loader predicts, from files alone, which shared libraries glibc's
// ld.so would map into a process.
//
// Resolver finds one library in the loader's order of search; Process follows
// what a program and its libraries need, as the loader does, so that a library
// that is already mapped is not searched again. Read tells what an ELF file
// says to the loader, ParseCache reads /etc/ld.so.cache.
//
// The order (dl-load.c of glibc): LD_PRELOAD and /etc/ld.so.preload, a library
// with the same name or SONAME in the process, DT_RPATH of the requester and of
// those that loaded it (when the requester has no DT_RUNPATH), LD_LIBRARY_PATH,
// DT_RUNPATH of the requester, ld.so.cache, default folders. A file of another
// class or machine is passed over; one that is no ELF file ends the search.
//
// Invariants: nothing is executed or mapped; a hostile file costs bounded memory
// and time and is an error, never a panic; paths are of the tree that the
// Resolver reads. Left out: copies for newer processors in glibc-hwcaps folders
// (their plain twin is found), LD_AUDIT, musl.
package loader
