package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// naive is sections 6 and 7 of the specification, worked out a second time. It uses none of the
// program's sources, parsers and derivation, but the texts, in floating point.
type naive struct {
	m             *machine
	before, after map[string]string
	secs          float64

	cpu, memory       map[string]any
	network, disk     []any
	cores             float64
	utime, stime      float64
	processes         int
	mib               map[string]float64 // of memory
	received, sent    float64
	diskRead, written float64
}

func (m *machine) naive(t *testing.T) *naive {
	t.Helper()
	n := &naive{m: m, before: m.before, after: m.after, secs: m.apart.Seconds()}
	n.ofCPU()
	n.ofMemory()
	n.ofNetwork()
	n.ofDisks()
	return n
}

func num(s string) float64 {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		panic(err)
	}
	return v
}

// attribute is a file of /sys, nil where there is none.
func (n *naive) attribute(paths ...string) any {
	for _, p := range paths {
		if text, ok := n.after["sys/"+p]; ok && strings.TrimSpace(text) != "" {
			return strings.TrimSpace(text)
		}
	}
	return nil
}

func numeric(v any) any {
	if s, ok := v.(string); ok {
		return num(s)
	}
	return v
}

// lines are the lines of a file by their first word.
func lines(text string) map[string][]float64 {
	out := map[string][]float64{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		for _, w := range words[1:] {
			v, _ := strconv.ParseFloat(w, 64)
			out[words[0]] = append(out[words[0]], v)
		}
	}
	return out
}

func (n *naive) ofCPU() {
	before, after := lines(n.before["proc/stat"]), lines(n.after["proc/stat"])
	busy := func(name string) float64 { // the busy share of all ticks
		var total, idle float64
		for i := range 8 {
			d := after[name][i] - before[name][i]
			total += d
			if i == 3 || i == 4 {
				idle += d
			}
		}
		return (total - idle) / total
	}
	perCore := []any{}
	for i := range 1000 {
		if name := fmt.Sprint("cpu", i); after[name] != nil {
			perCore = append(perCore, 100*busy(name))
		}
	}
	a, b := after["cpu"], before["cpu"]
	n.cores = busy("cpu") * float64(len(perCore))
	n.utime = (a[0] + a[1] - b[0] - b[1]) / 100
	n.stime = (a[2] - b[2]) / 100
	pids := map[string]bool{}
	for p := range n.after {
		if parts := strings.Split(p, "/"); parts[0] == "proc" && strings.Trim(parts[1], "0123456789") == "" {
			pids[parts[1]] = true
		}
	}
	n.processes = len(pids)
	n.cpu = map[string]any{
		"utilization_pct": n.cores, "per_core_pct": perCore, "utime_secs": n.utime, "stime_secs": n.stime,
		"process_count": float64(n.processes), "process_cores_used": nil, "process_child_count": nil,
	}
	if n.m.pid != 0 {
		usedBefore, _ := tree(n.before, n.m.pid)
		usedAfter, children := tree(n.after, n.m.pid)
		n.cpu["process_cores_used"] = (usedAfter - usedBefore) / 100 / n.secs
		n.cpu["process_child_count"] = children
	}
}

// tree is the time in ticks of a process and its descendants, with the use of the descendants that
// were waited for. children is the number of descendants.
func tree(state map[string]string, root int) (ticks, children float64) {
	stat := state[fmt.Sprintf("proc/%d/stat", root)]
	f := strings.Fields(stat[strings.LastIndex(stat, ")")+1:]) // from field 3 on
	for _, i := range []int{14, 15, 16, 17} {
		ticks += num(f[i-3])
	}
	for _, child := range strings.Fields(state[fmt.Sprintf("proc/%d/task/%d/children", root, root)]) {
		t, c := tree(state, int(num(child)))
		ticks += t
		children += 1 + c
	}
	return ticks, children
}

func (n *naive) ofMemory() {
	kb := map[string]float64{}
	for name, v := range lines(n.after["proc/meminfo"]) {
		kb[strings.TrimSuffix(name, ":")] = v[0]
	}
	cached := kb["Cached"] + kb["SReclaimable"]
	n.mib = map[string]float64{}
	for name, v := range map[string]float64{
		"total": kb["MemTotal"], "free": kb["MemFree"], "available": kb["MemAvailable"], "buffers": kb["Buffers"], "cached": cached,
		"used": kb["MemTotal"] - kb["MemFree"] - kb["Buffers"] - cached, "swap_total": kb["SwapTotal"],
		"swap_used": kb["SwapTotal"] - kb["SwapFree"], "active": kb["Active"], "inactive": kb["Inactive"],
	} {
		n.mib[name] = math.Floor(v / 1024)
	}
	n.memory = map[string]any{"used_pct": n.mib["used"] / n.mib["total"] * 100, "swap_used_pct": 0.0}
	if n.mib["swap_total"] > 0 {
		n.memory["swap_used_pct"] = n.mib["swap_used"] / n.mib["swap_total"] * 100
	}
	for name, v := range n.mib {
		n.memory[name+"_mib"] = v
	}
}

func (n *naive) ofNetwork() {
	n.network = []any{}
	before, after := lines(n.before["proc/net/dev"]), n.after["proc/net/dev"]
	for line := range strings.Lines(after) {
		words := strings.Fields(line)
		name, isInterface := strings.CutSuffix(words[0], ":")
		if !isInterface || name == "lo" {
			continue
		}
		rx, tx := num(words[1]), num(words[9])
		moreRx, moreTx := rx-before[words[0]][0], tx-before[words[0]][8]
		n.received += moreRx
		n.sent += moreTx
		var driver, speed any = nil, -1.0
		if target, ok := n.m.links["sys/class/net/"+name+"/device/driver"]; ok {
			driver = path.Base(target)
		}
		if v := n.attribute("class/net/" + name + "/speed"); v != nil {
			speed = numeric(v)
		}
		n.network = append(n.network, map[string]any{
			"interface": name, "mac_address": n.attribute("class/net/" + name + "/address"), "driver": driver,
			"operstate": n.attribute("class/net/" + name + "/operstate"), "speed_mbps": speed,
			"mtu":              numeric(n.attribute("class/net/" + name + "/mtu")),
			"rx_bytes_per_sec": moreRx / n.secs, "tx_bytes_per_sec": moreTx / n.secs, "rx_bytes_total": rx, "tx_bytes_total": tx,
		})
	}
}

func (n *naive) ofDisks() {
	n.disk = []any{}
	before := map[string][]string{}
	for line := range strings.Lines(n.before["proc/diskstats"]) {
		words := strings.Fields(line)
		before[words[2]] = words
	}
	for line := range strings.Lines(n.after["proc/diskstats"]) {
		words := strings.Fields(line)
		name := words[2]
		dir := "block/" + name
		if n.attribute(dir+"/dev") == nil || n.attribute(dir+"/hidden") == "1" || strings.HasPrefix(name, "loop") {
			continue
		}
		read, wrote := 512*num(words[5]), 512*num(words[9])
		moreRead, moreWrote := read-512*num(before[name][5]), wrote-512*num(before[name][9])
		if !n.stacked(name) {
			n.diskRead += moreRead
			n.written += moreWrote
		}
		var kind any
		switch {
		case strings.HasPrefix(name, "nvme"):
			kind = "nvme"
		case n.attribute(dir+"/queue/rotational") == "1":
			kind = "hdd"
		case n.attribute(dir+"/queue/rotational") == "0":
			kind = "ssd"
		}
		n.disk = append(n.disk, map[string]any{
			"device": name, "model": n.attribute(dir + "/device/model"), "vendor": n.attribute(dir + "/device/vendor"),
			"serial":      n.attribute(dir+"/device/wwid", dir+"/wwid", dir+"/device/serial", dir+"/serial"),
			"device_type": kind, "capacity_bytes": 512 * num(n.attribute(dir+"/size").(string)), "mounts": n.mountsOf(name),
			"read_bytes_per_sec": moreRead / n.secs, "write_bytes_per_sec": moreWrote / n.secs,
			"read_bytes_total": read, "write_bytes_total": wrote,
		})
	}
}

// stacked says whether a device is made of others, as /sys has it.
func (n *naive) stacked(name string) bool {
	for link := range n.m.links {
		if strings.HasPrefix(link, "sys/block/"+name+"/slaves/") {
			return true
		}
	}
	return false
}

func (n *naive) mountsOf(disk string) []any {
	out := []any{}
	for _, m := range n.m.given.mounts {
		if m.Disk == disk {
			out = append(out, map[string]any{
				"mount_point": m.MountPoint, "filesystem": m.FSType, "total_bytes": float64(m.Total),
				"available_bytes": float64(m.Available), "used_bytes": float64(m.Used), "used_pct": 100 * float64(m.Used) / float64(m.Total),
			})
		}
	}
	return out
}

func (n *naive) json() map[string]any {
	gpu := []any{}
	for _, g := range n.m.given.gpus {
		doc := map[string]any{
			"uuid": g.UUID, "name": g.Name, "device_type": g.Type, "host_id": g.Host, "detail": map[string]any{},
			"utilization_pct": nil, "vram_total_bytes": nil, "vram_used_bytes": nil, "vram_used_pct": nil,
			"temperature_celsius": nil, "power_watts": nil, "frequency_mhz": nil, "core_count": nil,
		}
		for k, v := range g.Detail {
			doc["detail"].(map[string]any)[k] = v
		}
		for key, v := range map[string]float64{"utilization_pct": g.Utilization.Or(-1), "power_watts": g.Power.Or(-1)} {
			if v >= 0 {
				doc[key] = v
			}
		}
		for key, v := range map[string]uint64{
			"vram_total_bytes": g.VRAMTotal.Or(1), "vram_used_bytes": g.VRAMUsed.Or(1), "temperature_celsius": g.Temperature.Or(1),
			"frequency_mhz": g.Frequency.Or(1), "core_count": g.Cores.Or(1),
		} {
			if v != 1 {
				doc[key] = float64(v)
			}
		}
		if total, ok := g.VRAMTotal.Get(); ok {
			doc["vram_used_pct"] = 100 * float64(g.VRAMUsed.Or(0)) / float64(total)
		}
		gpu = append(gpu, doc)
	}
	return map[string]any{
		"timestamp_secs": math.Floor(1_743_300_000.9 + n.secs), "job_name": "golden", "cpu": n.cpu, "memory": n.memory,
		"network": n.network, "disk": n.disk, "gpu": gpu, "resource-tracker-version": "0.1.0",
	}
}

func (n *naive) csv() string {
	space := ",,"
	if mounts := n.m.given.mounts; len(mounts) > 0 {
		var total, free float64
		for _, m := range mounts {
			total += float64(m.Total)
			free += float64(m.Available)
		}
		total, free = math.Round(total/1000)/1e6, math.Round(free/1000)/1e6
		space = fmt.Sprintf("%.6f,%.6f,%.6f", total, total-free, free)
	}
	var usage, vram float64
	busy := 0
	for _, g := range n.m.given.gpus {
		usage += g.Utilization.Or(0) / 100
		vram += float64(g.VRAMUsed.Or(0)) / 1048576
		if g.Utilization.Or(0) > 0 {
			busy++
		}
	}
	return fmt.Sprintf("%.0f,%d,%.3f,%.3f,%.4f,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%s,%.0f,%.0f,%.4f,%.4f,%d",
		math.Floor(1_743_300_000.9+n.secs), n.processes, n.utime, n.stime, n.cores,
		n.mib["free"], n.mib["used"], n.mib["buffers"], n.mib["cached"], n.mib["active"], n.mib["inactive"],
		n.diskRead, n.written, space, n.received, n.sent, usage, vram, busy)
}

// sameJSON compares a line with what was expected of it, numbers to 12 digits.
func sameJSON(t *testing.T, want map[string]any, line string) {
	t.Helper()
	var got map[string]any
	if err := json.Unmarshal([]byte(line), &got); err != nil {
		t.Fatal(err)
	}
	sameValue(t, "", want, got)
}

func sameValue(t *testing.T, at string, want, got any) {
	t.Helper()
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok || !slices.Equal(slices.Sorted(maps.Keys(w)), slices.Sorted(maps.Keys(g))) {
			t.Errorf("%s is %v, a naive reading has the fields of %v", at, got, w)
			return
		}
		for key := range w {
			sameValue(t, at+"."+key, w[key], g[key])
		}
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			t.Errorf("%s is %v, a naive reading has %d entries", at, got, len(w))
			return
		}
		for i := range w {
			sameValue(t, fmt.Sprintf("%s[%d]", at, i), w[i], g[i])
		}
	case float64:
		if g, ok := got.(float64); !ok || math.Abs(g-w) > 1e-12*math.Abs(w) {
			t.Errorf("%s is %v, a naive reading gives %v", at, got, w)
		}
	default:
		if got != want {
			t.Errorf("%s is %v, a naive reading gives %v", at, got, want)
		}
	}
}
