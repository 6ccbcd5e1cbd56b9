//go:build linux && cgo && !nonvml

package device

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxh100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"
)

// runEvents runs a machine whose event set returns the outcomes in turn, and
// then fails.
func runEvents(t *testing.T, steps ...func(*server.Server) (nvml.EventData, nvml.Return)) (lines []Event, err error) {
	t.Helper()
	s := dgxh100.New()
	fillAnswers(s, true)
	for i, d := range s.Devices {
		dev := d.(*server.Device)
		dev.UUID = "GPU-" + string("01234567"[i])
		dev.GetSupportedEventTypesFunc = func() (uint64, nvml.Return) { return nvml.EventTypeAll, nvml.SUCCESS }
		dev.RegisterEventsFunc = func(types uint64, _ nvml.EventSet) nvml.Return {
			if i == 7 {
				return nvml.ERROR_NOT_SUPPORTED
			}
			return nvml.SUCCESS
		}
	}
	n := 0
	s.EventSetCreateFunc = func() (nvml.EventSet, nvml.Return) {
		return &mock.EventSet{
			FreeFunc: func() nvml.Return { return nvml.SUCCESS },
			WaitFunc: func(uint32) (nvml.EventData, nvml.Return) {
				if n++; n > len(steps) {
					return nvml.EventData{}, nvml.ERROR_UNKNOWN
				}
				return steps[n-1](s)
			},
		}, nvml.SUCCESS
	}
	var out bytes.Buffer
	err = reader{s, fstest.MapFS{}}.writeEvents(&out, 0)
	(&lineWriter{most: maxLine, line: func(line []byte) {
		e, ok := readEvent(line)
		if !ok {
			t.Errorf("no event: %s", line)
		}
		lines = append(lines, e)
	}}).Write(out.Bytes())
	return lines, err
}

func TestEvents(t *testing.T) {
	xid := func(gpu int, code uint64, instance uint32) func(*server.Server) (nvml.EventData, nvml.Return) {
		return func(s *server.Server) (nvml.EventData, nvml.Return) {
			return nvml.EventData{Device: s.Devices[gpu], EventType: nvml.EventTypeXidCriticalError, EventData: code, GpuInstanceId: instance, ComputeInstanceId: instance}, nvml.SUCCESS
		}
	}
	got, err := runEvents(
		t,
		func(*server.Server) (d nvml.EventData, _ nvml.Return) { return d, nvml.ERROR_TIMEOUT },
		xid(3, 79, noInstance),
		xid(1, 31, 2),
		func(s *server.Server) (nvml.EventData, nvml.Return) {
			return nvml.EventData{Device: s.Devices[2], EventType: nvml.EventTypeDoubleBitEccError, GpuInstanceId: noInstance, ComputeInstanceId: noInstance}, nvml.SUCCESS
		},
		func(s *server.Server) (d nvml.EventData, _ nvml.Return) {
			gpuAt(s, 5).GetPersistenceModeFunc = func() (m nvml.EnableState, _ nvml.Return) { return m, nvml.ERROR_GPU_IS_LOST }
			return d, nvml.ERROR_GPU_IS_LOST
		},
	)
	if err == nil {
		t.Error("no error from a library that fails for good")
	}
	want := []Event{
		{Kind: Watching},
		{Kind: Heartbeat},
		{Kind: Xid, UUID: "GPU-3", Code: 79},
		{Kind: Xid, UUID: "GPU-1", Code: 31, GI: new(2), CI: new(2)},
		{Kind: DoubleBit, UUID: "GPU-2"},
		{Kind: Lost, UUID: "GPU-5", Text: nvml.ERROR_GPU_IS_LOST.Error()},
	}
	for i := range want {
		want[i].Version = eventVersion
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestNoEventsWithoutTheLibrary(t *testing.T) {
	s := dgxa100.New()
	s.InitFunc = func() nvml.Return { return nvml.ERROR_LIBRARY_NOT_FOUND }
	s.ShutdownFunc = nil // must not be called
	var out bytes.Buffer
	if err := (reader{s, fstest.MapFS{}}).writeEvents(&out, 0); err != nil || !strings.Contains(out.String(), "cannot load NVML") {
		t.Errorf("got %v, %q", err, &out)
	}
	(reader{s, fstest.MapFS{}}).pass(NVML, func(_ Report, err error) {
		if err == nil {
			t.Error("no error without the library")
		}
	})
}
