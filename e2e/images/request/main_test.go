package main

import (
	"bytes"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Set for the copies of this test binary that shall be the program itself.
const asProgram = "TOMBOLO_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func program(t *testing.T, args ...string) (output string, status int) {
	t.Helper()
	command := exec.Command(os.Args[0], args...)
	command.Env = append(os.Environ(), asProgram+"=1")
	out, err := command.Output()
	if _, failed := err.(*exec.ExitError); err != nil && !failed {
		t.Fatal(err)
	}
	return string(out), command.ProcessState.ExitCode()
}

func TestTheProgramPrintsEachAnswerWithTheTimeInFront(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "'hello from cluster member1 (Address: 10.10.0.5)'\n")
	}))
	defer server.Close()
	output, status := program(t, "--address", server.Listener.Addr().String(), "--duration=30ms", "--interval=10ms")
	line := `\d{4}/\d\d/\d\d \d\d:\d\d:\d\d 'hello from cluster member1 \(Address: 10\.10\.0\.5\)'\n`
	if !regexp.MustCompile(`^(` + line + `){1,3}$`).MatchString(output) {
		t.Errorf("printed %q", output)
	}
	if status != 0 {
		t.Errorf("exited with %d", status)
	}
}

func TestTheProgramExitsWithOneWhenARequestFailed(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	output, status := program(t, "--address", address, "--duration=1ms")
	if !strings.Contains(output, "connection refused") || status != 1 {
		t.Errorf("printed %q and exited with %d", output, status)
	}
}

func TestTheProgramExitsWithOneWhenThereWasNoTimeForARequest(t *testing.T) {
	if output, status := program(t, "--address=127.0.0.1:1", "--duration=0s"); output != "" || status != 1 {
		t.Errorf("printed %q and exited with %d", output, status)
	}
}

// untilTwo goes on until two requests at least were made: a busy machine may have time for one only.
func untilTwo(t *testing.T, client *http.Client, url string, steady bool) (made, failed int) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); made < 2 && time.Now().Before(end); {
		more, lost := run(t.Context(), client, plan{url, time.Millisecond, 50 * time.Millisecond, steady}, log.New(io.Discard, "", 0))
		made, failed = made+more, failed+lost
	}
	if made < 2 {
		t.Fatalf("there was no time for two requests, but for %d", made)
	}
	return made, failed
}

func TestEachRequestIsAConnectionOfItsOwn(t *testing.T) {
	var connections atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	made, failed := untilTwo(t, newClient(10*time.Second, false), server.URL, false)
	if failed != 0 || int(connections.Load()) != made {
		t.Errorf("%d requests, %d failed, %d connections", made, failed, connections.Load())
	}
}

func TestNoSourcePortIsTakenTwiceNorOneInUse(t *testing.T) {
	// If it is somebody else's already, it is passed over all the same.
	if taken, err := net.Listen("tcp", "127.0.0.1:1024"); err == nil {
		defer taken.Close()
	}
	ports, lock := map[string]int{}, sync.Mutex{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, port, _ := net.SplitHostPort(r.RemoteAddr)
		lock.Lock()
		defer lock.Unlock()
		ports[port]++
	}))
	defer server.Close()
	for _, steady := range []bool{false, true} {
		clear(ports)
		made, failed := untilTwo(t, newClient(10*time.Second, true), server.URL, steady)
		if failed != 0 || len(ports) != made || ports["1024"] != 0 {
			t.Errorf("%d requests, %d failed, from the ports %v", made, failed, ports)
		}
	}
}

// inTime stands for the network where the time is synctest's.
type inTime func(*http.Request) (*http.Response, error)

func (answer inTime) RoundTrip(r *http.Request) (*http.Response, error) { return answer(r) }

func TestThreeSecondsHaveRoomForThreeRequestsASecondApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var at []time.Duration
		client := &http.Client{Transport: inTime(func(*http.Request) (*http.Response, error) {
			at = append(at, time.Since(start))
			time.Sleep(300 * time.Millisecond)
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
		})}
		run(t.Context(), client, plan{"http://serve", time.Second, 3 * time.Second, false}, log.New(io.Discard, "", 0))
		if want := []time.Duration{0, time.Second, 2 * time.Second}; !slices.Equal(at, want) {
			t.Errorf("requests at %v, want %v", at, want)
		}
	})
}

func TestABlackHoleIsALineForEachRequestInItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		client := newClient(900*time.Millisecond, false)
		client.Transport = inTime(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		var out bytes.Buffer
		made, failed := run(t.Context(), client, plan{"http://serve", time.Second, 3 * time.Second, false}, log.New(&out, "", 0))
		if made != 3 || failed != 3 || strings.Count(out.String(), "failed: ") != 3 {
			t.Errorf("%d made, %d failed: %q", made, failed, out.String())
		}
		if took := time.Since(start); took != 2900*time.Millisecond {
			t.Errorf("took %v", took)
		}
	})
}

func TestASteadyLoadGoesOnWhileRequestsHangAndTellsWhichWasDueWhen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var asked atomic.Int32
		client := newClient(3*time.Second, false)
		client.Transport = inTime(func(r *http.Request) (*http.Response, error) {
			if asked.Add(1) == 1 {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("well"))}, nil
		})
		var out bytes.Buffer
		made, failed := run(t.Context(), client, plan{"http://serve", time.Second, 3 * time.Second, true}, log.New(&out, "", 0))
		if made != 3 || failed != 1 {
			t.Errorf("%d made, %d failed", made, failed)
		}
		due := func(second time.Duration) string {
			return start.Add(second * time.Second).UTC().Format(time.RFC3339Nano)
		}
		want := "1 " + due(1) + " well\n2 " + due(2) + " well\n0 " + due(0) + " failed: "
		if !strings.HasPrefix(out.String(), want) {
			t.Errorf("printed %q, want %q first", out.String(), want)
		}
	})
}

func TestAnAnswerThatIsNotOKIsAFailure(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no backend", http.StatusServiceUnavailable)
	}))
	defer server.Close()
	var out bytes.Buffer
	_, failed := run(t.Context(), newClient(time.Second, false), plan{server.URL, time.Second, time.Millisecond, false}, log.New(&out, "", 0))
	if failed != 1 || out.String() != "failed: 503 Service Unavailable: no backend\n" {
		t.Errorf("%d failed: %q", failed, out.String())
	}
}

func TestAddressesAreHostsWithOrWithoutPort(t *testing.T) {
	for address, want := range map[string]string{
		"10.13.205.2":                  "http://10.13.205.2",
		"10.13.205.2:8080":             "http://10.13.205.2:8080",
		"serve.demo.svc.cluster.local": "http://serve.demo.svc.cluster.local",
		"serve:8080":                   "http://serve:8080",
		"fd00::5":                      "http://[fd00::5]",
		"[fd00::5]":                    "http://[fd00::5]",
		"[fd00::5]:8080":               "http://[fd00::5]:8080",
		"fe80::5%eth0":                 "http://[fe80::5%25eth0]",
	} {
		if got, err := target(address); got != want || err != nil {
			t.Errorf("%q is %q (%v), want %q", address, got, err, want)
		}
	}
	for _, address := range []string{"", ":80", "a b", "host/path", "user@host", "fd00::5:x"} {
		if got, err := target(address); err == nil {
			t.Errorf("%q was taken for %q", address, got)
		}
	}
}
