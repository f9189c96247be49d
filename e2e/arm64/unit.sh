#!/usr/bin/env bash
# unit.sh TAGS: the unit tests of linux/arm64 under user-mode emulation.  The output is
# what `go test -json` prints.  unit.sh names: only checks that the tests that it leaves out exist.
set -euo pipefail
export GOOS=linux GOARCH=arm64 CGO_ENABLED=1 CC=aarch64-linux-gnu-gcc

# The packages that depend on the kernel, on the layout of bytes in memory, or on the rounding of numbers.
# Those of cmd and e2e start the programs, which e2e/arm64 does itself.
packages=(. ./format/... ./report ./slurm/... ./collect/... ./spool/... ./upload/s3
    ./internal/cgroupfs ./cmd/internal/logging ./internal/procfile ./e2e/iotest)

# These start their own binary, which the kernel cannot execute:
skip='^(TestKernelV1|TestKernelV2|TestKernelOOMV1|TestNoLibrary|TestLibrary|TestKilledWriterLosesNothingThatWasCommitted)$'
# These read the sources, which are the same for each architecture:
skip+='|^(TestEveryTestOfTheSpecificationIsThereOnce|TestMessagesUseTheWordsOfTheField)$'
# To the emulator each thread is a process with the start time of the thread:
skip+='|^(TestBreakerCountsHangs|TestPrologsAtOnce|TestLaterEpilogRemovesStaleState)$'
# The emulator does not pass the signal mask to another program, and has no PR_SET_THP_DISABLE:
skip+='|^(TestTrackerSignalMask|TestTrackerHasNoHugePages)$'
# The emulator has no perf_event_open(2) and no sock_diag(7), cannot start the test's own
# binary, and /proc shows its own memory as the memory of the program:
skip+='|^(TestTheKernelCountsConnections|TestSoftwareEventsAreTheTruth|TestNoHardware|TestWholeNode|TestPause|TestComesBack|TestComesBackAtOnce|TestReadAllocatesNothing|TestNodeCacheOfProcesses|TestEdgesOfProcesses|TestTreeWithoutDescriptors|TestWhoMayRead|TestWhoMayReadARunningJob|TestWhoMayReadALostRun|TestCopyIsOfOneMoment|TestOwnerLocksHisRun|TestOwnerReadsNoHalfOfAChange|TestForeignFilesAreRefused|TestNobodyReadsTheJournal|TestNobodyReadsTheLog|TestAnEmptyJournalIsRemoved|TestNoAccessControlLists|TestSmallDisk)$'
# These take the emulator minutes: every disk operation fails in turn, millions of random jobs, whole hours, many
# files, files until a quota is reached, and what SQLite alone does.
skip+='|^(TestAdviceKeepsItsPromise|TestEveryFaultOfTheDisk|TestPowerFailureOfATrackedRun|TestPowerFailureOfALedger|TestPowerFailureWhileThinning|TestRecordOfAnHour|TestRatesAreEnough|TestCollect|TestManyFilesAtOnce|TestThinAnEndedRun|TestCollectThinsToTheFloor|TestQuotaBoundsTheFile|TestQuotaKeepsTotals|TestRecordOfManyRows|TestCheckOfARecordThatInflates|TestEndOfALockedFileKeepsWhatWaits|TestFindJob|TestTableAboveTheLimit|TestThinningLeavesSealedBatchesAlone|TestThinningKeepsFirstReadings|TestVerifyFindsWhatBreaksAnInvariant|TestReserveOfADisk)$'

for name in $(tr -cs A-Za-z0-9_ ' ' <<<"$skip"); do # a test that was renamed is not left out
    grep -rqE "^func $name\(" --include='*_test.go' . || { echo "$0: no test is called $name" >&2; exit 1; }
done
[ "$1" != names ] || exec "${GO:-go}" list -e=false "${packages[@]}" >/dev/null
"${GO:-go}" test -short -vet=off -tags "$1" -timeout 20m -json -skip "$skip" -exec "$RT_QEMU" "${packages[@]}"
