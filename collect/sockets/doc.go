// Package sockets reads the TCP connections of this node, and what each has carried,
// as the kernel's inet_diag tells them (sock_diag(7)). Unix sockets count no bytes.
//
// It sees the network namespace of the caller, and needs no rights.
package sockets
