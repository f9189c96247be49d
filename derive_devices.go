package rt

func deriveNetwork(prev, cur *Snapshot, secs float64, out []NetMetrics) []NetMetrics {
	out = reuse(out, len(cur.Nets))
	for i := range cur.Nets {
		c := &cur.Nets[i]
		p := c
		if prev != nil {
			p = find(prev.Nets, i, func(n *NetReading) bool { return n.Name == c.Name })
		}
		out[i] = NetMetrics{
			Interface: c.Name, MACAddress: text(c.MAC), Driver: text(c.Driver), OperState: text(c.OperState),
			SpeedMbps: c.SpeedMbps, MTU: c.MTU, RxBytesTotal: c.RxBytes, TxBytesTotal: c.TxBytes,
		}
		if p != nil {
			out[i].RxBytesPerSec = rate(p.RxBytes, c.RxBytes, secs)
			out[i].TxBytesPerSec = rate(p.TxBytes, c.TxBytes, secs)
		}
	}
	return out
}

func deriveDisk(prev, cur *Snapshot, secs float64, out []DiskMetrics) []DiskMetrics {
	out = reuse(out, len(cur.Disks))
	for i := range cur.Disks {
		c := &cur.Disks[i]
		p := c
		if prev != nil {
			p = find(prev.Disks, i, func(d *DiskReading) bool { return d.Name == c.Name })
		}
		out[i] = DiskMetrics{
			Device: c.Name, Model: text(c.Model), Vendor: text(c.Vendor), Serial: text(c.Serial),
			DeviceType: text(c.Type), CapacityBytes: c.Capacity, Mounts: mountsOf(cur, c.Name, out[i].Mounts),
			ReadBytesTotal: c.ReadBytes, WriteBytesTotal: c.WriteBytes,
		}
		if p != nil {
			out[i].ReadBytesPerSec = rate(p.ReadBytes, c.ReadBytes, secs)
			out[i].WriteBytesPerSec = rate(p.WriteBytes, c.WriteBytes, secs)
		}
	}
	return out
}

func mountsOf(cur *Snapshot, disk string, out []MountMetrics) []MountMetrics {
	out = reuse(out, 0)
	for i := range cur.Mounts {
		m := &cur.Mounts[i]
		if m.Disk != disk {
			continue
		}
		mm := MountMetrics{
			MountPoint: m.MountPoint, Filesystem: m.FSType,
			TotalBytes: m.Total, AvailableBytes: m.Available, UsedBytes: m.Used,
		}
		if m.Total > 0 {
			mm.UsedPct = float64(m.Used) / float64(m.Total) * 100
		}
		out = append(out, mm)
	}
	return out
}

func deriveGPU(cur *Snapshot, out []GPUMetrics) []GPUMetrics {
	out = reuse(out, len(cur.GPUs))
	for i := range cur.GPUs {
		g := &cur.GPUs[i]
		out[i] = GPUMetrics{
			UUID: g.UUID, Name: g.Name, DeviceType: g.Type, HostID: g.Host, Detail: g.Detail,
			UtilizationPct: g.Utilization, VRAMTotalBytes: g.VRAMTotal, VRAMUsedBytes: g.VRAMUsed,
			VRAMUsedPct: percent(g.VRAMUsed, g.VRAMTotal), Temperature: g.Temperature,
			PowerWatts: g.Power, FrequencyMHz: g.Frequency, CoreCount: g.Cores,
		}
	}
	return out
}

// find returns the same device in the other snapshot, nil if there is none. It looks at
// index hint first.
func find[T any](s []T, hint int, same func(*T) bool) *T {
	if hint < len(s) && same(&s[hint]) {
		return &s[hint]
	}
	for i := range s {
		if same(&s[i]) {
			return &s[i]
		}
	}
	return nil
}
