package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

func TestOneSignalReapsAllChildrenThatHaveEnded(t *testing.T) {
	for range 3 {
		pid, err := syscall.ForkExec("/bin/true", []string{"true"}, &syscall.ProcAttr{})
		if err != nil {
			t.Fatal(err)
		}
		for !zombie(t, pid) {
			runtime.Gosched()
		}
	}
	signals := make(chan os.Signal, 2)
	signals <- syscall.SIGCHLD
	signals <- syscall.SIGTERM
	pause(signals)
	if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != syscall.ECHILD {
		t.Errorf("a child is left: %d, %v", pid, err)
	}
}

func TestSIGTERMAndSIGINTEndThePause(t *testing.T) {
	for _, signal := range []os.Signal{syscall.SIGTERM, syscall.SIGINT} {
		signals := make(chan os.Signal, 1)
		signals <- signal
		pause(signals)
	}
}

func zombie(t *testing.T, pid int) bool {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(stat), ") Z ")
}
