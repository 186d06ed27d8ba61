package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

var me = who{hostname: "echo-0", cluster: "east"}

// bothFamilies runs the test on the loopback address of each, as far as this host has it.
func bothFamilies(t *testing.T, test func(t *testing.T, host string)) {
	for _, host := range []string{"127.0.0.1", "::1"} {
		t.Run(host, func(t *testing.T) {
			probe, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
			if err != nil {
				t.Skipf("no address %s here: %v", host, err)
			}
			probe.Close()
			test(t, host)
		})
	}
}

func listenOn(t *testing.T, host string) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener
}

func dial(t *testing.T, network string, address net.Addr) net.Conn {
	t.Helper()
	connection, err := net.Dial(network, address.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	return connection
}

func TestEachTCPLineComesBackWithHostnameAndLocalAddress(t *testing.T) {
	bothFamilies(t, func(t *testing.T, host string) {
		listener := listenOn(t, host)
		go serveTCP(listener, me)
		connection := dial(t, "tcp", listener.Addr())
		answers := bufio.NewReader(connection)
		for _, line := range []string{"hi", "hi again", ""} {
			fmt.Fprintf(connection, "%s\n", line)
			got, err := answers.ReadString('\n')
			if want := fmt.Sprintf("echo-0 %s %s\n", host, line); got != want || err != nil {
				t.Errorf("got %q (%v), want %q", got, err, want)
			}
		}
	})
}

func TestALineBeyondTheLimitClosesTheConnection(t *testing.T) {
	listener := listenOn(t, "127.0.0.1")
	go serveTCP(listener, me)
	connection := dial(t, "tcp", listener.Addr())
	go connection.Write(bytes.Repeat([]byte("x"), lineLimit+1))
	// Closing with unread input resets the connection: an error is as good as an end.
	if got, _ := io.ReadAll(connection); len(got) > 0 {
		t.Errorf("got an answer of %d bytes", len(got))
	}
}

func TestEachUDPDatagramComesBackFromASocketBoundToAllAddresses(t *testing.T) {
	bothFamilies(t, func(t *testing.T, host string) {
		socket, err := net.ListenPacket("udp", ":0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { socket.Close() })
		go serveUDP(socket, me)
		port := socket.LocalAddr().(*net.UDPAddr).Port
		connection := dial(t, "udp", &net.UDPAddr{IP: net.ParseIP(host), Port: port})
		for _, text := range []string{"hi\n", "hi again"} {
			io.WriteString(connection, text)
			buffer := make([]byte, datagramLimit)
			n, err := connection.Read(buffer)
			want := fmt.Sprintf("echo-0 %s %s\n", host, strings.TrimSuffix(text, "\n"))
			if got := string(buffer[:n]); got != want || err != nil {
				t.Errorf("got %q (%v), want %q", got, err, want)
			}
		}
	})
}

func TestHTTPAnswersWhoIsAskedByWhomForWhat(t *testing.T) {
	bothFamilies(t, func(t *testing.T, host string) {
		listener := listenOn(t, host)
		go serveHTTP(listener, me)
		response, err := http.Post("http://"+listener.Addr().String()+"/a/path?q=1", "text/plain", strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		var got answer
		if err := json.NewDecoder(response.Body).Decode(&got); err != nil {
			t.Fatal(err)
		}
		want := answer{Hostname: "echo-0", Cluster: "east", Local: host, Remote: host, Method: "POST", Path: "/a/path"}
		if got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}

func TestTheClusterIsLeftOutWhenUnset(t *testing.T) {
	listener := listenOn(t, "127.0.0.1")
	go serveHTTP(listener, who{hostname: "echo-0"})
	response, err := http.Get("http://" + listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); err != nil || strings.Contains(string(body), "cluster") {
		t.Errorf("got %s (%v)", body, err)
	}
}
