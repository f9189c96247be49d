package sitestores

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/resource-tracker/rt/cmd/internal/config"
)

// CheckLake checks that the files of the lake are apart from the site's files. rt-site verify
// reports unknown files in the object store, and the directory of the site is for its user only.
func CheckLake(s config.Serve) error {
	isS3 := strings.HasPrefix(s.Lake, "s3://")
	if !isS3 && !filepath.IsAbs(s.Lake) {
		return fmt.Errorf("serve.lake is %q: it must be an absolute path, or s3://bucket/prefix", s.Lake)
	}
	clean := unlinked
	if isS3 {
		clean = func(location string) string { return strings.TrimRight(location, "/") }
	}
	for name, other := range map[string]string{"serve.dir": s.Dir, "serve.objects": s.Objects} {
		lake, other := clean(s.Lake)+"/", clean(other)+"/"
		isApart := !strings.HasPrefix(lake, other) && !strings.HasPrefix(other, lake)
		isOfKind := strings.HasPrefix(other, "s3:/") == isS3
		if isOfKind && !isApart {
			return fmt.Errorf("serve.lake, %s, and %s, %s, are one in the other: give the lake a place of its own", s.Lake, name, strings.TrimSuffix(other, "/"))
		}
	}
	return nil
}

// IsCopy reports whether dir, the option --dir or empty, is a directory other than the site's, such as a backup.
// serve.lake does not belong to such a directory.
func IsCopy(s config.Serve, dir string) bool {
	return dir != "" && filepath.Clean(dir) != filepath.Clean(s.Dir)
}

// unlinked returns a path without symbolic links, as far as its directories exist.
func unlinked(path string) string {
	path = filepath.Clean(path)
	real, err := filepath.EvalSymlinks(path)
	parent := filepath.Dir(path)
	switch {
	case err == nil:
		return real
	case parent == path:
		return path
	}
	return filepath.Join(unlinked(parent), filepath.Base(path))
}
