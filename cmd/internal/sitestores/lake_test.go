package sitestores

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/resource-tracker/rt/cmd/internal/config"
)

// The lake is not in a directory of the site, and the site not in the lake's directory. A symbolic
// link does not hide that.
func TestCheckLake(t *testing.T) {
	top := t.TempDir()
	for _, err := range []error{os.Mkdir(filepath.Join(top, "site"), 0o700), os.Symlink("site", filepath.Join(top, "link"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		lake, dir, objects string
		isRefused          bool
	}{
		{"/srv/lake", "/srv/site", "", false},
		{"/srv/site-lake", "/srv/site", "s3://b/site", false},
		{"/srv/site/lake", "/srv/site/", "", true},
		{"/srv/site", "/srv/site", "", true},
		{"/srv", "/srv/site", "", true},
		{"lake", "/srv/site", "", true},
		{"s3://b/lake", "/srv/site", "s3://b/site", false},
		{"s3://b/site-lake", "/srv/site", "s3://b/site", false},
		{"s3://b/site/lake", "/srv/site", "s3://b/site/", true},
		{"s3://b", "/srv/site", "s3://b/site", true},
		{top + "/link/a/lake", top + "/site", "", true},
		{top + "/link", top + "/site", "", true},
		{top + "/site/lake", top + "/link", "", true},
		{top + "/lake", top + "/link", "", false},
	} {
		err := CheckLake(config.Serve{Lake: tt.lake, Dir: tt.dir, Objects: tt.objects})
		if (err != nil) != tt.isRefused {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}
