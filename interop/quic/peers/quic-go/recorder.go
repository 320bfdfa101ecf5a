package main

import (
	"context"
	"sync"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/qlog"
	"github.com/quic-go/quic-go/qlogwriter"
)

// recorder counts the events for the report, which quic-go passes to its qlog.
type recorder struct {
	mutex         sync.Mutex
	localUpdates  int
	remoteUpdates int
	retry         bool
}

func (r *recorder) trace(context.Context, bool, quic.ConnectionID) qlogwriter.Trace { return r }

func (r *recorder) AddProducer() qlogwriter.Recorder { return r }

func (r *recorder) SupportsSchemas(string) bool { return false }

func (r *recorder) Close() error { return nil }

func (r *recorder) RecordEvent(event qlogwriter.Event) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	switch event := event.(type) {
	case qlog.KeyUpdated:
		// There is one event for each direction.
		if event.KeyType != qlog.KeyTypeServer1RTT {
			return
		}
		switch event.Trigger {
		case qlog.KeyUpdateLocal:
			r.localUpdates++
		case qlog.KeyUpdateRemote:
			r.remoteUpdates++
		}
	case qlog.PacketSent:
		r.retry = r.retry || event.Header.PacketType == qlog.PacketTypeRetry
	case qlog.PacketReceived:
		r.retry = r.retry || event.Header.PacketType == qlog.PacketTypeRetry
	}
}

func (r *recorder) result() (local, remote int, retry bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.localUpdates, r.remoteUpdates, r.retry
}
