//go:build linux && cgo && !nonvml

package device

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

const (
	maxFailures = 5          // waits that may fail in a row before writeEvents ends
	noInstance  = 0xFFFFFFFF // in an event of the whole GPU
)

// writeEvents writes the events of this node's GPUs until a write or the library
// fails.
func writeEvents(w io.Writer) error {
	return reader{nvml.New(), os.DirFS("/")}.writeEvents(w, time.Second)
}

// writeEvents writes each event of the GPUs to w. It waits at most heartbeat for an
// event, and pause after a failure.
func (r reader) writeEvents(w io.Writer, pause time.Duration) error {
	done, err := r.open()
	if err != nil {
		return writeUnavailable(w, err)
	}
	defer done()
	set, ret := r.lib.EventSetCreate()
	if ret != nvml.SUCCESS {
		return writeUnavailable(w, fmt.Errorf("cannot make an event set: %w", ret))
	}
	defer set.Free()
	events := eventWriter{reader: r, out: json.NewEncoder(w), lost: map[string]bool{}}
	if err := events.register(set); err != nil {
		return writeUnavailable(w, err)
	}
	if err := events.write(Event{Kind: Watching}); err != nil {
		return err
	}
	for failures := 0; ; {
		data, ret := set.Wait(uint32(heartbeat.Milliseconds()))
		switch ret {
		case nvml.SUCCESS:
			failures = 0
			err = events.writeEvent(data)
		case nvml.ERROR_TIMEOUT:
			failures = 0
			err = events.write(Event{Kind: Heartbeat})
		default:
			if failures++; failures > maxFailures {
				return fmt.Errorf("cannot wait for events: %w", ret)
			}
			err = events.writeLost()
			time.Sleep(pause)
		}
		if err != nil {
			return err
		}
	}
}

// eventWriter writes the events of gpus.
type eventWriter struct {
	reader
	out  *json.Encoder
	gpus []watchedGPU
	lost map[string]bool // UUIDs of the GPUs with a Lost event
}

type watchedGPU struct {
	uuid string
	dev  nvml.Device
}

func (w *eventWriter) write(e Event) error {
	e.Version = eventVersion
	return w.out.Encode(e)
}

// register asks for the events of every GPU that supports them.
func (w *eventWriter) register(set nvml.EventSet) error {
	n, ret := w.lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return fmt.Errorf("cannot count GPUs: %w", ret)
	}
	const wanted = nvml.EventTypeXidCriticalError | nvml.EventTypeDoubleBitEccError
	why := errors.New("there is no GPU")
	for i := range min(n, maxGPUs) {
		dev, ret := w.lib.DeviceGetHandleByIndex(i)
		if ret != nvml.SUCCESS {
			why = fmt.Errorf("cannot open GPU %d: %w", i, ret)
			continue
		}
		supported := ask(dev.GetSupportedEventTypes)
		if value(supported)&wanted == 0 {
			why = fmt.Errorf("GPU %d supports no events", i)
			continue
		}
		if ret := dev.RegisterEvents(*supported&wanted, set); ret != nvml.SUCCESS {
			why = fmt.Errorf("GPU %d: %w", i, ret)
			continue
		}
		w.gpus = append(w.gpus, watchedGPU{value(ask(dev.GetUUID)), dev})
	}
	if len(w.gpus) == 0 {
		return why
	}
	return nil
}

// writeEvent writes one event.
func (w *eventWriter) writeEvent(data nvml.EventData) error {
	e := Event{UUID: w.uuidOf(data.Device)}
	switch data.EventType {
	case nvml.EventTypeXidCriticalError:
		e.Kind, e.Code = Xid, data.EventData
	case nvml.EventTypeDoubleBitEccError:
		e.Kind = DoubleBit
	default:
		return nil
	}
	if data.GpuInstanceId != noInstance {
		e.GI = new(int(data.GpuInstanceId))
	}
	if data.ComputeInstanceId != noInstance {
		e.CI = new(int(data.ComputeInstanceId))
	}
	return w.write(e)
}

// uuidOf returns a GPU's UUID. It tries the UUIDs in gpus first, because a lost GPU
// no longer answers.
func (w *eventWriter) uuidOf(dev nvml.Device) string {
	for _, g := range w.gpus {
		if g.dev == dev && g.uuid != "" {
			return g.uuid
		}
	}
	if dev == nil {
		return ""
	}
	return value(ask(dev.GetUUID))
}

// writeLost writes a Lost event for each GPU that no longer answers, once.
func (w *eventWriter) writeLost() error {
	for _, g := range w.gpus {
		_, ret := g.dev.GetPersistenceMode()
		if (ret != nvml.ERROR_GPU_IS_LOST && ret != nvml.ERROR_RESET_REQUIRED) || w.lost[g.uuid] {
			continue
		}
		w.lost[g.uuid] = true
		if err := w.write(Event{Kind: Lost, UUID: g.uuid, Text: ret.Error()}); err != nil {
			return err
		}
	}
	return nil
}
