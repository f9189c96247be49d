module github.com/resource-tracker/rt/tools/sonar

go 1.26.0

require (
	github.com/NordicHPC/sonar/util/formats v0.18.4
	github.com/resource-tracker/rt v0.0.0
)

require (
	github.com/NVIDIA/go-nvml v0.13.0-1 // indirect
	github.com/gofrs/flock v0.13.1 // indirect
	github.com/mattn/go-sqlite3 v1.14.52 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace github.com/resource-tracker/rt => ../..
