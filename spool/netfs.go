package spool

import (
	"fmt"
	"syscall"
)

// networkFS lists the file systems, by f_type of statfs(2), on which SQLite's WAL and flock
// do not work between machines. FUSE is not in the list: it can be local.
var networkFS = map[uint32]string{
	0x6969:     "NFS",
	0x517b:     "SMB",
	0xff534d42: "CIFS",
	0xfe534d42: "SMB2",
	0x0bd00bd0: "Lustre",
	0x47504653: "GPFS",
	0x19830326: "BeeGFS",
	0x5346414f: "AFS",
	0x73757245: "Coda",
	0x00c36400: "Ceph",
	0x01021997: "9P",
	0x20030528: "OrangeFS",
	0xaad7aaea: "PanFS",
	0x013111a8: "IBRIX",
}

// CheckDir returns ErrNetworkFS if runs cannot be stored in dir.
func CheckDir(dir string) error {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return fmt.Errorf("spool directory %s: statfs: %w", dir, err)
	}
	return refuseNetworkFS(dir, uint32(st.Type))
}

func refuseNetworkFS(dir string, magic uint32) error {
	if name, network := networkFS[magic]; network {
		return fmt.Errorf("spool directory %s: %w: it is on %s, where SQLite's log is not safe; set [spool] dir to a directory on the node's own disk",
			dir, ErrNetworkFS, name)
	}
	return nil
}
