package main

import (
	"fmt"
	"net"
	"strings"
)

// The largest datagram there is.
const datagramLimit = 64 << 10

func serveUDP(socket net.PacketConn, me who) error {
	buffer := make([]byte, datagramLimit)
	for {
		n, peer, err := socket.ReadFrom(buffer)
		if err != nil {
			return err
		}
		text := strings.TrimSuffix(string(buffer[:n]), "\n")
		answer := fmt.Sprintf("%s %s %s\n", me.hostname, localFor(peer), text)
		// Lost answers are part of UDP: only a closed socket ends the loop, and reading shows that.
		socket.WriteTo([]byte(answer), peer)
	}
}

// localFor is the address that peer reaches this host by. The socket is bound to all of them, so the
// kernel's routes are asked; connecting a UDP socket sends nothing.
func localFor(peer net.Addr) string {
	route, err := net.Dial("udp", peer.String())
	if err != nil {
		return "unknown"
	}
	defer route.Close()
	return ip(route.LocalAddr().String())
}
