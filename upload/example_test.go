package upload_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/upload"
)

// A drain delivers all runs of a directory. The spool, the API and the object store are in
// memory here; in a program they are a drain.Directory, a sentinel.Client and an
// s3.Uploader.
func ExampleDrain() {
	spool := dirOf(newRun(1, 5), newRun(2, 3))
	receiver := &fakeClient{}
	sum, err := upload.Drain(context.Background(), spool, receiver, receiver, upload.DrainOptions{Concurrency: 2})
	fmt.Println(sum.Delivered, "runs,", sum.Rows, "rows,", err)

	again, err := upload.Drain(context.Background(), spool, receiver, receiver, upload.DrainOptions{})
	fmt.Println(again.Delivered, "runs,", err)
	// Output:
	// 2 runs, 6 rows, <nil>
	// 0 runs, <nil>
}

// A refused token ends the drain. The kind of the error decides the exit status of a
// program; the runs are kept.
func ExampleDrain_refused() {
	spool := dirOf(newRun(1, 5))
	receiver := &fakeClient{fault: func(string, int) error { return fault(upload.Unauthorised, 401, 0) }}
	sum, err := upload.Drain(context.Background(), spool, receiver, receiver, upload.DrainOptions{})
	fmt.Println(sum.Waiting, "waiting,", errors.Is(err, upload.ErrConfig))
	// Output: 1 waiting, true
}

// A Stream delivers a run while it is recorded. Each Sync uploads the snapshots that are new,
// Finish the rest.
func ExampleStream() {
	ctx, receiver, run := context.Background(), &fakeClient{}, newRun(1, 3)
	stream := upload.NewStream(receiver, receiver, upload.DrainOptions{})
	fmt.Println(stream.Start(ctx, run), stream.Sync(ctx, run), len(receiver.objects))

	run.snaps = append(run.snaps, snapshot(4), snapshot(5))
	fmt.Println(stream.Finish(ctx, run), len(receiver.objects), run.delivered)
	// Output:
	// <nil> <nil> 1
	// <nil> 2 true
}

// The status of a run at the receiver has two values.
func ExampleStatus() {
	for _, end := range []rt.Ending{
		{Outcome: rt.OutcomeFinished, ExitCode: rt.Some[int64](0)},
		{Outcome: rt.OutcomeFailed, ExitCode: rt.Some[int64](7)},
		{Outcome: rt.OutcomeOOM},
		{ExitSignal: rt.Some[int64](15)},
	} {
		fmt.Println(upload.Status(&rt.Run{Ending: end}))
	}
	// Output:
	// finished
	// failed
	// failed
	// finished
}

// An excerpt of an answer is one line without the secrets of its request.
func ExampleExcerpt() {
	fmt.Println(upload.Excerpt([]byte("token abc123\n\tis unknown"), "abc123"))
	// Output: token [redacted] is unknown
}
