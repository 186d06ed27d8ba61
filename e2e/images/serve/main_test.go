package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// As in the documents that use this image: the quotes are part of the message.
const documented = `'hello from cluster member1 (Node: {{env "NODE_NAME"}} Pod: {{env "POD_NAME"}} Address: {{addr}})'`

// start serves text on a free port of host. The function signal stands for SIGTERM, and the channel
// gets what serve returns.
func start(t *testing.T, host, text string, lameDuck time.Duration) (url string, signal func(), result chan error) {
	t.Helper()
	message, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Skipf("no address %s here: %v", host, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	result = make(chan error, 1)
	go func() { result <- serve(ctx, listener, message, lameDuck) }()
	return "http://" + listener.Addr().String(), cancel, result
}

func get(t *testing.T, client *http.Client, url string) (body string, response *http.Response) {
	t.Helper()
	response, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	bytes, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes), response
}

func TestEveryPathAnswersTheDocumentedMessage(t *testing.T) {
	t.Setenv("NODE_NAME", "member1-control-plane")
	t.Setenv("POD_NAME", "serve-9b5b94f65-cp87p")
	url, _, _ := start(t, "127.0.0.1", documented, 0)
	want := "'hello from cluster member1 (Node: member1-control-plane Pod: serve-9b5b94f65-cp87p Address: 127.0.0.1)'\n"
	for _, path := range []string{"", "/", "/healthz", "/any/path?of=all"} {
		if got, _ := get(t, http.DefaultClient, url+path); got != want {
			t.Errorf("%q answers %q, want %q", path, got, want)
		}
	}
}

func TestAddrIsTheIPv6AddressThatTheRequestCameInBy(t *testing.T) {
	url, _, _ := start(t, "::1", "{{addr}}", 0)
	if got, _ := get(t, http.DefaultClient, url); got != "::1\n" {
		t.Errorf("got %q", got)
	}
}

func TestAddrIsPlainIPv4OnASocketForBothFamilies(t *testing.T) {
	url, _, _ := start(t, "", "{{addr}}", 0)
	_, port, err := net.SplitHostPort(url[len("http://"):])
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := get(t, http.DefaultClient, "http://127.0.0.1:"+port); got != "127.0.0.1\n" {
		t.Errorf("got %q", got)
	}
}

func TestAMessageThatIsNoTemplateIsRefused(t *testing.T) {
	if _, err := parse("{{nonsense}}"); err == nil {
		t.Error("it was taken")
	}
}

func TestALameDuckGoesOnServingNewConnectionsAndAsksKeptOnesToClose(t *testing.T) {
	url, signal, result := start(t, "127.0.0.1", "still here", time.Hour)
	kept := &http.Client{Transport: &http.Transport{}}
	if _, response := get(t, kept, url); response.Close {
		t.Fatal("the connection closed before the signal")
	}
	signal()
	// The signal is noticed in another goroutine: ask until an answer shows it.
	for {
		body, response := get(t, kept, url)
		if body != "still here\n" {
			t.Fatalf("got %q", body)
		}
		if response.Close {
			break
		}
	}
	if body, _ := get(t, &http.Client{Transport: &http.Transport{}}, url); body != "still here\n" {
		t.Fatalf("a new connection got %q", body)
	}
	select {
	case err := <-result:
		t.Fatalf("ended within the lame duck period: %v", err)
	default:
	}
}

func TestAfterTheLameDuckItEndsWithoutAnError(t *testing.T) {
	url, signal, result := start(t, "127.0.0.1", "bye", time.Millisecond)
	get(t, http.DefaultClient, url)
	signal()
	if err := <-result; err != nil {
		t.Error(err)
	}
	if _, err := http.Get(url); err == nil {
		t.Error("the port is still open")
	}
}
