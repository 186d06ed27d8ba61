package main

import (
	"encoding/json"
	"net"
	"net/http"
	"time"
)

// answer is what an HTTP client gets. Addresses are without ports, as pods' addresses are elsewhere.
type answer struct {
	Hostname string `json:"hostname"`
	Cluster  string `json:"cluster,omitempty"`
	Local    string `json:"local"`
	Remote   string `json:"remote"`
	Method   string `json:"method"`
	Path     string `json:"path"`
}

func serveHTTP(listener net.Listener, me who) error {
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
			w.Header().Set("Content-Type", "application/json")
			json.NewEncoder(w).Encode(answer{
				Hostname: me.hostname,
				Cluster:  me.cluster,
				Local:    ip(local.String()),
				Remote:   ip(r.RemoteAddr),
				Method:   r.Method,
				Path:     r.URL.Path,
			})
		}),
		ReadTimeout:    30 * time.Second,
		WriteTimeout:   30 * time.Second,
		IdleTimeout:    idleTimeout,
		MaxHeaderBytes: 64 << 10,
	}
	return server.Serve(listener)
}
