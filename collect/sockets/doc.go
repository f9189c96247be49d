// Package sockets reads the TCP connections of this node and their bytes and packets from
// the kernel's inet_diag (sock_diag(7)). Unix sockets count no bytes.
//
// It reads the network namespace of the caller, and needs no privileges.
package sockets
