package host

import (
	"bytes"
	"math/bits"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// IP returns host_ip, the node's IPv4 address. It is the address of the default route's
// interface, else the first one that is no loopback address. It is read from the kernel's
// routing tables in /proc, because the tracker links no network code.
func (r Roots) IP() string {
	trie, err := os.ReadFile(filepath.Join(r.Proc, "net/fib_trie"))
	if err != nil {
		return ""
	}
	addrs := parseLocalAddrs(trie)
	table, _ := os.ReadFile(filepath.Join(r.Proc, "net/route")) // without it any address counts
	for _, subnet := range defaultSubnets(parseRoutes(table)) {
		if i := slices.IndexFunc(addrs, subnet.Contains); i >= 0 {
			return addrs[i].String()
		}
	}
	if len(addrs) > 0 {
		return addrs[0].String()
	}
	return ""
}

// parseLocalAddrs parses /proc/net/fib_trie: the node's own addresses are the leaves (a
// line "|-- 192.0.2.2") before a line "/32 host LOCAL". Loopback addresses are left out.
func parseLocalAddrs(b []byte) []netip.Addr {
	var out []netip.Addr
	var leaf netip.Addr
	for l := range bytes.Lines(b) {
		words := strings.Fields(string(l))
		switch {
		case len(words) == 2 && words[0] == "|--":
			leaf, _ = netip.ParseAddr(words[1]) // the zero Addr for another text
		case len(words) == 3 && words[0] == "/32" && words[1] == "host" && words[2] == "LOCAL":
			if leaf.Is4() && !leaf.IsLoopback() && !slices.Contains(out, leaf) {
				out = append(out, leaf)
			}
		}
	}
	return out
}

// route is a line of /proc/net/route.
type route struct {
	iface   string
	to      netip.Prefix
	gateway bool
	metric  uint64
}

// parseRoutes parses /proc/net/route: Iface, Destination, Gateway, Flags, RefCnt, Use,
// Metric, Mask, ... with addresses as hexadecimal numbers in the byte order of the host,
// which is little-endian on all architectures of rt.
func parseRoutes(b []byte) []route {
	var out []route
	for l := range bytes.Lines(b) {
		words := strings.Fields(string(l))
		if len(words) < 8 {
			continue
		}
		to, err1 := hexAddr(words[1])
		gateway, err2 := hexAddr(words[2])
		metric, err3 := strconv.ParseUint(words[6], 10, 64)
		mask, err4 := hexAddr(words[7])
		if err1 != nil || err2 != nil || err3 != nil || err4 != nil {
			continue // the header line
		}
		ones := 0
		for _, c := range mask.As4() {
			ones += bits.OnesCount8(c)
		}
		out = append(out, route{words[0], netip.PrefixFrom(to, ones), !gateway.IsUnspecified(), metric})
	}
	return out
}

func hexAddr(s string) (netip.Addr, error) {
	v, err := strconv.ParseUint(s, 16, 32)
	return netip.AddrFrom4([4]byte{byte(v), byte(v >> 8), byte(v >> 16), byte(v >> 24)}), err
}

// defaultSubnets are the subnets on the interface of the best default route.
func defaultSubnets(routes []route) []netip.Prefix {
	best := -1
	for i, r := range routes {
		isBetter := best < 0 || r.metric < routes[best].metric
		if r.to.Bits() == 0 && isBetter {
			best = i
		}
	}
	var out []netip.Prefix
	for _, r := range routes {
		if best >= 0 && r.iface == routes[best].iface && r.to.Bits() > 0 && !r.gateway {
			out = append(out, r.to)
		}
	}
	return out
}
