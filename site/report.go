package site

// Report is a request for the report of a job.
type Report struct {
	Name    string // of the job, as the reader wrote it
	Runs    []Run  // with their records
	Earlier []Run  // of the same user and the same name, for the advice
	Links   []Link // for the top of the page
}

// Link is a link of a page. An empty URL begins a new line with a text.
type Link struct{ Text, URL string }
