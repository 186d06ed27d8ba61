package main

import (
	"bufio"
	"fmt"
	"net"
	"time"
)

const (
	// The longest line that is answered; a longer one closes the connection.
	lineLimit = 64 << 10
	// Long enough for a test that keeps a connection open across a change of endpoints.
	idleTimeout = 5 * time.Minute
	// More connections wait in the kernel's queue.
	connectionLimit = 1024
)

func serveTCP(listener net.Listener, me who) error {
	slots := make(chan struct{}, connectionLimit)
	for {
		slots <- struct{}{}
		connection, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer func() { <-slots }()
			defer connection.Close()
			answerLines(connection, me)
		}()
	}
}

// answerLines goes on until the peer closes, is silent for too long, or sends too long a line.
func answerLines(connection net.Conn, me who) {
	lines := bufio.NewScanner(connection)
	lines.Buffer(nil, lineLimit)
	for {
		connection.SetDeadline(time.Now().Add(idleTimeout))
		if !lines.Scan() {
			return
		}
		if _, err := fmt.Fprintf(connection, "%s %s %s\n", me.hostname, ip(connection.LocalAddr().String()), lines.Text()); err != nil {
			return
		}
	}
}
