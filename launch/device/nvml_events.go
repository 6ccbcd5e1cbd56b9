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
	// maxFailures is how many waits in a row may fail. After more the library
	// is of no use to this process.
	maxFailures = 5
	noInstance  = 0xFFFFFFFF // in an event that concerns the whole GPU
)

// tellEvents writes each event until nobody reads or the library fails.
func tellEvents(w io.Writer) error {
	return reader{nvml.New(), os.DirFS("/")}.events(w, time.Second)
}

// events writes each event of the GPUs to w. It waits at most heartbeat for an
// event, and pause after a failure.
func (r reader) events(w io.Writer, pause time.Duration) error {
	done, err := r.open()
	if err != nil {
		return refuse(w, err)
	}
	defer done()
	set, ret := r.lib.EventSetCreate()
	if ret != nvml.SUCCESS {
		return refuse(w, fmt.Errorf("cannot make an event set: %w", ret))
	}
	defer set.Free()
	t := teller{reader: r, w: json.NewEncoder(w), lost: map[string]bool{}}
	if err := t.register(set); err != nil {
		return refuse(w, err)
	}
	if err := t.tell(Event{Kind: Watching}); err != nil {
		return err
	}
	for failures := 0; ; {
		data, ret := set.Wait(uint32(heartbeat.Milliseconds()))
		switch ret {
		case nvml.SUCCESS:
			failures = 0
			err = t.happened(data)
		case nvml.ERROR_TIMEOUT:
			failures = 0
			err = t.tell(Event{Kind: Alive})
		default:
			if failures++; failures > maxFailures {
				return fmt.Errorf("cannot wait for events: %w", ret)
			}
			err = t.tellLost()
			time.Sleep(pause)
		}
		if err != nil {
			return err
		}
	}
}

// teller writes the events of the GPUs in gpus.
type teller struct {
	reader
	w    *json.Encoder
	gpus []watched
	lost map[string]bool // UUIDs of GPUs already reported as lost
}

type watched struct {
	uuid string
	dev  nvml.Device
}

func (t *teller) tell(e Event) error {
	e.Version = eventVersion
	return t.w.Encode(e)
}

// register asks for the events of every GPU that reports any.
func (t *teller) register(set nvml.EventSet) error {
	n, ret := t.lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return fmt.Errorf("cannot count GPUs: %w", ret)
	}
	const wanted = nvml.EventTypeXidCriticalError | nvml.EventTypeDoubleBitEccError
	why := errors.New("there is no GPU")
	for i := range min(n, maxGPUs) {
		dev, ret := t.lib.DeviceGetHandleByIndex(i)
		if ret != nvml.SUCCESS {
			why = fmt.Errorf("cannot open GPU %d: %w", i, ret)
			continue
		}
		can := ask(dev.GetSupportedEventTypes)
		if value(can)&wanted == 0 {
			why = fmt.Errorf("GPU %d supports none", i)
			continue
		}
		if ret := dev.RegisterEvents(*can&wanted, set); ret != nvml.SUCCESS {
			why = fmt.Errorf("GPU %d: %w", i, ret)
			continue
		}
		t.gpus = append(t.gpus, watched{value(ask(dev.GetUUID)), dev})
	}
	if len(t.gpus) == 0 {
		return why
	}
	return nil
}

// happened writes one event.
func (t *teller) happened(data nvml.EventData) error {
	e := Event{UUID: t.name(data.Device)}
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
	return t.tell(e)
}

// name returns a GPU's UUID. A GPU that has just been lost no longer answers,
// so known UUIDs come first.
func (t *teller) name(dev nvml.Device) string {
	for _, g := range t.gpus {
		if g.dev == dev && g.uuid != "" {
			return g.uuid
		}
	}
	if dev == nil {
		return ""
	}
	return value(ask(dev.GetUUID))
}

// tellLost looks for GPUs that no longer answer and reports each once.
func (t *teller) tellLost() error {
	for _, g := range t.gpus {
		_, ret := g.dev.GetPersistenceMode()
		if (ret != nvml.ERROR_GPU_IS_LOST && ret != nvml.ERROR_RESET_REQUIRED) || t.lost[g.uuid] {
			continue
		}
		t.lost[g.uuid] = true
		if err := t.tell(Event{Kind: Lost, UUID: g.uuid, Text: ret.Error()}); err != nil {
			return err
		}
	}
	return nil
}
