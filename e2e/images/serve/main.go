// Serve answers every HTTP request with one message, so that whoever asks learns which pod answered.
//
// The message is a text/template with two functions: env "NAME", and addr, the address that the
// request came in by.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
	"text/template"
	"time"
)

// How long requests in flight may take once the port is closed.
const shutdownTimeout = 5 * time.Second

func main() {
	port := flag.Int("port", 8080, "TCP port to listen on")
	text := flag.String("message", "hello from {{addr}}", `answer to every request, a Go template with the functions env "NAME" and addr`)
	lameDuck := flag.Duration("lame-duck", 5*time.Second, "how long to go on serving after SIGTERM, while others learn that this pod goes away")
	flag.Parse()

	message, err := parse(*text)
	if err != nil {
		log.Fatalf("failed to parse --message: %v", err)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(*port)))
	if err != nil {
		log.Fatalf("failed to listen: %v", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	if err := serve(ctx, listener, message, *lameDuck); err != nil {
		log.Fatalf("failed to serve: %v", err)
	}
}

// serve answers requests until lameDuck after ctx is done, then finishes those in flight.
func serve(ctx context.Context, listener net.Listener, message *template.Template, lameDuck time.Duration) error {
	var leaving atomic.Bool
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answer, err := render(message, r)
			if err != nil {
				http.Error(w, fmt.Sprintf("failed to render --message: %v", err), http.StatusInternalServerError)
				return
			}
			if leaving.Load() {
				// Clients that keep connections open move away while this pod still serves.
				w.Header().Set("Connection", "close")
			}
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.Write(append(answer, '\n'))
		}),
		ReadTimeout:    30 * time.Second,
		WriteTimeout:   30 * time.Second,
		IdleTimeout:    5 * time.Minute,
		MaxHeaderBytes: 64 << 10,
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()

	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	leaving.Store(true)
	select {
	case err := <-ended:
		return err
	case <-time.After(lameDuck):
	}
	deadline, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(deadline); err != nil {
		return err
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func parse(text string) (*template.Template, error) {
	return template.New("message").Funcs(functions("")).Parse(text)
}

func functions(addr string) template.FuncMap {
	return template.FuncMap{
		"env":  os.Getenv,
		"addr": func() string { return addr },
	}
}

func render(message *template.Template, r *http.Request) ([]byte, error) {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return nil, errors.New("the connection has no local address")
	}
	host, _, err := net.SplitHostPort(local.String())
	if err != nil {
		return nil, err
	}
	// A clone, because addr differs from request to request and they run at the same time.
	mine, err := message.Clone()
	if err != nil {
		return nil, err
	}
	var answer bytes.Buffer
	if err := mine.Funcs(functions(host)).Execute(&answer, nil); err != nil {
		return nil, err
	}
	return answer.Bytes(), nil
}
