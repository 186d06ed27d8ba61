// Pause is the first process of every pod: it holds the pod's namespaces and reaps what its
// containers leave behind when they share a process namespace.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGCHLD, syscall.SIGINT, syscall.SIGTERM)
	pause(signals)
}

// pause returns at the first signal that is not about a child.
func pause(signals <-chan os.Signal) {
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		reap()
	}
}

// reap collects every child that has ended: the signals of many may arrive as one.
func reap() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if err != syscall.EINTR && (err != nil || pid <= 0) {
			return
		}
	}
}
