// Echo answers over TCP, UDP and HTTP with who it is and what it got, to show where traffic ends up.
//
// TCP lines and UDP datagrams come back as "<hostname> <local address> <what was sent>", HTTP
// requests as JSON.
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// who is this server, as far as its answers say.
type who struct {
	hostname string
	cluster  string
}

func main() {
	tcp := flag.String("tcp", ":7000", "address for TCP; empty for none")
	udp := flag.String("udp", ":7000", "address for UDP; empty for none")
	http := flag.String("http", ":8080", "address for HTTP; empty for none")
	lameDuck := flag.Duration("lame-duck", 5*time.Second, "how long to go on serving after SIGTERM, while others learn that this pod goes away")
	flag.Parse()

	hostname, err := os.Hostname()
	if err != nil {
		log.Fatalf("failed to read the host's name: %v", err)
	}
	me := who{hostname: hostname, cluster: os.Getenv("CLUSTER")}
	ended := make(chan error, 3)
	if *tcp != "" {
		listener := listen(*tcp)
		go func() { ended <- serveTCP(listener, me) }()
	}
	if *udp != "" {
		socket, err := net.ListenPacket("udp", *udp)
		if err != nil {
			log.Fatalf("failed to listen: %v", err)
		}
		go func() { ended <- serveUDP(socket, me) }()
	}
	if *http != "" {
		listener := listen(*http)
		go func() { ended <- serveHTTP(listener, me) }()
	}

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	select {
	case err := <-ended:
		log.Fatalf("failed to serve: %v", err)
	case <-ctx.Done():
		time.Sleep(*lameDuck)
	}
}

func listen(address string) net.Listener {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		log.Fatalf("failed to listen: %v", err)
	}
	return listener
}

// ip is the address without its port.
func ip(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}
