// Request asks an HTTP server once a second, each time by a new connection, and logs each answer.
//
// It exits with status 1 if any request failed or none was made.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// The longest answer that is read.
const answerLimit = 64 << 10

// plan says when to request what.
type plan struct {
	url      string
	interval time.Duration
	duration time.Duration
	// Whether each request is made when it is due, though earlier ones wait for their answers.
	steady bool
}

func main() {
	address := flag.String("address", "", "host or host:port to request; the port is 80 unless given")
	interval := flag.Duration("interval", time.Second, "time from one request to the next")
	duration := flag.Duration("duration", 5*time.Second, "how long to go on")
	timeout := flag.Duration("timeout", 900*time.Millisecond, "how long one request may take, name lookup included")
	steady := flag.Bool("steady", false, "make each request when it is due, though earlier ones wait for their answers; say which one it was, and when it was due")
	portsOnce := flag.Bool("ports-once", false, "take each source port once, from 1024 up, so that no connection is taken for an earlier one")
	flag.Parse()

	target, err := target(*address)
	if err != nil {
		log.Fatalf("failed to read --address: %v", err)
	}
	if *interval <= 0 || *timeout <= 0 {
		log.Fatal("--interval and --timeout must be above zero")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	// Standard output, so that answers can be piped on; log's default is standard error.
	out := log.New(os.Stdout, "", log.LstdFlags)
	made, failed := run(ctx, newClient(*timeout, *portsOnce), plan{target, *interval, *duration, *steady}, out)
	if made == 0 || failed > 0 {
		os.Exit(1)
	}
}

// target is the URL for host, host:port, an IPv6 address, or [an IPv6 address]:port.
func target(address string) (string, error) {
	if address == "" {
		return "", errors.New("it is empty")
	}
	host := address
	if ip, err := netip.ParseAddr(strings.Trim(address, "[]")); err == nil {
		// Brackets keep the address's colons apart from the port's; a zone's % must be escaped.
		host = strings.ReplaceAll(ip.String(), "%", "%25")
		if ip.Is6() {
			host = "[" + host + "]"
		}
	}
	parsed, err := url.Parse("http://" + host)
	if err != nil {
		return "", err
	}
	if parsed.Hostname() == "" || parsed.Host != strings.ReplaceAll(host, "%25", "%") {
		return "", fmt.Errorf("%q is neither a host nor host:port", address)
	}
	return parsed.String(), nil
}

func newClient(timeout time.Duration, portsOnce bool) *http.Client {
	// Dialing gives up a little before all of it does, so that the error tells a lookup from a connection.
	dialer := net.Dialer{Timeout: timeout * 9 / 10}
	dial := dialer.DialContext
	if portsOnce {
		dial = eachPortOnce(dialer)
	}
	// Without kept connections each request is balanced anew; without a proxy it goes where it is told.
	return &http.Client{Timeout: timeout, Transport: &http.Transport{DisableKeepAlives: true, DialContext: dial}}
}

// eachPortOnce dials from source ports that it never takes twice. Linux sends a connection from a port that it knows to
// where it sent the one before, for two minutes after one that nobody answered, whatever the service's endpoints are by then.
func eachPortOnce(dialer net.Dialer) func(ctx context.Context, network, address string) (net.Conn, error) {
	var last atomic.Int32
	last.Store(1023)
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		for {
			port := int(last.Add(1))
			if port > 65535 {
				return nil, errors.New("each source port was taken once")
			}
			// The dialer itself is shared by requests at the same time.
			dialer := dialer
			dialer.LocalAddr = &net.TCPAddr{Port: port}
			conn, err := dialer.DialContext(ctx, network, address)
			if !errors.Is(err, syscall.EADDRINUSE) {
				return conn, err
			}
		}
	}
}

// run makes the requests that the plan has room for, the first at once.
func run(ctx context.Context, client *http.Client, plan plan, out *log.Logger) (made, failed int) {
	if plan.steady {
		return runSteadily(ctx, client, plan, out)
	}
	start := time.Now()
	for due := time.Duration(0); due < plan.duration; due += plan.interval {
		select {
		case <-ctx.Done():
			return made, failed
		case <-time.After(time.Until(start.Add(due))):
		}
		// Answers that take longer than the interval must not stretch the duration.
		if made > 0 && time.Since(start) >= plan.duration {
			break
		}
		made++
		answer, err := ask(ctx, client, plan.url)
		if err != nil {
			failed++
			out.Printf("failed: %v", err)
			continue
		}
		out.Print(answer)
	}
	return made, failed
}

// runSteadily makes each request when it is due, whatever became of those before: who waits for one answer before the next request
// asks least when there are the fewest answers. Times that passed while this program itself stood still are left out, and a request
// is called by its number, since answers come in any order.
func runSteadily(ctx context.Context, client *http.Client, plan plan, out *log.Logger) (made, failed int) {
	var asked sync.WaitGroup
	var lost atomic.Int32
	start := time.Now()
	for due := start; due.Before(start.Add(plan.duration)); due = due.Add(plan.interval) {
		select {
		case <-ctx.Done():
			asked.Wait()
			return made, int(lost.Load())
		case <-time.After(time.Until(due)):
		}
		if time.Since(due) > plan.interval {
			continue
		}
		name := fmt.Sprintf("%d %s", made, due.UTC().Format(time.RFC3339Nano))
		made++
		asked.Go(func() {
			answer, err := ask(ctx, client, plan.url)
			if err != nil {
				lost.Add(1)
				answer = fmt.Sprintf("failed: %v", err)
			}
			out.Printf("%s %s", name, answer)
		})
	}
	asked.Wait()
	return made, int(lost.Load())
}

func ask(ctx context.Context, client *http.Client, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, answerLimit))
	if err != nil {
		return "", err
	}
	answer := strings.TrimRight(string(body), "\n")
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s", response.Status, answer)
	}
	return answer, nil
}
