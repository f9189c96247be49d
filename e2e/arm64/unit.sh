#!/usr/bin/env bash
# unit.sh TAGS: the unit tests of linux/arm64, under an emulator of one process.
set -euo pipefail
export GOOS=linux GOARCH=arm64 CGO_ENABLED=1 CC=aarch64-linux-gnu-gcc

packages=(. ./format/... ./report ./slurm ./collect/... ./spool ./upload/...
    ./internal/config ./internal/hostfacts ./internal/logging)
# Left out: the other packages of cmd and e2e, which start the programs.
# e2e/arm64 itself starts them where that makes a difference.

# Left out because they start their own binary again, which the kernel cannot execute:
skip='^(TestKernelV1|TestKernelV2|TestKernelOOMV1|TestNoLibrary|TestLibrary|TestKilledWriterLosesNothingThatWasCommitted)$'
# ... and because it reads the sources, which are the same everywhere:
skip+='|^TestEveryTestOfTheSpecificationIsThereOnce$'
# ... and because to the emulator each thread is a process that started when the thread did:
skip+='|^(TestBreakerCountsHangs|TestPrologsAtOnce|TestALaterEpilogSweeps)$'
# The emulator has no perf_event_open(2) and no sock_diag(7), starts no program that a test starts as itself, and
# its own memory is what /proc says of the program's.
skip+='|^(TestTheKernelCountsConnections|TestSoftwareEventsAreTheTruth|TestNoHardware|TestWholeNode|TestStandsDown|TestComesBack|TestComesBackAtOnce|TestReadAllocatesNothing|TestLeaseOfProcesses|TestStatsOfThisProcess|TestWhoMayRead|TestWhoMayReadALostRun|TestOwnerLocksHisRun|TestOwnerReadsNoHalfOfAChange|TestForeignFilesAreRefused|TestNobodyReadsTheJournal|TestNobodyReadsTheLog|TestAnEmptyJournalIsRemoved|TestNoAccessControlLists|TestSmallDisk)$'
# Every operation of a disk fails in turn, which takes the emulator a quarter of an hour.
skip+='|^(TestEveryFaultOfTheDisk|TestPowerFailureOfATrackedRun|TestPowerFailureOfALedger|TestPowerFailureWhileThinning)$'

"${GO:-go}" test -tags "$1" -timeout 20m -json -skip "$skip" -exec "$RT_QEMU" "${packages[@]}"
