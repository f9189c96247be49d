module github.com/resource-tracker/rt/tools/sonar

go 1.26.0

require (
	github.com/NordicHPC/sonar/util/formats v0.18.4
	github.com/resource-tracker/rt v0.0.0
)

replace github.com/resource-tracker/rt => ../..
