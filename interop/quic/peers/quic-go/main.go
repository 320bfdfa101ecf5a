// quic-go as the other end: "peer client" or "peer server" runs one connection and prints one line of JSON.
package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	_ "unsafe" // for go:linkname

	"github.com/quic-go/quic-go"
)

const alpn = "wireseal-interop"

// quic-go starts its first key update after this many packets in either direction, and has no call to start one.
//
//go:linkname firstKeyUpdateInterval github.com/quic-go/quic-go/internal/handshake.FirstKeyUpdateInterval
var firstKeyUpdateInterval uint64

type task struct {
	role         string
	address      string
	certificates string
	payload      string
	retry        bool
	updateKeys   bool
}

type report struct {
	Version       string `json:"version"`
	Suite         string `json:"suite"`
	Received      int    `json:"received"`
	Sha256        string `json:"sha256"`
	UpdatesLocal  int    `json:"updates_local"`
	UpdatesRemote int    `json:"updates_remote"`
	Retry         bool   `json:"retry"`
}

func main() {
	var t task
	if len(os.Args) < 2 {
		fail(errors.New("the first argument is client or server"))
	}
	t.role = os.Args[1]
	flags := flag.NewFlagSet("peer", flag.ExitOnError)
	flags.StringVar(&t.address, "address", "", "the address a client connects to or a server listens on")
	flags.StringVar(&t.certificates, "certificates", "", "folder with ca.pem, server.pem and server.key")
	flags.StringVar(&t.payload, "payload", "", "file with the octets that a client sends")
	flags.BoolVar(&t.retry, "retry", false, "validate the client's address first")
	flags.BoolVar(&t.updateKeys, "update-keys", false, "start a key update")
	flags.Parse(os.Args[2:])
	firstKeyUpdateInterval = math.MaxUint64
	if t.updateKeys {
		// Sooner than quinn, which starts its own after 10 to 1000 packets.
		firstKeyUpdateInterval = 5
	}

	seen := &recorder{}
	run := client
	if t.role == "server" {
		run = server
	}
	connection, received, err := run(t, seen)
	if err != nil {
		fail(err)
	}
	sum := sha256.Sum256(received)
	local, remote, retry := seen.result()
	json.NewEncoder(os.Stdout).Encode(report{
		Version:       version(),
		Suite:         tls.CipherSuiteName(connection.ConnectionState().TLS.CipherSuite),
		Received:      len(received),
		Sha256:        hex.EncodeToString(sum[:]),
		UpdatesLocal:  local,
		UpdatesRemote: remote,
		Retry:         retry,
	})
}

func client(t task, seen *recorder) (*quic.Conn, []byte, error) {
	ca, err := os.ReadFile(filepath.Join(t.certificates, "ca.pem"))
	if err != nil {
		return nil, nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	payload, err := os.ReadFile(t.payload)
	if err != nil {
		return nil, nil, err
	}
	ctx := context.Background()
	configuration := &tls.Config{RootCAs: roots, ServerName: "localhost", NextProtos: []string{alpn}}
	connection, err := quic.DialAddr(ctx, t.address, configuration, &quic.Config{Tracer: seen.trace})
	if err != nil {
		return nil, nil, err
	}
	stream, err := connection.OpenStreamSync(ctx)
	if err != nil {
		return nil, nil, err
	}
	sent := make(chan error, 1)
	go func() {
		_, err := stream.Write(payload)
		sent <- errors.Join(err, stream.Close())
	}()
	received, err := io.ReadAll(stream)
	err = errors.Join(err, <-sent, connection.CloseWithError(0, ""))
	return connection, received, err
}

func server(t task, seen *recorder) (*quic.Conn, []byte, error) {
	certificate, err := tls.LoadX509KeyPair(
		filepath.Join(t.certificates, "server.pem"), filepath.Join(t.certificates, "server.key"))
	if err != nil {
		return nil, nil, err
	}
	address, err := net.ResolveUDPAddr("udp", t.address)
	if err != nil {
		return nil, nil, err
	}
	socket, err := net.ListenUDP("udp", address)
	if err != nil {
		return nil, nil, err
	}
	transport := &quic.Transport{
		Conn:                socket,
		VerifySourceAddress: func(net.Addr) bool { return t.retry },
		Tracer:              seen,
	}
	configuration := &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{alpn}}
	listener, err := transport.Listen(configuration, &quic.Config{Tracer: seen.trace})
	if err != nil {
		return nil, nil, err
	}
	fmt.Println("listening", socket.LocalAddr().(*net.UDPAddr).Port)
	ctx := context.Background()
	connection, err := listener.Accept(ctx)
	if err != nil {
		return nil, nil, err
	}
	stream, err := connection.AcceptStream(ctx)
	if err != nil {
		return nil, nil, err
	}
	received, err := echo(stream)
	if err != nil {
		return nil, nil, err
	}
	<-connection.Context().Done()
	return connection, received, nil
}

// Echoes the stream.
func echo(stream *quic.Stream) ([]byte, error) {
	var received []byte
	piece := make([]byte, 16384)
	for {
		length, err := stream.Read(piece)
		received = append(received, piece[:length]...)
		if _, err := stream.Write(piece[:length]); err != nil {
			return nil, err
		}
		if err == io.EOF {
			return received, stream.Close()
		}
		if err != nil {
			return nil, err
		}
	}
}

func version() string {
	build, _ := debug.ReadBuildInfo()
	for _, module := range build.Deps {
		if module.Path == "github.com/quic-go/quic-go" {
			return module.Version
		}
	}
	return "unknown"
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
